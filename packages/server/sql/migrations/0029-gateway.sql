-- The ledger of calls that clients of the gateway make by themselves: they have a principal and no run. A row is there
-- before the call leaves, and its outcome after.

create table signalbox.gateway_call (
  id               text primary key,
  tenant_id        text not null check (tenant_id <> ''),
  -- Canonical, as audit entries repeat it.
  actor            text not null,
  -- The address the client used: `servers/docs` or `units/default`.
  endpoint         text not null,
  server           text not null,
  tool             text not null,
  effect           text not null check (effect in ('read', 'egress_read', 'write', 'irreversible')),
  definition_hash  text,
  arguments        text not null,
  arguments_digest text not null,
  state            text not null check (state in ('executing', 'succeeded', 'failed', 'unknown', 'denied')),
  process          integer,
  denial           text,
  error_code       text,
  result           text,
  result_summary   text,
  -- What came after the call was given up; its state stays as it was told to the client.
  late_result      text,
  trace_id         text,
  started_at       timestamptz not null,
  finished_at      timestamptz,
  constraint gateway_call_closed check ((state = 'executing') = (finished_at is null)),
  constraint gateway_call_executing check (state <> 'executing' or process is not null)
) with (fillfactor = 70);
create index gateway_call_tenant on signalbox.gateway_call (tenant_id, id);
create index gateway_call_process on signalbox.gateway_call (process) where state = 'executing';
create index gateway_call_age on signalbox.gateway_call (finished_at);

alter table signalbox.gateway_call enable row level security;
alter table signalbox.gateway_call force row level security;
create policy run_side on signalbox.gateway_call to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.gateway_call to signalbox_app
  using (tenant_id = nullif(current_setting('signalbox.tenant', true), ''))
  with check (tenant_id = nullif(current_setting('signalbox.tenant', true), ''));
grant select on signalbox.gateway_call to signalbox_app;
grant select, insert, update, delete on signalbox.gateway_call to signalbox_run;

-- The intent. Refused where the gate does not live, or an operator has stopped or paused the tenant: a client that is not
-- a run has nobody who could wait for it.
create function signalbox.begin_gateway_call(
  p_call text, p_tenant text, p_actor text, p_process integer, p_endpoint text, p_server text, p_tool text,
  p_effect text, p_definition_hash text, p_arguments text, p_digest text, p_trace text) returns json
language plpgsql as $$
declare
  v_stop signalbox.stop := signalbox.stop_over(p_tenant, null, null, null);
begin
  if not signalbox.process_lives(p_process) then
    return json_build_object('code', 'database_unavailable', 'detail', 'This gate has lost its presence in the record.');
  elsif v_stop.id is not null then
    return json_build_object('code', 'operator_stopped');
  end if;
  insert into signalbox.gateway_call (id, tenant_id, actor, endpoint, server, tool, effect, definition_hash, arguments,
                                      arguments_digest, state, process, trace_id, started_at)
  values (p_call, p_tenant, p_actor, p_endpoint, p_server, p_tool, p_effect, p_definition_hash, p_arguments, p_digest,
          'executing', p_process, p_trace, signalbox.clock());
  perform signalbox.audit(p_tenant, 'tool_called', p_actor, null, null, null,
    '{"argumentsDigest":' || signalbox.quoted(p_digest)
    || ',"definitionHash":' || signalbox.quoted(p_definition_hash)
    || ',"effect":' || signalbox.quoted(p_effect)
    || ',"endpoint":' || signalbox.quoted(p_endpoint)
    || ',"gatewayCallId":' || signalbox.quoted(p_call)
    || ',"name":' || signalbox.quoted(p_server || '/' || p_tool) || '}');
  return json_build_object('kind', 'begun');
end $$;

-- A denial in place of an intent.
create function signalbox.refuse_gateway_call(
  p_call text, p_tenant text, p_actor text, p_endpoint text, p_server text, p_tool text, p_effect text,
  p_arguments text, p_digest text, p_code text, p_reason text) returns json
