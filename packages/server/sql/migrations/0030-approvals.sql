-- What the tool gate judges before a call is made: verdicts beside the calls of a message, the approvals they ask for,
-- and the rule that nothing of a message is carried out while one of its approvals is open.

alter table signalbox.tool_call
  add column verdict text check (verdict in ('allow', 'deny', 'ask')),
  add column policy_version text,
  -- Why: reason, rules that matched, what whoever approves must be, how long there is for it.
  add column judgement jsonb,
  -- Over server, tool, definition and the arguments that are carried out: what an approval is bound to.
  add column call_digest text,
  add column hold_id text,
  -- As a person changed the arguments; those the model proposed stand beside them.
  add column edited_arguments text,
  add column reconciled_by text,
  add column reconciled_at timestamptz,
  add column reconciliation_note text;
create index tool_call_message on signalbox.tool_call (model_call_id, ordinal);
create index tool_call_hold on signalbox.tool_call (hold_id) where hold_id is not null;

-- What may still become of a call before it is made.
create function signalbox.is_pending(p_state text) returns boolean
language sql immutable parallel safe
return p_state in ('proposed', 'awaiting_approval', 'authorized');

create function signalbox.said(p_text text, p_is_error boolean) returns text
language sql stable
return json_build_object('content', json_build_array(json_build_object('type', 'text', 'text', p_text)),
                         'isError', p_is_error)::text;

-- A call that will not be made, and what its model reads instead of a result.
create function signalbox.deny_pending(p_run signalbox.run, p_call text, p_code text, p_reason text, p_result text)
returns signalbox.tool_call
language plpgsql as $$
declare
  v_call signalbox.tool_call;
begin
  update signalbox.tool_call
  set state = 'denied', denial = p_reason, error_code = p_code, finished_at = signalbox.clock(), result = p_result
  where id = p_call and signalbox.is_pending(state)
  returning * into v_call;
  if found then
    perform signalbox.note_tool_finished(p_run, v_call);
  else
    select t.* into v_call from signalbox.tool_call t where t.id = p_call;
  end if;
  return v_call;
end $$;

-- Nobody is asked about a call any more.
create function signalbox.withdraw_question(p_call signalbox.tool_call) returns void
language plpgsql as $$
begin
  if exists (select from signalbox.hold h where h.id = p_call.hold_id and h.state = 'open') then
    perform signalbox.close_hold(p_call.hold_id, 'withdrawn', null, null, null);
  end if;
end $$;

-- What a verdict leaves in the row of a pending call. A denial ends it; nobody is asked about it any more.
create function signalbox.put_verdict(p_run signalbox.run, p_call text, p_policy text, p_verdict jsonb) returns void
language plpgsql as $$
declare
  v_call signalbox.tool_call;
begin
  update signalbox.tool_call
  set verdict = p_verdict ->> 'verdict', policy_version = p_policy, judgement = p_verdict - 'verdict',
      call_digest = coalesce(call_digest, p_verdict ->> 'callDigest')
  where id = p_call and signalbox.is_pending(state) and policy_version is distinct from p_policy
  returning * into v_call;
  if found and v_call.verdict = 'deny' then
    v_call := signalbox.deny_pending(p_run, p_call, p_verdict ->> 'code', p_verdict ->> 'reason',
                                     signalbox.said(p_verdict ->> 'reason', true));
    perform signalbox.withdraw_question(v_call);
  end if;
end $$;

-- The verdicts about the calls of one message. Each counts once for a version of the policy, whoever was first.
create function signalbox.record_verdicts(p_token_hash text, p_process integer, p_model_call text, p_policy text,
                                          p_verdicts jsonb) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_verdict jsonb;
