/** The schema as the catalog tells it, in an order and a form that do not depend on the version of PostgreSQL. */
import type { Client } from "pg";

const TABLES = `
  select format('create %stable signalbox.%I%s (', case c.relpersistence when 'u' then 'unlogged ' else '' end, c.relname, '')
    || E'\\n' || string_agg(
      '  ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
      || case when a.attnotnull then ' not null' else '' end
      || case when a.attidentity = 'a' then ' generated always as identity' else '' end
      || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''), E',\\n' order by a.attnum)
    || E'\\n)' || coalesce(' with (' || array_to_string(c.reloptions, ', ') || ')', '') || ';' as text
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relnamespace = 'signalbox'::regnamespace and c.relkind = 'r'
  group by c.relname, c.relpersistence, c.reloptions
  order by c.relname collate "C"`;

const CONSTRAINTS = `
  select format('alter table signalbox.%I add constraint %I %s;', c.relname, k.conname, pg_get_constraintdef(k.oid)) as text
  from pg_constraint k join pg_class c on c.oid = k.conrelid
  where c.relnamespace = 'signalbox'::regnamespace and k.contype in ('p', 'u', 'c', 'f')
  order by c.relname collate "C", k.conname collate "C"`;

const INDEXES = `
  select pg_get_indexdef(i.indexrelid) || ';' as text
  from pg_index i join pg_class c on c.oid = i.indexrelid
  where c.relnamespace = 'signalbox'::regnamespace
    and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u'))
  order by c.relname collate "C"`;

const SEQUENCES = `
  select format('create sequence signalbox.%I as %s%s;', c.relname, format_type(s.seqtypid, null),
                case when s.seqcycle then ' cycle' else '' end) as text
  from pg_sequence s join pg_class c on c.oid = s.seqrelid
  where c.relnamespace = 'signalbox'::regnamespace
    and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i')
  order by c.relname collate "C"`;

const TYPES = `
  select format('create type signalbox.%I as (%s);', t.typname,
                string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum)) as text
  from pg_type t join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
  where t.typnamespace = 'signalbox'::regnamespace
  group by t.typname order by t.typname collate "C"`;

const SECURITY = `
  select format('alter table signalbox.%I %s row level security;', c.relname, form.word) as text
  from pg_class c
  cross join lateral (values ('enable', c.relrowsecurity), ('force', c.relforcerowsecurity)) as form(word, holds)
  where c.relnamespace = 'signalbox'::regnamespace and c.relkind = 'r' and form.holds
  order by c.relname collate "C", form.word`;

const POLICIES = `
  select format('create policy %I on signalbox.%I for %s to %s%s%s;', p.policyname, p.tablename, lower(p.cmd),
                array_to_string(p.roles, ', '), coalesce(' using (' || p.qual || ')', ''),
                coalesce(' with check (' || p.with_check || ')', '')) as text
  from pg_policies p where p.schemaname = 'signalbox'
  order by p.tablename collate "C", p.policyname collate "C"`;

const GRANTS = `
  select format('grant %s on signalbox.%I to %s;', lower(string_agg(g.privilege_type, ', ' order by g.privilege_type)),
                g.table_name, g.grantee) as text
  from information_schema.role_table_grants g
  where g.table_schema = 'signalbox' and g.grantee in ('signalbox_app', 'signalbox_run')
  group by g.table_name, g.grantee
  order by g.table_name collate "C", g.grantee collate "C"`;

const FUNCTIONS = `
  select pg_get_functiondef(p.oid) || ';' as text
  from pg_proc p where p.pronamespace = 'signalbox'::regnamespace
  order by p.proname collate "C", pg_get_function_identity_arguments(p.oid) collate "C"`;

const TRIGGERS = `
  select pg_get_triggerdef(t.oid) || ';' as text
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace = 'signalbox'::regnamespace and not t.tgisinternal
  order by c.relname collate "C", t.tgname collate "C"`;

export async function dumpSchema(client: Client): Promise<string> {
  const sections: string[] = [];
  for (const query of [
    SEQUENCES,
    TABLES,
    CONSTRAINTS,
    INDEXES,
    TYPES,
    SECURITY,
    POLICIES,
    GRANTS,
    TRIGGERS,
    FUNCTIONS,
  ]) {
    const { rows } = await client.query<{ text: string }>(query);
    sections.push(rows.map((row) => row.text.trim()).join("\n"));
  }
  return `-- Written from the catalog of a migrated database by tests/integration/store/migrations.test.ts.\n\n${sections.join("\n\n")}\n`;
}
