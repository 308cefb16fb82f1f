-- Approvals of calls that clients of the gateway make: holds without a run. The call waits in its row, for as long as the
-- approval may take, and whoever asks for the same call again finds what became of it.

alter table signalbox.hold
  alter column conversation_id drop not null,
  alter column run_id drop not null,
  add column gateway_call_id text,
  add constraint hold_of_one check ((run_id is null) = (conversation_id is null)
                                    and (run_id is null) = (gateway_call_id is not null));
create index hold_gateway on signalbox.hold (gateway_call_id) where gateway_call_id is not null;
grant delete on signalbox.hold to signalbox_run;

-- What a receiver is told of a hold that belongs to no conversation.
create function signalbox.owe_client_hold(p_hold signalbox.hold, p_type text, p_data jsonb) returns void
language plpgsql as $$
declare
  v_webhook text;
  v_delivery text;
  v_at text := signalbox.rfc3339(signalbox.clock());
begin
  for v_webhook in
    select w.id from signalbox.webhook w
    where w.tenant_id = p_hold.tenant_id and w.disabled_at is null and p_type = any (w.events)
  loop
    v_delivery := signalbox.new_id('dlv');
    insert into signalbox.webhook_delivery (id, tenant_id, webhook_id, type, payload)
    values (v_delivery, p_hold.tenant_id, v_webhook, p_type, jsonb_build_object(
      'id', v_delivery, 'type', p_type, 'timestamp', v_at, 'data', p_data || jsonb_build_object(
        'type', p_type, 'itemId', p_hold.id, 'conversationId', null, 'runId', null,
        'gatewayCallId', p_hold.gateway_call_id, 'at', v_at, 'holdId', p_hold.id, 'kind', p_hold.kind))::text);
  end loop;
end $$;

create function signalbox.put_client_hold(p_call signalbox.gateway_call, p_title text) returns signalbox.hold
language plpgsql as $$
declare
  v_hold signalbox.hold;
begin
  insert into signalbox.hold (id, tenant_id, gateway_call_id, kind, subject, digest, expires_at)
  values (p_call.hold_id, p_call.tenant_id, p_call.id, 'approval', jsonb_build_object(
      'gatewayCallId', p_call.id, 'endpoint', p_call.endpoint, 'name', p_call.server || '__' || p_call.tool,
      'server', p_call.server, 'tool', p_call.tool, 'title', coalesce(p_title, p_call.tool), 'effect', p_call.effect,
      'grade', 'contained', 'argumentsJson', p_call.arguments, 'definitionHash', p_call.definition_hash,
      'policyVersion', p_call.policy_version, 'rules', coalesce(p_call.judgement -> 'rules', '[]'),
      'reason', p_call.judgement ->> 'reason', 'origins', coalesce(p_call.judgement -> 'origins', '[]'),
      'approver', coalesce(p_call.judgement ->> 'approver', 'anyone')),
    p_call.call_digest,
    signalbox.clock() + make_interval(secs => (p_call.judgement ->> 'expiresInMs')::bigint / 1000.0))
  returning * into strict v_hold;
  perform signalbox.audit(p_call.tenant_id, 'hold_opened', p_call.actor, null, null, null,
    '{"digest":' || signalbox.quoted(v_hold.digest)
    || ',"gatewayCallId":' || signalbox.quoted(p_call.id)
    || ',"holdId":' || signalbox.quoted(v_hold.id)
    || ',"kind":' || signalbox.quoted(v_hold.kind) || '}');
  perform signalbox.owe_client_hold(v_hold, 'hold.opened', jsonb_build_object(
    'subject', v_hold.subject, 'digest', v_hold.digest, 'expiresAt', signalbox.rfc3339(v_hold.expires_at)));
  return v_hold;
end $$;

-- A call that will not be made, and what its client reads instead of a result.
create function signalbox.deny_asked_call(p_call text, p_code text, p_reason text, p_result text)
returns signalbox.gateway_call
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
begin
  update signalbox.gateway_call
  set state = 'denied', denial = p_reason, error_code = p_code, finished_at = signalbox.clock(), result = p_result
  where id = p_call and state in ('awaiting_approval', 'authorized')
  returning * into strict v_call;
  perform signalbox.note_gateway_denied(v_call);
  return v_call;
end $$;

-- An approval of a client's call is over, and the call moves with it, in the transaction that closes it.
create function signalbox.move_gateway_call(p_hold signalbox.hold) returns void
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
  v_words text := signalbox.words_of(p_hold.response);
  v_reason text;