begin
  if v_entry.code is not null then
    return signalbox.not_entered(v_entry);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  for v_verdict in select value from jsonb_array_elements(p_verdicts) loop
    if exists (select from signalbox.tool_call t
               where t.id = v_verdict ->> 'toolCallId' and t.run_id = v_run.id and t.model_call_id = p_model_call)
    then
      perform signalbox.put_verdict(v_run, v_verdict ->> 'toolCallId', p_policy, v_verdict - 'toolCallId');
    end if;
  end loop;
  return json_build_object('kind', 'judged', 'conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;

-- Nobody is asked any more about a call that has not been made, and it will not be.
create function signalbox.withdraw_call(p_call signalbox.tool_call) returns void
language plpgsql as $$
begin
  update signalbox.tool_call set state = 'withdrawn', finished_at = signalbox.clock()
  where id = p_call.id and signalbox.is_pending(state);
  perform signalbox.withdraw_question(p_call);
end $$;

create or replace function signalbox.withdraw_proposals(p_run text) returns void
language plpgsql as $$
declare
  v_call signalbox.tool_call;
begin
  for v_call in
    select t.* from signalbox.tool_call t where t.run_id = p_run and signalbox.is_pending(t.state)
    order by t.proposed_at, t.ordinal for update
  loop
    perform signalbox.withdraw_call(v_call);
  end loop;
end $$;

-- A turn that runs again may propose under a new id what somebody was asked about or has approved already: the same
-- tool, the same definition, the same arguments, matched one to one. The approval is about that, and goes along.
create function signalbox.inherit_hold(p_run signalbox.run, p_call signalbox.tool_call) returns void
language plpgsql as $$
declare
  v_before signalbox.tool_call;
  v_hold signalbox.hold;
begin
  select t.* into v_before from signalbox.tool_call t
  where t.run_id = p_call.run_id and t.generation < p_call.generation and t.hold_id is not null
    and t.state in ('awaiting_approval', 'authorized') and t.server = p_call.server and t.tool = p_call.tool
    and t.definition_hash is not distinct from p_call.definition_hash and t.arguments_digest = p_call.arguments_digest
  order by t.proposed_at, t.ordinal
  limit 1 for update;
  if not found then
    return;
  end if;
  update signalbox.tool_call set state = 'withdrawn', finished_at = signalbox.clock(), hold_id = null
  where id = v_before.id;
  update signalbox.tool_call
  set state = v_before.state, hold_id = v_before.hold_id, call_digest = v_before.call_digest,
      edited_arguments = v_before.edited_arguments
  where id = p_call.id;
  update signalbox.hold
  set subject = subject || jsonb_build_object('toolCallId', p_call.id, 'toolUseId', p_call.tool_use_id)
  where id = v_before.hold_id
  returning * into strict v_hold;
  if v_hold.state = 'open' then
    perform signalbox.note_hold_opened(p_run, v_hold, p_call.generation);
  end if;
end $$;

-- Records the calls of one model message, or none: a message that gives a known id other arguments, or one id twice, is
-- refused whole. What an earlier generation proposed and did not begin, and this message does not propose again, is off.
create or replace function signalbox.propose(p_run signalbox.run, p_call signalbox.model_call, p_proposals jsonb)
returns boolean
language plpgsql as $$
declare
  v_proposal jsonb;
  v_before signalbox.tool_call;
  v_ordinal integer := 0;
begin
  if (select count(*) > count(distinct p ->> 'toolUseId') from jsonb_array_elements(p_proposals) p)
     or exists (
       select from jsonb_array_elements(p_proposals) p
       join signalbox.tool_call t on t.run_id = p_run.id and t.tool_use_id = p ->> 'toolUseId'
       where t.arguments_digest <> p ->> 'argumentsDigest' or t.name <> p ->> 'name')
  then
    return false;
  end if;
  for v_proposal in select value from jsonb_array_elements(p_proposals) loop
    v_ordinal := v_ordinal + 1;
    update signalbox.tool_call
    set generation = p_call.generation, model_call_id = p_call.id, ordinal = v_ordinal
    where run_id = p_run.id and tool_use_id = v_proposal ->> 'toolUseId';
    if found then
      perform signalbox.propose_again(p_run.id, v_proposal ->> 'toolUseId');
    else
      perform signalbox.propose_new(p_run, p_call, v_ordinal, v_proposal);
    end if;
  end loop;
  for v_before in
    select t.* from signalbox.tool_call t
    where t.run_id = p_run.id and t.generation < p_call.generation and signalbox.is_pending(t.state)
    order by t.proposed_at, t.ordinal for update
  loop
    perform signalbox.withdraw_call(v_before);
  end loop;
  return true;
end $$;

-- The id is known with these arguments: what has an outcome keeps it, what came to nothing starts over, and is judged
-- and asked for anew: an approval is good for one attempt.
create or replace function signalbox.propose_again(p_run text, p_tool_use text) returns void
language plpgsql as $$
begin
  update signalbox.tool_call
  set state = 'proposed', process = null, started_at = null, finished_at = null, result = null, result_summary = null,
      error_code = null, denial = null, proposed_at = signalbox.clock(), verdict = null, policy_version = null,
      judgement = null, hold_id = null, edited_arguments = null, call_digest = null
  where run_id = p_run and tool_use_id = p_tool_use
    and (state in ('failed', 'withdrawn') or (state = 'unknown' and effect in ('read', 'egress_read')));
end $$;

create or replace function signalbox.propose_new(p_run signalbox.run, p_call signalbox.model_call, p_ordinal integer,
                                                 p_proposal jsonb) returns void
language plpgsql as $$
declare
  v_denied boolean := p_proposal ->> 'server' is null;
  v_judged jsonb := nullif(p_proposal -> 'judged', 'null');
  v_call signalbox.tool_call;
begin
  insert into signalbox.tool_call (
    id, tenant_id, run_id, conversation_id, model_call_id, ordinal, tool_use_id, name, server, tool, title, effect,
    definition_hash, arguments, arguments_digest, call_digest, state, generation, error_code, denial, proposed_at,
    finished_at)
  values (
    p_proposal ->> 'toolCallId', p_run.tenant_id, p_run.id, p_run.conversation_id, p_call.id, p_ordinal,
    p_proposal ->> 'toolUseId', p_proposal ->> 'name', p_proposal ->> 'server', p_proposal ->> 'tool',
    coalesce((select t.title from signalbox.tool t
              where t.tenant_id = p_run.tenant_id and t.server = p_proposal ->> 'server'
                and t.tool = p_proposal ->> 'tool'), p_proposal ->> 'tool', p_proposal ->> 'name'),
    p_proposal ->> 'effect', p_proposal ->> 'definitionHash', p_proposal ->> 'argumentsJson',
    p_proposal ->> 'argumentsDigest', p_proposal ->> 'callDigest',
    case when v_denied then 'denied' else 'proposed' end, p_call.generation,
    case when v_denied then 'tool_not_allowed' end,
    case when v_denied then 'This agent has no tool of that name.' end,
    signalbox.clock(), case when v_denied then signalbox.clock() end)
  returning * into strict v_call;
  if v_denied then
    perform signalbox.note_tool_finished(p_run, v_call);
    return;
  end if;
  if v_judged is null or v_judged ->> 'verdict' = 'ask' or v_call.server = '@client' then
    perform signalbox.inherit_hold(p_run, v_call);
  end if;
  if v_judged is not null then
    perform signalbox.put_verdict(p_run, v_call.id, v_judged ->> 'policyVersion', v_judged - 'policyVersion');
  end if;
end $$;

-- Opens the approvals that the verdicts on a message ask for, all in one statement and in message order.
create function signalbox.open_asked(p_run signalbox.run, p_model_call text) returns void
language plpgsql as $$
declare
  v_call signalbox.tool_call;
  v_hold text;
begin
  for v_call in
    select t.* from signalbox.tool_call t
    where t.run_id = p_run.id and t.model_call_id = p_model_call and t.verdict = 'ask' and t.hold_id is null
      and signalbox.is_pending(t.state) and (signalbox.same_effect(t)).id is null
    order by t.ordinal for update
  loop
    v_hold := signalbox.new_id('hld');
    update signalbox.tool_call set state = 'awaiting_approval', hold_id = v_hold where id = v_call.id;
    perform signalbox.put_hold(p_run, v_hold, 'approval', jsonb_build_object(
      'toolCallId', v_call.id, 'toolUseId', v_call.tool_use_id, 'name', v_call.name, 'server', v_call.server,
      'tool', v_call.tool, 'title', v_call.title, 'effect', v_call.effect, 'grade', 'contained',
      'argumentsJson', coalesce(v_call.edited_arguments, v_call.arguments), 'definitionHash', v_call.definition_hash,
      'agentRevision', p_run.agent_revision, 'policyVersion', v_call.policy_version,
      'rules', coalesce(v_call.judgement -> 'rules', '[]'), 'reason', v_call.judgement ->> 'reason',
      'origins', v_call.judgement -> 'origins', 'approver', coalesce(v_call.judgement ->> 'approver', 'anyone')),
      v_call.call_digest, (v_call.judgement ->> 'expiresInMs')::bigint);
  end loop;
end $$;

-- Whether who approved still may: a key that stands and has the right.
create function signalbox.may_still_decide(p_actor text, p_tenant text) returns boolean
language plpgsql as $$
begin
  return exists (select from signalbox.api_key k
    where k.id = p_actor::json ->> 'keyId' and k.tenant_id = p_tenant and k.revoked_at is null
      and 'write' = any (k.rights));
end $$;

-- Looks at the approval of a call once more, at the moment it is used. Answers the call as it may be made; denied, when
-- the approval is over; asked for again, when it does not count any more.
create function signalbox.use_approval(p_run signalbox.run, p_call signalbox.tool_call) returns signalbox.tool_call
language plpgsql as $$
declare
  v_hold signalbox.hold;
  v_why text;
  v_call signalbox.tool_call := p_call;
begin
  select h.* into v_hold from signalbox.hold h where h.id = p_call.hold_id;
  if v_hold.expires_at <= signalbox.clock() then
    return signalbox.deny_pending(p_run, p_call.id, 'approval_expired', 'The approval of this call has expired.',
      signalbox.said('The approval of this call has expired. (approval_expired)', true));
  end if;
  v_why := case
    when v_hold.state is distinct from 'decided' or v_hold.decision not in ('approve', 'edit') then 'not approved'
    when p_call.call_digest is distinct from case v_hold.decision when 'edit' then v_hold.response ->> 'digest'
                                                                  else v_hold.digest end then 'another call'
    when not signalbox.may_still_decide(v_hold.decided_by, p_run.tenant_id) then 'approver may not any more'
    end;
  if v_why is null then
    return v_call;
  end if;
  perform signalbox.audit(p_run.tenant_id, 'approval_void', p_run.actor, p_run.conversation_id, p_run.id,
    p_run.generation,
    '{"holdId":' || signalbox.quoted(v_hold.id) || ',"toolCallId":' || signalbox.quoted(p_call.id)
    || ',"why":' || signalbox.quoted(v_why) || '}');
  update signalbox.tool_call set state = 'proposed', hold_id = null, verdict = 'ask' where id = p_call.id
  returning * into strict v_call;
  perform signalbox.open_asked(p_run, v_call.model_call_id);
  select t.* into strict v_call from signalbox.tool_call t where t.id = p_call.id;
  return v_call;
end $$;

-- The calls of a message, as they are judged.
create function signalbox.message_calls(p_run text, p_model_call text) returns json
language sql stable
return (select json_agg(json_build_object('toolCallId', t.id, 'toolUseId', t.tool_use_id, 'name', t.name,
    'server', t.server, 'tool', t.tool, 'effect', t.effect, 'definitionHash', t.definition_hash,
    'argumentsJson', coalesce(t.edited_arguments, t.arguments), 'state', t.state) order by t.ordinal)
  from signalbox.tool_call t where t.run_id = p_run and t.model_call_id = p_model_call);

-- A call that was proposed and not made yet. `judge`: the gate is to say what today's policy says of its message first.
-- A gate that names no policy of its own goes by the verdicts there are.
create function signalbox.begin_pending(p_run signalbox.run, p_call signalbox.tool_call, p_process integer,
                                        p_policy text) returns json
language plpgsql as $$
declare
  v_call signalbox.tool_call := p_call;
  v_open text;
begin
  if p_policy is not null and exists (
       select from signalbox.tool_call t
       where t.run_id = p_run.id and t.model_call_id = p_call.model_call_id and signalbox.is_pending(t.state)
         and t.server is not null and (t.verdict is null or t.policy_version is distinct from p_policy))
  then
    return json_build_object('kind', 'judge', 'toolCallId', p_call.id, 'modelCallId', p_call.model_call_id,
                             'calls', signalbox.message_calls(p_run.id, p_call.model_call_id));
  end if;
  perform signalbox.open_asked(p_run, p_call.model_call_id);
  if v_call.state <> 'awaiting_approval' and v_call.hold_id is not null then
    v_call := signalbox.use_approval(p_run, v_call);
  end if;
  select h.id into v_open
  from signalbox.tool_call t join signalbox.hold h on h.id = t.hold_id
  where t.run_id = p_run.id and t.model_call_id = p_call.model_call_id and h.state = 'open'
  order by t.ordinal limit 1;
  if found then
    return json_build_object('code', 'run_suspended', 'holdId', v_open, 'conversationId', p_run.conversation_id,
                             'generation', p_run.generation, 'sequence', signalbox.newest(p_run.conversation_id));
  elsif v_call.state = 'denied' then
    return signalbox.replay_of(v_call);
  end if;
  if v_call.server = '@client' and (signalbox.same_effect(v_call)).id is null then
    return signalbox.hand_to_client(p_run, v_call);
  end if;
  return signalbox.start_tool_call(p_run, v_call, p_process);
end $$;

-- The intent of a tool call that was proposed, or the recorded outcome of one that has run.
create function signalbox.begin_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text,
                                          p_digest text, p_policy text) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_call signalbox.tool_call;
begin
  if v_entry.code is not null then
    return signalbox.not_entered(v_entry);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  v_call := signalbox.find_call(v_run, p_tool_use, p_name, p_digest);
  case
    when v_call.id is null or v_call.state = 'withdrawn' then
      perform signalbox.note_denied(v_run, v_call.id, p_name, 'tool_not_proposed', 'The model did not propose this call.');
      return json_build_object('code', 'tool_not_proposed');
    when v_call.server is null then
      return json_build_object('code', 'tool_not_allowed', 'detail', v_call.denial);
    when v_call.state in ('succeeded', 'failed', 'denied') then
      return signalbox.replay_of(v_call);
    when v_call.state in ('executing', 'unknown') then
      return json_build_object('code', 'tool_outcome_unknown');
    else
      return signalbox.begin_pending(v_run, v_call, p_process, p_policy);
  end case;
end $$;

-- Gates of the first release judge nothing: for them the verdicts hold that are recorded.
create or replace function signalbox.open_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text,
                                                    p_digest text) returns json
language plpgsql as $$
begin
  perform signalbox.foresee_pause(p_token_hash);
  return signalbox.in_earlier_words(
    signalbox.begin_tool_call(p_token_hash, p_process, p_tool_use, p_name, p_digest, null));
end $$;
