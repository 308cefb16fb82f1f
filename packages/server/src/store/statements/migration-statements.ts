/** Statements of the migrator. */
import { OWNER_ROLE } from "../roles.ts";

/** Two migrators of one database wait for each other. */
export const LOCK_MIGRATIONS = "select pg_advisory_lock(1396854616, 0)";

export const MISSING_ROLES = `
  select wanted.name from unnest($1::text[]) as wanted(name)
  where not exists (select from pg_roles where rolname = wanted.name)`;

/** Roles this user may not become yet. Since PostgreSQL 16 membership alone is not enough. */
export const FOREIGN_ROLES = `
  select wanted.name from unnest($1::text[]) as wanted(name)
  where not pg_has_role(current_user, wanted.name,
    case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end)`;

export function createRole(role: string): string {
  return `create role ${role} nologin`;
}

export function joinRole(role: string): string {
  return `grant ${role} to current_user`;
}

export const HAS_SCHEMA = "select from pg_namespace where nspname = 'signalbox'";
export const CREATE_SCHEMA = `create schema if not exists signalbox authorization ${OWNER_ROLE}`;
export const BECOME_OWNER = `set role ${OWNER_ROLE}`;

export const CREATE_MIGRATION_TABLE = `
  create table if not exists signalbox.migration (
    number     integer primary key,
    name       text not null,
    digest     text not null,
    applied_at timestamptz not null default clock_timestamp()
  );
  alter table signalbox.migration enable row level security;
  alter table signalbox.migration force row level security;
  drop policy if exists migrations on signalbox.migration;
  create policy migrations on signalbox.migration to ${OWNER_ROLE} using (true) with check (true)`;

export const HAS_MIGRATION_TABLE = "select to_regclass('signalbox.migration') is not null as present";
export const APPLIED_MIGRATIONS = "select number, name, digest from signalbox.migration order by number";
export const NOTE_MIGRATION = "insert into signalbox.migration (number, name, digest) values ($1, $2, $3)";
