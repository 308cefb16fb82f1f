-- What becomes of a call by what people decide: approved, changed, refused, answered for it, nobody in time; and an
-- outcome that nobody knows, settled by a person who has looked.

-- As before, also for a call whose arguments a person had changed: neither what was proposed nor what was carried out
-- is done again.
create or replace function signalbox.same_effect(p_call signalbox.tool_call) returns signalbox.tool_call
language plpgsql as $$
declare
  v_before signalbox.tool_call;
begin
  select t.* into v_before from signalbox.tool_call t
  where t.run_id = p_call.run_id and t.generation < p_call.generation and t.replay_of is null
    and t.state in ('succeeded', 'unknown') and p_call.effect in ('write', 'irreversible')
    and t.server = p_call.server and t.tool = p_call.tool
    and t.definition_hash is not distinct from p_call.definition_hash
    and (t.arguments_digest = p_call.arguments_digest or t.call_digest = p_call.call_digest)
    and not exists (select from signalbox.tool_call n where n.replay_of = t.id and n.generation = p_call.generation)
  order by t.proposed_at, t.ordinal
  limit 1;
  return v_before;
end $$;

-- Whether this person asked for the run, or for the call of a client. A key that names nobody may be whoever used it before.
create function signalbox.asked_for(p_asked text, p_actor text) returns boolean
language plpgsql as $$
declare
  v_asked json := coalesce((select r.actor::json from signalbox.run r where r.id = p_asked),
                           (select g.actor::json from signalbox.gateway_call g where g.id = p_asked));
  v_decides json := p_actor::json;
begin
  return coalesce(v_decides ->> 'user' = v_asked ->> 'user', false)
    or (v_decides ->> 'keyId' = v_asked ->> 'keyId'
        and (v_decides ->> 'user' is null or v_asked ->> 'user' is null));
end $$;

-- The words somebody decided with.
create function signalbox.words_of(p_response jsonb) returns text
language sql immutable
return case jsonb_typeof(p_response)
  when 'null' then null
  when 'string' then p_response #>> '{}'
  when 'object' then coalesce(p_response ->> 'reason', p_response ->> 'text', p_response::text)
  else p_response::text end;

-- An approval is over, and its call moves with it, in the transaction that closes it. One with other arguments is to be
-- judged again before it is made.
create function signalbox.move_asked_call(p_run signalbox.run, p_hold signalbox.hold) returns void
language plpgsql as $$
declare
  v_call signalbox.tool_call;
  v_words text := signalbox.words_of(p_hold.response);
  v_reason text;
begin
  select t.* into v_call from signalbox.tool_call t
  where t.hold_id = p_hold.id and signalbox.is_pending(t.state) for update;
  if not found then
    return;
  end if;
  case
    when p_hold.state = 'withdrawn' then
      update signalbox.tool_call set state = 'withdrawn', finished_at = signalbox.clock() where id = v_call.id;
    when p_hold.state = 'expired' then
      v_reason := 'Nobody approved this call in time.';
      perform signalbox.deny_pending(p_run, v_call.id, 'approval_expired', v_reason,
                                     signalbox.said(v_reason || ' (approval_expired)', true));
    when p_hold.decision = 'approve' then
      update signalbox.tool_call set state = 'authorized' where id = v_call.id;
    when p_hold.decision = 'edit' then
      update signalbox.tool_call
      set state = 'authorized', edited_arguments = p_hold.response ->> 'argumentsJson',
          call_digest = p_hold.response ->> 'digest', verdict = null, policy_version = null, judgement = null
      where id = v_call.id;
    when p_hold.decision = 'respond' then
      perform signalbox.deny_pending(p_run, v_call.id, null, 'A person answered in place of the tool.',
                                     signalbox.said(coalesce(v_words, ''), false));
    else
      v_reason := 'A person refused this call' || coalesce(': ' || v_words, '.');
      perform signalbox.deny_pending(p_run, v_call.id, 'approval_rejected', v_reason,
                                     signalbox.said(v_reason, true));
  end case;
end $$;

create function signalbox.reconcile_tool_call(p_tenant text, p_user text, p_call text, p_actor text, p_outcome text,
                                              p_result text, p_note text) returns json
language plpgsql as $$
declare
  v_call signalbox.tool_call;
  v_run signalbox.run;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  select t.* into v_call from signalbox.tool_call t where t.id = p_call and t.tenant_id = p_tenant;
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  v_run := signalbox.lock_run(p_tenant, p_user, v_call.run_id);
  if v_run.id is null then
    return json_build_object('code', 'not_found');
  end if;
  perform from signalbox.conversation c where c.id = v_run.conversation_id for no key update;
  -- It was deleted while its lock was waited for.
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  update signalbox.tool_call
  set state = case p_outcome when 'not_executed' then 'withdrawn' else p_outcome end,
      result = coalesce(p_result, signalbox.said(case p_outcome
        when 'succeeded' then 'The call was carried out.'
        when 'failed' then 'The call failed.'
        else 'The call was not made.' end, p_outcome <> 'succeeded')),
      result_summary = left(coalesce(p_note, ''), 200), error_code = null, finished_at = signalbox.clock(),
      reconciled_by = p_actor, reconciled_at = signalbox.clock(), reconciliation_note = p_note
  where id = p_call and state = 'unknown'
  returning * into v_call;
  if not found then
    return signalbox.refused('The outcome of this call is not unknown; there is nothing to settle.');
  end if;
  perform signalbox.tell_tool_finished(v_run, v_call, 3);
  perform signalbox.audit(p_tenant, 'tool_reconciled', p_actor, v_run.conversation_id, v_run.id, v_call.generation,
    '{"note":' || signalbox.quoted(p_note)
    || ',"outcome":' || signalbox.quoted(p_outcome)
    || ',"toolCallId":' || signalbox.quoted(p_call) || '}');
  return json_build_object('kind', 'reconciled', 'conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;
