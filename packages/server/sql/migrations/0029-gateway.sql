-- The ledger of calls that clients of the gateway make by themselves: they have a principal and no run. A row is there
-- before the call leaves, and its outcome after.

create table signalbox.gateway_call (
  id               text primary key,
  tenant_id        text not null check (tenant_id <> ''),
  -- Canonical, as audit entries repeat it.
  actor            text not null,
  -- Whose calls count together: tenant, user and key of the actor.
  principal        text not null,
  -- The address the client used: `servers/docs` or `units/default`.
  endpoint         text not null,
  server           text not null,
  tool             text not null,
  effect           text not null check (effect in ('read', 'egress_read', 'write', 'irreversible')),
  definition_hash  text,
  arguments        text not null,
  arguments_digest text not null,
  state            text not null check (state in ('awaiting_approval', 'authorized', 'executing', 'succeeded', 'failed',
                                                  'unknown', 'denied', 'withdrawn')),
  process          integer,
  denial           text,
  error_code       text,
  result           text,
  result_summary   text,
  -- What came after the call was given up; its state stays as it was told to the client.
  late_result      text,
  trace_id         text,
  -- What the policy said of it, and which one.
  verdict          text check (verdict in ('allow', 'deny', 'ask')),
  policy_version   text,
  judgement        jsonb,
  -- Over server, tool, definition and the arguments the client gave: by it the same call is found again.
  call_digest      text,
  hold_id          text,
  -- As a person changed the arguments.
  edited_arguments text,
  -- Whether the client has read what came of a call that a person was asked about.
  told             boolean not null default false,
  -- Whether its client has answered what it asked.
  continued        boolean not null default false,
  started_at       timestamptz not null,
  finished_at      timestamptz,
  constraint gateway_call_closed
    check ((state in ('awaiting_approval', 'authorized', 'executing')) = (finished_at is null)),
  constraint gateway_call_executing check (state <> 'executing' or process is not null)
) with (fillfactor = 70);
create index gateway_call_tenant on signalbox.gateway_call (tenant_id, id);
create index gateway_call_process on signalbox.gateway_call (process) where state = 'executing';
create index gateway_call_principal on signalbox.gateway_call (principal, started_at);
-- Somebody is asked once about one call of one client.
create unique index gateway_call_asked on signalbox.gateway_call (principal, call_digest)
  where state in ('awaiting_approval', 'authorized');
create index gateway_call_age on signalbox.gateway_call (finished_at);

alter table signalbox.gateway_call enable row level security;
alter table signalbox.gateway_call force row level security;
create policy run_side on signalbox.gateway_call to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.gateway_call to signalbox_app
  using (tenant_id = nullif(current_setting('signalbox.tenant', true), ''))
  with check (tenant_id = nullif(current_setting('signalbox.tenant', true), ''));
grant select, update on signalbox.gateway_call to signalbox_app;
grant select, insert, update, delete on signalbox.gateway_call to signalbox_run;

-- Everything that counts for one client happens in order where a rule counts: a call that is begun, and a look at those
-- before it.
create function signalbox.lock_client(p_principal text) returns void
language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('client ' || p_principal, 0));
end $$;

-- The calls that a client made within this time besides the one that is judged, those under way and those that somebody is asked about among them,
-- and when that was looked at.
create function signalbox.client_history(p_principal text, p_besides text, p_window_ms bigint, p_limit integer) returns json
language plpgsql as $$
declare
  v_now timestamptz;
  v_history json;
  v_count integer;
begin
  perform signalbox.lock_client(p_principal);
  v_now := signalbox.clock();
  select coalesce(json_agg(json_build_object(
           'server', c.server, 'tool', c.tool, 'effect', c.effect, 'state', c.state,
           'arguments', coalesce(c.edited_arguments, c.arguments)::json, 'atMs', signalbox.unix_ms(c.started_at))
         order by c.started_at), '[]'), count(*)
  into v_history, v_count
  from (select * from signalbox.gateway_call g
        where g.principal = p_principal and g.id is distinct from p_besides
          and g.started_at > v_now - make_interval(secs => p_window_ms / 1000.0)
        order by g.started_at desc limit p_limit + 1) c;
  return json_build_object('history', v_history, 'isCut', v_count > p_limit, 'nowMs', signalbox.unix_ms(v_now),
                           'asOf', v_now::text);
end $$;

-- Why a call of a client may not begin whatever its policy says; null when it may. A stop or a pause of the tenant
-- refuses: a client that is not a run has nobody who could wait for its end.
create function signalbox.client_refusal(p_tenant text, p_process integer) returns json
language plpgsql as $$
declare
  v_stop signalbox.stop := signalbox.stop_over(p_tenant, null, null, null);
