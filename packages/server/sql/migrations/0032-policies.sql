-- Policies of the tool gate: documents that never change, one of which a tenant's calls are judged by, and what is known of
-- a run whose calls are judged. A tenant without one is judged by the policy that the platform ships with.

create table signalbox.policy (
  id           text primary key check (id like 'pol\_%'),
  tenant_id    text not null check (tenant_id <> ''),
  -- SHA-256 (hex) of the document.
  hash         text not null,
  -- Canonical JSON.
  document     text not null,
  created_by   text not null,
  created_at   timestamptz not null default signalbox.clock(),
  active       boolean not null default false,
  -- When and by whom it was last put in place.
  activated_at timestamptz,
  activated_by text,
  constraint policy_activated check ((activated_at is null) = (activated_by is null)),
  constraint policy_was_activated check (not active or activated_at is not null)
);
create unique index policy_active on signalbox.policy (tenant_id) where active;
create index policy_of_tenant on signalbox.policy (tenant_id, id);

alter table signalbox.policy enable row level security;
alter table signalbox.policy force row level security;
create policy own_tenant on signalbox.policy for all to signalbox_app
  using (tenant_id = nullif(current_setting('signalbox.tenant', true), ''))
  with check (tenant_id = nullif(current_setting('signalbox.tenant', true), ''));
create policy run_side on signalbox.policy for select to signalbox_run using (true);
grant select, insert, update (active, activated_at, activated_by) on signalbox.policy to signalbox_app;
grant select on signalbox.policy to signalbox_run;

-- What tools answered in a conversation, newest first: the size of a conversation is not what a judgement costs.
create index tool_call_answered on signalbox.tool_call (conversation_id, finished_at)
  where result is not null and replay_of is null;

create function signalbox.current_policy(p_tenant text) returns json
language sql stable
begin atomic
  select json_build_object('policy', (
    select json_build_object('hash', p.hash, 'document', p.document::json)
    from signalbox.policy p where p.tenant_id = p_tenant and p.active));
end;

-- What a run's calls are judged by besides themselves: what people wrote in its conversation and what tools answered
-- there, newest first until there is enough of it, and the calls of the run, with the arguments they were carried out
-- with. With `p_as_of`, as it was when that call was proposed.
create function signalbox.run_facts(p_run text, p_besides text[], p_sources boolean, p_history boolean, p_as_of text,
                                    p_limits json) returns json
language plpgsql stable as $$
declare
  v_run signalbox.run;
  v_at timestamptz;
  v_chars integer := (p_limits ->> 'textChars')::integer;
  v_all_chars integer := (p_limits ->> 'allTextChars')::integer;
  v_count integer := (p_limits ->> 'textCount')::integer;
  v_texts json := '[]';
  v_cut boolean := false;
begin
  select r.* into v_run from signalbox.run r where r.id = p_run;
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  select coalesce((select t.proposed_at from signalbox.tool_call t where t.id = p_as_of), 'infinity') into v_at;
  if p_sources then
    with said as (
      (select 'user' as kind, null as server, null as tool, null as effect, m.text, m.created_at as at
       from signalbox.message m
       where m.conversation_id = v_run.conversation_id and m.role = 'user' and not m.struck and m.created_at <= v_at
       order by m.position desc limit v_count)
      union all
      (select 'tool', t.server, t.tool, t.effect, t.result, t.finished_at
       from signalbox.tool_call t
       where t.conversation_id = v_run.conversation_id and t.result is not null and t.replay_of is null
         and t.state in ('succeeded', 'failed', 'unknown') and t.finished_at <= v_at
       order by t.finished_at desc limit v_count)),
    counted as (
      select s.*, left(s.text, v_chars) as part, length(s.text) > v_chars as is_cut,
             row_number() over (order by (s.kind = 'user') desc, s.at desc) as place,
             sum(least(length(s.text), v_chars)) over (order by (s.kind = 'user') desc, s.at desc
                                                       rows unbounded preceding) as total
      from said s)
    select coalesce(json_agg(json_build_object('kind', c.kind, 'server', c.server, 'tool', c.tool, 'effect', c.effect,
                                               'text', c.part) order by c.place) filter (where c.total <= v_all_chars), '[]'),
           coalesce(bool_or(c.is_cut or c.total > v_all_chars), false) or count(*) filter (where c.kind = 'tool') >= v_count
    into v_texts, v_cut
    from counted c;
  end if;
  return json_build_object(
    'texts', v_texts, 'areTextsCut', v_cut, 'nowMs', signalbox.unix_ms(least(signalbox.clock(), v_at)),
    'history', case when p_history then (
      select coalesce(json_agg(json_build_object(
               'name', t.name, 'server', coalesce(t.server, ''), 'tool', coalesce(t.tool, ''), 'effect', t.effect,
               'state', t.state, 'arguments', coalesce(t.edited_arguments, t.arguments)::json,
               'atMs', signalbox.unix_ms(t.proposed_at))
             order by t.proposed_at, t.ordinal), '[]')
      from (select * from signalbox.tool_call c
            where c.run_id = p_run and c.id <> all (p_besides) and (p_as_of is null or c.proposed_at < v_at
              or (c.proposed_at = v_at and c.ordinal < (select o.ordinal from signalbox.tool_call o where o.id = p_as_of)))
            order by c.proposed_at desc, c.ordinal desc
            limit (p_limits ->> 'historyCount')::integer) t)
      else '[]'::json end);
end $$;
