/** What is asked of a server when it is opened. */

/** `$1` is the name of our database. */
export const WHICH_CLUSTER = `
  select system_identifier::text as identifier,
         exists (select from pg_database where datname = $1) as present
    from pg_control_system()`;

export const CREATE_DATABASE = "create database signalbox";

export const WHICH_SERVER = `
  select current_setting('server_version_num')::int as number,
         current_setting('server_version') as name,
         pg_is_in_recovery() as standby`;

/** What decides whether a committed transaction survives, and whether this user can prepare the schema. */
export const DURABILITY = `
  select current_setting('server_version') as version,
         current_setting('fsync') = 'on' as fsync,
         current_setting('full_page_writes') = 'on' as full_page_writes,
         current_setting('synchronous_commit') <> 'off' as synchronous_commit,
         (select rolsuper or rolcreaterole from pg_roles where rolname = current_user) as may_create_roles,
         (select count(*) = 3 and bool_and(pg_has_role(current_user, oid, 'member')) from pg_roles
           where rolname in ('signalbox_owner', 'signalbox_app', 'signalbox_run')) as has_roles,
         exists (select from pg_namespace where nspname = 'signalbox')
           or has_database_privilege(current_database(), 'create') as may_have_schema`;

export const SERVER_PROCESS = "select pg_backend_pid() as pid";
