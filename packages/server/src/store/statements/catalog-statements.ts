/** What PostgreSQL knows of our functions. */
export const FUNCTION_DEFINITION = `
  select pg_get_functiondef(p.oid) as definition
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.nspname = 'signalbox' and p.proname = $1`;

/** Whether a run waits without a process, or is over. */
export const RUN_AT_REST = `select state, finished_at is not null as "isOver" from signalbox.run where id = $1`;
