-- The tool gate executes only what was proposed.

-- The proposed call an engine means: by its id, or by tool and arguments in the order of proposals.
create function signalbox.find_call(p_run signalbox.run, p_tool_use text, p_name text, p_digest text)
returns signalbox.tool_call
language plpgsql as $$
declare
  v_call signalbox.tool_call;
begin
  select t.* into v_call from signalbox.tool_call t
  where t.run_id = p_run.id and t.name = p_name and t.arguments_digest = p_digest
    and t.generation = p_run.generation and (p_tool_use is null or t.tool_use_id = p_tool_use)
  order by t.state <> 'proposed', t.proposed_at, t.ordinal
  limit 1
  for no key update;
  return v_call;
end $$;

-- A turn that runs again may ask under a new id for what an earlier generation has done already: the same tool, the same
-- definition, the same arguments, matched one to one. Such a call gets that outcome and is not executed.
create function signalbox.same_effect(p_call signalbox.tool_call) returns signalbox.tool_call
language plpgsql as $$
declare
  v_before signalbox.tool_call;
begin
  select t.* into v_before from signalbox.tool_call t
  where t.run_id = p_call.run_id and t.generation < p_call.generation and t.replay_of is null
    and t.state in ('succeeded', 'unknown') and p_call.effect in ('write', 'irreversible')
    and t.server = p_call.server and t.tool = p_call.tool
    and t.definition_hash is not distinct from p_call.definition_hash
    and t.arguments_digest = p_call.arguments_digest
    and not exists (select from signalbox.tool_call n where n.replay_of = t.id and n.generation = p_call.generation)
  order by t.proposed_at, t.ordinal
  limit 1;
  return v_before;
end $$;

create function signalbox.open_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text,
                                         p_digest text) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_call signalbox.tool_call;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  v_call := signalbox.find_call(v_run, p_tool_use, p_name, p_digest);
  case
    when v_call.id is null or v_call.state = 'withdrawn' then
      perform signalbox.note_denied(v_run, v_call.id, p_name, 'tool_not_proposed', 'The model did not propose this call.');
      return json_build_object('code', 'tool_not_proposed');
    when v_call.state in ('succeeded', 'failed') then
      return signalbox.replay_of(v_call);
    when v_call.state in ('executing', 'unknown') then
      return json_build_object('code', 'tool_outcome_unknown');
    when v_call.state = 'awaiting_approval' or v_call.server is null then
      return json_build_object('code', 'tool_not_allowed', 'detail', v_call.denial);
    when v_call.state = 'denied' then
      return signalbox.replay_of(v_call);
    else
      return signalbox.start_tool_call(v_run, v_call, p_process);
  end case;
end $$;

create function signalbox.replay_of(p_call signalbox.tool_call) returns json
language sql
return json_build_object('kind', 'replay', 'toolCallId', p_call.id, 'state', p_call.state, 'resultJson', p_call.result,
                         'conversationId', p_call.conversation_id, 'sequence', signalbox.newest(p_call.conversation_id));

create function signalbox.start_tool_call(p_run signalbox.run, p_call signalbox.tool_call, p_process integer)
returns json
language plpgsql as $$
declare
  v_before signalbox.tool_call := signalbox.same_effect(p_call);
  v_call signalbox.tool_call;