begin
  select g.* into v_call from signalbox.gateway_call g
  where g.id = p_hold.gateway_call_id and g.hold_id = p_hold.id and g.state = 'awaiting_approval' for update;
  if not found then
    return;
  end if;
  case
    when p_hold.state = 'withdrawn' then
      update signalbox.gateway_call
      set state = 'withdrawn', denial = 'The call was given up before anybody decided.', finished_at = signalbox.clock()
      where id = v_call.id;
    when p_hold.state = 'expired' then
      v_reason := 'Nobody approved this call in time.';
      perform signalbox.deny_asked_call(v_call.id, 'approval_expired', v_reason,
                                        signalbox.said(v_reason || ' (approval_expired)', true));
    when p_hold.decision in ('approve', 'edit') then
      update signalbox.gateway_call
      set state = 'authorized', edited_arguments = case p_hold.decision when 'edit' then p_hold.response ->> 'argumentsJson' end
      where id = v_call.id;
    when p_hold.decision = 'respond' then
      perform signalbox.deny_asked_call(v_call.id, null, 'A person answered in place of the tool.',
                                        signalbox.said(coalesce(v_words, ''), false));
    else
      v_reason := 'A person refused this call' || coalesce(': ' || v_words, '.');
      perform signalbox.deny_asked_call(v_call.id, 'approval_rejected', v_reason,
                                        signalbox.said(v_reason || ' (approval_rejected)', true));
  end case;
end $$;

-- Closes the hold of a client's call: tells of it as of any other, and moves the call.
create function signalbox.note_client_hold_closed(p_hold signalbox.hold) returns void
language plpgsql as $$
begin
  perform signalbox.audit(p_hold.tenant_id, 'hold_' || p_hold.state, p_hold.decided_by, null, null, null,
    '{"decision":' || signalbox.quoted(p_hold.decision)
    || ',"digest":' || signalbox.quoted(p_hold.digest)
    || ',"gatewayCallId":' || signalbox.quoted(p_hold.gateway_call_id)
    || ',"holdId":' || signalbox.quoted(p_hold.id)
    || ',"kind":' || signalbox.quoted(p_hold.kind) || '}');
  perform signalbox.owe_client_hold(p_hold, 'hold.' || p_hold.state,
    case p_hold.state when 'decided' then jsonb_build_object('decision', p_hold.decision) else '{}'::jsonb end);
  perform signalbox.move_gateway_call(p_hold);
end $$;

-- What a gate needs to know of a call that somebody is asked about. What came of it counts as told from here on.
create function signalbox.asked_call(p_call signalbox.gateway_call) returns json
language plpgsql as $$
declare
  v_hold signalbox.hold;
begin
  select h.* into v_hold from signalbox.hold h where h.id = p_call.hold_id;
  if p_call.finished_at is not null and not p_call.told then
    update signalbox.gateway_call set told = true where id = p_call.id;
  end if;
  return json_build_object('kind', 'asked', 'callId', p_call.id, 'holdId', p_call.hold_id, 'state', p_call.state,
    'argumentsJson', coalesce(p_call.edited_arguments, p_call.arguments),
    'isEdited', p_call.edited_arguments is not null, 'expiresAtMs', signalbox.unix_ms(v_hold.expires_at),
    'errorCode', p_call.error_code, 'detail', p_call.denial, 'resultJson', p_call.result);
end $$;

-- What is overdue is over, whether or not a sweep has been there.
create function signalbox.look_at_asked(p_call signalbox.gateway_call) returns json
language plpgsql as $$
declare
  v_call signalbox.gateway_call := p_call;
  v_hold signalbox.hold;
begin
  if v_call.state in ('awaiting_approval', 'authorized') then
    select h.* into strict v_hold from signalbox.hold h where h.id = v_call.hold_id for update;
    if v_hold.expires_at <= signalbox.clock() then
      if v_hold.state = 'open' then
        perform signalbox.close_hold(v_hold.id, 'expired', null, null, null);
      elsif v_call.state = 'authorized' then
        perform signalbox.deny_asked_call(v_call.id, 'approval_expired', 'The approval of this call has expired.',
          signalbox.said('The approval of this call has expired. (approval_expired)', true));
      end if;
    end if;
    select g.* into strict v_call from signalbox.gateway_call g where g.id = v_call.id;
  end if;
  return signalbox.asked_call(v_call);
end $$;