language plpgsql as $$
begin
  insert into signalbox.gateway_call (id, tenant_id, actor, endpoint, server, tool, effect, arguments,
                                      arguments_digest, state, denial, error_code, started_at, finished_at)
  values (p_call, p_tenant, p_actor, p_endpoint, p_server, p_tool, p_effect, p_arguments, p_digest, 'denied', p_reason,
          p_code, signalbox.clock(), signalbox.clock());
  perform signalbox.audit(p_tenant, 'tool_denied', p_actor, null, null, null,
    '{"denial":' || signalbox.quoted(p_reason)
    || ',"errorCode":' || signalbox.quoted(p_code)
    || ',"gatewayCallId":' || signalbox.quoted(p_call)
    || ',"name":' || signalbox.quoted(p_server || '/' || p_tool) || ',"state":"denied"}');
  return json_build_object('kind', 'denied');
end $$;

create function signalbox.note_gateway_settled(p_call signalbox.gateway_call, p_late boolean) returns void
language plpgsql as $$
begin
  perform signalbox.audit(p_call.tenant_id, 'tool_settled', p_call.actor, null, null, null,
    '{"errorCode":' || signalbox.quoted(p_call.error_code)
    || ',"gatewayCallId":' || signalbox.quoted(p_call.id)
    || case when p_late then ',"late":true' else '' end
    || ',"name":' || signalbox.quoted(p_call.server || '/' || p_call.tool)
    || ',"resultDigest":' || signalbox.quoted(encode(sha256(convert_to(
         coalesce(case when p_late then p_call.late_result else p_call.result end, ''), 'UTF8')), 'hex'))
    || ',"state":' || signalbox.quoted(p_call.state) || '}');
end $$;

-- Closes the call once.
create function signalbox.settle_gateway_call(p_call text, p_state text, p_error_code text, p_result text,
                                              p_summary text) returns json
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
begin
  update signalbox.gateway_call
  set state = p_state, error_code = p_error_code, result = p_result, result_summary = p_summary,
      finished_at = signalbox.clock()
  where id = p_call and state = 'executing'
  returning * into v_call;
  if found then
    perform signalbox.note_gateway_settled(v_call, false);
  end if;
  return json_build_object('kind', case when v_call.id is null then 'unchanged' else 'settled' end);
end $$;

-- An answer that came after the call was given up. What the client was told stands; what was answered is kept.
create function signalbox.note_late_result(p_call text, p_result text) returns json
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
begin
  update signalbox.gateway_call set late_result = p_result
  where id = p_call and state in ('unknown', 'failed') and late_result is null
  returning * into v_call;
  if found then
    perform signalbox.note_gateway_settled(v_call, true);
  end if;
  return json_build_object('kind', case when v_call.id is null then 'unchanged' else 'noted' end);
end $$;

-- Open calls of gates that are dead become unknown, and what is older than retention keeps is removed; at most
-- `p_limit` rows of each.
create function signalbox.tidy_gateway_calls(p_age_ms bigint, p_limit integer) returns integer
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
  v_count integer := 0;
  v_gone integer;
begin
  for v_call in
    update signalbox.gateway_call u
    set state = 'unknown', error_code = 'tool_outcome_unknown', finished_at = signalbox.clock(),
        result_summary = 'The gate was lost while the call was running; whether it took effect is not known.'
    where u.id in (
      select g.id from signalbox.gateway_call g
      where g.state = 'executing' and not exists (
        select from signalbox.process p where p.incarnation = g.process and p.dead_at is null)
      order by g.id limit p_limit for update skip locked)
    returning u.*
  loop
    perform signalbox.note_gateway_settled(v_call, false);
    v_count := v_count + 1;
  end loop;
  delete from signalbox.gateway_call d where d.id in (
    select g.id from signalbox.gateway_call g
    where g.finished_at < signalbox.clock() - make_interval(secs => p_age_ms / 1000.0)
    order by g.finished_at limit p_limit for update skip locked);
  get diagnostics v_gone = row_count;
  return v_count + v_gone;
end $$;