begin
  if v_before.state = 'unknown' then
    return json_build_object('code', 'tool_outcome_unknown');
  elsif v_before.id is not null then
    update signalbox.tool_call
    set state = 'succeeded', replay_of = v_before.id, result = v_before.result,
        result_summary = v_before.result_summary, finished_at = signalbox.clock()
    where id = p_call.id
    returning * into strict v_call;
    perform signalbox.note_tool_finished(p_run, v_call);
    return signalbox.replay_of(v_call);
  end if;
  update signalbox.run set tool_call_count = tool_call_count + 1
  where id = p_run.id and tool_call_count < tool_call_limit;
  if not found then
    return json_build_object('code', 'run_timeout', 'detail', 'The run has used up its tool calls.');
  end if;
  update signalbox.tool_call set state = 'executing', process = p_process, started_at = signalbox.clock()
  where id = p_call.id
  returning * into strict v_call;
  perform signalbox.write_event(p_run, v_call.generation, 0, v_call.id, 'tool.started', json_build_object(
    'toolCallId', v_call.id, 'toolUseId', v_call.tool_use_id, 'tool', v_call.name, 'title', v_call.title,
    'effect', v_call.effect, 'grade', 'contained', 'argumentsSummary', left(v_call.arguments, 200)));
  perform signalbox.audit(p_run.tenant_id, 'tool_called', p_run.actor, p_run.conversation_id, p_run.id,
    v_call.generation,
    '{"argumentsDigest":' || signalbox.quoted(v_call.arguments_digest)
    || ',"definitionHash":' || signalbox.quoted(v_call.definition_hash)
    || ',"effect":' || signalbox.quoted(v_call.effect)
    || ',"name":' || signalbox.quoted(v_call.name)
    || ',"toolCallId":' || signalbox.quoted(v_call.id) || '}');
  -- The row outlives every retry of the call, so its id is the key an upstream can recognise a repetition by.
  return json_build_object('kind', 'execute', 'toolCallId', v_call.id, 'runId', v_call.run_id, 'server', v_call.server,
    'tool', v_call.tool, 'effect', v_call.effect, 'argumentsJson', v_call.arguments, 'idempotencyKey', v_call.id,
    'conversationId', v_call.conversation_id, 'sequence', signalbox.newest(v_call.conversation_id));
end $$;

create function signalbox.note_denied(p_run signalbox.run, p_call text, p_name text, p_code text, p_reason text)
returns void
language plpgsql as $$
begin
  perform signalbox.audit(p_run.tenant_id, 'tool_denied', p_run.actor, p_run.conversation_id, p_run.id,
    p_run.generation,
    '{"denial":' || signalbox.quoted(p_reason)
    || ',"errorCode":' || signalbox.quoted(p_code)
    || ',"name":' || signalbox.quoted(p_name)
    || ',"state":"denied","toolCallId":' || signalbox.quoted(p_call) || '}');
end $$;

-- A denial in place of an intent. What was not proposed, or has an outcome, is only audited.
create function signalbox.deny_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text,
                                         p_digest text, p_code text, p_reason text) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_call signalbox.tool_call;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  v_call := signalbox.find_call(v_run, p_tool_use, p_name, p_digest);
  update signalbox.tool_call
  set state = 'denied', denial = p_reason, error_code = p_code, finished_at = signalbox.clock(),
      result = json_build_object('isError', true,
        'content', json_build_array(json_build_object('type', 'text', 'text', p_reason)))
  where id = v_call.id and state in ('proposed', 'awaiting_approval', 'authorized')
  returning * into v_call;
  if found then
    perform signalbox.note_tool_finished(v_run, v_call);
  else
    perform signalbox.note_denied(v_run, null, p_name, p_code, p_reason);
  end if;
  return json_build_object('kind', 'denied', 'conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;

-- Closes the call once, whoever owns the conversation by now, also after its run has ended.
create function signalbox.settle_tool_call(p_call text, p_state text, p_result text, p_summary text, p_error_code text)
returns json
language plpgsql as $$
declare
  v_call signalbox.tool_call;
  v_run signalbox.run;
begin
  select t.* into v_call from signalbox.tool_call t where t.id = p_call;
  if not found then
    return json_build_object('kind', 'unknown');
  end if;
  v_run := signalbox.hold_for_call(v_call.conversation_id, v_call.run_id);
  update signalbox.tool_call
  set state = p_state, result = p_result, result_summary = p_summary, error_code = p_error_code,
      finished_at = signalbox.clock()
  where id = p_call and state = 'executing'
  returning * into v_call;
  if found then
    perform signalbox.note_tool_finished(v_run, v_call);
  end if;
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;