-- Asks a person about a client's call, or finds what became of it since it was asked before. `p_open_max`: so many calls of
-- one client may wait at once.
create function signalbox.ask_gateway_call(
  p_call text, p_tenant text, p_actor text, p_principal text, p_process integer, p_endpoint text, p_server text,
  p_tool text, p_effect text, p_definition_hash text, p_arguments text, p_digest text, p_trace text, p_policy text,
  p_judgement jsonb, p_call_digest text, p_title text, p_open_max integer) returns json
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
  v_refusal json := signalbox.client_refusal(p_tenant, p_process);
begin
  if v_refusal is not null then
    return v_refusal;
  end if;
  perform signalbox.lock_client(p_principal);
  select g.* into v_call from signalbox.gateway_call g
  where g.principal = p_principal and g.call_digest = p_call_digest
    and (g.state in ('awaiting_approval', 'authorized') or (g.state = 'denied' and not g.told))
  order by g.finished_at is not null, g.started_at desc limit 1;
  if found then
    return signalbox.look_at_asked(v_call);
  end if;
  if (select count(*) from signalbox.gateway_call g
      where g.principal = p_principal and g.state in ('awaiting_approval', 'authorized')) >= p_open_max
  then
    return json_build_object('code', 'queue_full', 'detail', 'Too many calls of this client wait for a person.');
  end if;
  insert into signalbox.gateway_call (id, tenant_id, actor, principal, endpoint, server, tool, effect, definition_hash,
                                      arguments, arguments_digest, state, trace_id, verdict, policy_version, judgement,
                                      call_digest, hold_id, started_at)
  values (p_call, p_tenant, p_actor, p_principal, p_endpoint, p_server, p_tool, p_effect, p_definition_hash, p_arguments,
          p_digest, 'awaiting_approval', p_trace, 'ask', p_policy, p_judgement, p_call_digest, signalbox.new_id('hld'),
          signalbox.clock())
  returning * into strict v_call;
  perform signalbox.put_client_hold(v_call, p_title);
  return signalbox.asked_call(v_call);
end $$;

-- What became of a call that somebody was asked about, for the client that made it and for that very call.
create function signalbox.asked_gateway_call(p_call text, p_principal text, p_call_digest text) returns json
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
begin
  select g.* into v_call from signalbox.gateway_call g
  where g.id = p_call and g.principal = p_principal and g.call_digest = p_call_digest;
  if not found then
    return json_build_object('kind', 'none');
  end if;
  return signalbox.look_at_asked(v_call);
end $$;

-- The intent of a call that was approved: looks at the approval once more, at the moment it is used. `p_digest` names what is
-- about to be carried out. An approval that does not count any more is asked for again.
create function signalbox.begin_asked_call(p_call text, p_process integer, p_digest text, p_policy text) returns json
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
  v_hold signalbox.hold;
  v_refusal json;
  v_why text;
begin
  select g.* into v_call from signalbox.gateway_call g where g.id = p_call for update;
  if not found then
    return json_build_object('kind', 'none');
  end if;
  v_refusal := signalbox.client_refusal(v_call.tenant_id, p_process);
  if v_refusal is not null then
    return v_refusal;
  end if;
  select h.* into v_hold from signalbox.hold h where h.id = v_call.hold_id;
  if v_call.state <> 'authorized' or v_hold.expires_at <= signalbox.clock() then
    return signalbox.look_at_asked(v_call);
  end if;
  v_why := case
    when v_hold.state is distinct from 'decided' or v_hold.decision not in ('approve', 'edit') then 'not approved'
    when p_digest is distinct from case v_hold.decision when 'edit' then v_hold.response ->> 'digest'
                                                        else v_hold.digest end then 'another call'
    when not signalbox.may_still_decide(v_hold.decided_by, v_call.tenant_id) then 'approver may not any more'
    end;
  if v_why is not null then
    perform signalbox.audit(v_call.tenant_id, 'approval_void', v_call.actor, null, null, null,
      '{"gatewayCallId":' || signalbox.quoted(v_call.id)
      || ',"holdId":' || signalbox.quoted(v_hold.id)
      || ',"why":' || signalbox.quoted(v_why) || '}');
    update signalbox.gateway_call
    set state = 'awaiting_approval', hold_id = signalbox.new_id('hld'), edited_arguments = null where id = v_call.id
    returning * into strict v_call;
    perform signalbox.put_client_hold(v_call, v_hold.subject ->> 'title');
    return signalbox.asked_call(v_call);
  end if;
  update signalbox.gateway_call
  set state = 'executing', process = p_process, policy_version = p_policy, started_at = signalbox.clock()
  where id = v_call.id
  returning * into strict v_call;
  perform signalbox.note_gateway_called(v_call);
  return json_build_object('kind', 'begun');