begin
  if not signalbox.process_lives(p_process) then
    return json_build_object('code', 'database_unavailable', 'detail', 'This gate has lost its presence in the record.');
  elsif v_stop.id is not null then
    return json_build_object('code', 'operator_stopped');
  end if;
  return null;
end $$;

create function signalbox.note_gateway_called(p_call signalbox.gateway_call) returns void
language plpgsql as $$
begin
  perform signalbox.audit(p_call.tenant_id, 'tool_called', p_call.actor, null, null, null,
    '{"argumentsDigest":' || signalbox.quoted(p_call.arguments_digest)
    || ',"definitionHash":' || signalbox.quoted(p_call.definition_hash)
    || ',"effect":' || signalbox.quoted(p_call.effect)
    || ',"endpoint":' || signalbox.quoted(p_call.endpoint)
    || ',"gatewayCallId":' || signalbox.quoted(p_call.id)
    || case when p_call.hold_id is null then '' else ',"holdId":' || signalbox.quoted(p_call.hold_id) end
    || ',"name":' || signalbox.quoted(p_call.server || '/' || p_call.tool)
    || ',"policyVersion":' || signalbox.quoted(p_call.policy_version) || '}');
end $$;

create function signalbox.note_gateway_denied(p_call signalbox.gateway_call) returns void
language plpgsql as $$
begin
  perform signalbox.audit(p_call.tenant_id, 'tool_denied', p_call.actor, null, null, null,
    '{"denial":' || signalbox.quoted(p_call.denial)
    || ',"errorCode":' || signalbox.quoted(p_call.error_code)
    || ',"gatewayCallId":' || signalbox.quoted(p_call.id)
    || ',"name":' || signalbox.quoted(p_call.server || '/' || p_call.tool)
    || ',"policyVersion":' || signalbox.quoted(p_call.policy_version)
    || ',"state":' || signalbox.quoted(p_call.state) || '}');
end $$;

-- The intent. `p_counted`: a rule counts this client's calls. Where the judgement rests on them as they were at `p_as_of`
-- and there are newer ones, it is to be made again.
create function signalbox.begin_gateway_call(
  p_call text, p_tenant text, p_actor text, p_principal text, p_process integer, p_endpoint text, p_server text,
  p_tool text, p_effect text, p_definition_hash text, p_arguments text, p_digest text, p_trace text, p_policy text,
  p_judgement jsonb, p_counted boolean, p_as_of timestamptz) returns json
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
  v_refusal json := signalbox.client_refusal(p_tenant, p_process);
begin
  if v_refusal is not null then
    return v_refusal;
  end if;
  if p_counted then
    perform signalbox.lock_client(p_principal);
    if exists (select from signalbox.gateway_call g where g.principal = p_principal and g.started_at > p_as_of
               and g.state not in ('denied', 'withdrawn'))
    then
      return json_build_object('kind', 'judge');
    end if;
  end if;
  insert into signalbox.gateway_call (id, tenant_id, actor, principal, endpoint, server, tool, effect, definition_hash,
                                      arguments, arguments_digest, state, process, trace_id, verdict, policy_version,
                                      judgement, started_at)
  values (p_call, p_tenant, p_actor, p_principal, p_endpoint, p_server, p_tool, p_effect, p_definition_hash, p_arguments,
          p_digest, 'executing', p_process, p_trace, 'allow', p_policy, p_judgement, signalbox.clock())
  returning * into strict v_call;
  perform signalbox.note_gateway_called(v_call);
  return json_build_object('kind', 'begun');
end $$;

-- A denial in place of an intent.
create function signalbox.refuse_gateway_call(
  p_call text, p_tenant text, p_actor text, p_principal text, p_endpoint text, p_server text, p_tool text, p_effect text,
  p_arguments text, p_digest text, p_code text, p_reason text, p_policy text, p_judgement jsonb) returns json
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
begin
  insert into signalbox.gateway_call (id, tenant_id, actor, principal, endpoint, server, tool, effect, arguments,
                                      arguments_digest, state, denial, error_code, verdict, policy_version, judgement,
                                      started_at, finished_at)
  values (p_call, p_tenant, p_actor, p_principal, p_endpoint, p_server, p_tool, p_effect, p_arguments, p_digest, 'denied',
          p_reason, p_code, 'deny', p_policy, p_judgement, signalbox.clock(), signalbox.clock())
  returning * into strict v_call;
  perform signalbox.note_gateway_denied(v_call);
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
  with old as (
    delete from signalbox.gateway_call d where d.id in (
      select g.id from signalbox.gateway_call g
      where g.finished_at < signalbox.clock() - make_interval(secs => p_age_ms / 1000.0)
      order by g.finished_at limit p_limit for update skip locked)
    returning d.id)
  , unasked as (delete from signalbox.hold h where h.gateway_call_id in (select o.id from old o) returning h.id)
  select count(*) into v_gone from old;
  return v_count + v_gone;
end $$;
