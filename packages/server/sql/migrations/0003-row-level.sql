-- Who sees what. `signalbox_owner` owns everything and runs migrations only; being forced, the policies hold for it too.
-- `signalbox_app` serves requests and stays inside the one tenant its transaction names; without a name it sees nothing.
-- `signalbox_run` serves claims, sweeps, group commit and gates, which learn the tenant from the row they find.

do $$
declare
  v_table text;
begin
  for v_table in
    select c.relname from pg_class c
    where c.relnamespace = 'signalbox'::regnamespace and c.relkind = 'r' and c.relname <> 'migration'
    order by c.relname
  loop
    execute format('alter table signalbox.%I enable row level security', v_table);
    execute format('alter table signalbox.%I force row level security', v_table);
    execute format('create policy run_side on signalbox.%I to signalbox_run using (true) with check (true)', v_table);
    if v_table = 'process' then
      execute format('create policy presence on signalbox.%I for select to signalbox_app using (true)', v_table);
    else
      execute format(
        'create policy own_tenant on signalbox.%I to signalbox_app
           using (tenant_id = nullif(current_setting(''signalbox.tenant'', true), ''''))
           with check (tenant_id = nullif(current_setting(''signalbox.tenant'', true), ''''))', v_table);
    end if;
  end loop;
end $$;

grant usage on schema signalbox to signalbox_app, signalbox_run;

grant select on signalbox.process, signalbox.api_key, signalbox.agent, signalbox.agent_revision, signalbox.snapshot,
  signalbox.conversation, signalbox.ownership, signalbox.message, signalbox.run, signalbox.idempotency, signalbox.event,
  signalbox.tool, signalbox.model_call, signalbox.tool_call to signalbox_app;
grant insert on signalbox.api_key, signalbox.agent, signalbox.agent_revision, signalbox.snapshot,
  signalbox.conversation, signalbox.ownership, signalbox.message, signalbox.run, signalbox.idempotency, signalbox.event,
  signalbox.tool, signalbox.audit_pending to signalbox_app;
grant update on signalbox.api_key, signalbox.agent, signalbox.conversation, signalbox.ownership, signalbox.run,
  signalbox.idempotency, signalbox.tool to signalbox_app;
grant select, insert, update, delete on signalbox.slot to signalbox_app;

grant select on signalbox.api_key, signalbox.snapshot, signalbox.agent, signalbox.tool to signalbox_run;
grant select, update on signalbox.conversation, signalbox.ownership, signalbox.run to signalbox_run;
grant select, insert on signalbox.message, signalbox.event to signalbox_run;
grant select, insert, update on signalbox.model_call, signalbox.tool_call to signalbox_run;
grant select, insert, update, delete on signalbox.process, signalbox.slot, signalbox.transcript_entry to signalbox_run;
grant insert on signalbox.audit_pending to signalbox_run;
grant usage on sequence signalbox.incarnation to signalbox_run;