end $$;

-- The next round of an approved call that asked its client for input: the approval covers it too, once, while it counts.
create function signalbox.continue_asked_call(p_call text, p_process integer, p_continues text, p_principal text,
                                              p_digest text) returns json
language plpgsql as $$
declare
  v_before signalbox.gateway_call;
  v_call signalbox.gateway_call;
  v_hold signalbox.hold;
  v_refusal json;
begin
  select g.* into v_before from signalbox.gateway_call g
  where g.id = p_continues and g.principal = p_principal and g.call_digest = p_digest and g.state = 'succeeded'
    and not g.continued and g.result::json ->> 'resultType' = 'input_required' for update;
  if not found then
    return json_build_object('kind', 'none');
  end if;
  v_refusal := signalbox.client_refusal(v_before.tenant_id, p_process);
  if v_refusal is not null then
    return v_refusal;
  end if;
  select h.* into strict v_hold from signalbox.hold h where h.id = v_before.hold_id;
  if v_hold.expires_at <= signalbox.clock() or not signalbox.may_still_decide(v_hold.decided_by, v_before.tenant_id) then
    return json_build_object('kind', 'none');
  end if;
  update signalbox.gateway_call set continued = true where id = v_before.id;
  insert into signalbox.gateway_call (id, tenant_id, actor, principal, endpoint, server, tool, effect, definition_hash,
                                      arguments, arguments_digest, state, process, trace_id, verdict, policy_version,
                                      judgement, call_digest, hold_id, edited_arguments, started_at)
  values (p_call, v_before.tenant_id, v_before.actor, p_principal, v_before.endpoint, v_before.server, v_before.tool,
          v_before.effect, v_before.definition_hash, v_before.arguments, v_before.arguments_digest, 'executing',
          p_process, v_before.trace_id, v_before.verdict, v_before.policy_version, v_before.judgement, p_digest,
          v_before.hold_id, v_before.edited_arguments, signalbox.clock())
  returning * into strict v_call;
  perform signalbox.note_gateway_called(v_call);
  return json_build_object('kind', 'begun');
end $$;

-- What was asked about is not to be made any more: today's policy, or the tool, is against it.
create function signalbox.refuse_asked_call(p_call text, p_code text, p_reason text) returns json
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
begin
  perform from signalbox.gateway_call g
  where g.id = p_call and g.state in ('awaiting_approval', 'authorized') for update;
  if not found then
    return json_build_object('kind', 'unchanged');
  end if;
  v_call := signalbox.deny_asked_call(p_call, p_code, p_reason, signalbox.said(p_reason || ' (' || p_code || ')', true));
  update signalbox.gateway_call set told = true where id = p_call;
  if exists (select from signalbox.hold h where h.id = v_call.hold_id and h.state = 'open') then
    perform signalbox.close_hold(v_call.hold_id, 'withdrawn', null, null, null);
  end if;
  return json_build_object('kind', 'denied');
end $$;

-- The client gives its call up; nobody is asked about it any more.
create function signalbox.withdraw_asked_call(p_call text, p_principal text) returns json
language plpgsql as $$
declare
  v_hold text;
begin
  select h.id into v_hold from signalbox.gateway_call g join signalbox.hold h on h.id = g.hold_id
  where g.id = p_call and g.principal = p_principal and h.state = 'open' for update of h;
  if not found then
    return json_build_object('kind', 'unchanged');
  end if;
  perform signalbox.close_hold(v_hold, 'withdrawn', null, null, null);
  return json_build_object('kind', 'withdrawn');
end $$;

-- After the store was put back: as for runs, what was approved and not carried out is asked again.
create function signalbox.ask_clients_again() returns void
language plpgsql as $$
declare
  v_call signalbox.gateway_call;
  v_title text;
begin
  for v_call in select g.* from signalbox.gateway_call g where g.state = 'authorized' order by g.id for update loop
    select h.subject ->> 'title' into v_title from signalbox.hold h where h.id = v_call.hold_id;
    update signalbox.gateway_call
    set state = 'awaiting_approval', hold_id = signalbox.new_id('hld'), edited_arguments = null
    where id = v_call.id
    returning * into strict v_call;
    perform signalbox.put_client_hold(v_call, v_title);
  end loop;
end $$;
