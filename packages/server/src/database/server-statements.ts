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
