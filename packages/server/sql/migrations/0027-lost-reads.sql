-- A call that changes nothing and was lost with its gate is made again: the same row, the same id, a further attempt.

alter table signalbox.tool_call add column attempt integer not null default 1;

-- The proposed call an engine means: by its id, or by tool and arguments in the order of proposals. One that an earlier
-- generation lost starts over when it is asked for by its id and changes nothing; any other one stays what it is.
create or replace function signalbox.find_call(p_run signalbox.run, p_tool_use text, p_name text, p_digest text)
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
  if not found and p_tool_use is not null then
    v_call := signalbox.begin_again(p_run, p_tool_use, p_name, p_digest);
  end if;
  return v_call;
end $$;

-- What an earlier generation left: with its message, what was proposed and not begun yet. And a look that was lost:
-- readers were told that its outcome is not known; with the new generation's number they take what comes of it now.
create function signalbox.begin_again(p_run signalbox.run, p_tool_use text, p_name text, p_digest text)
returns signalbox.tool_call
language plpgsql as $$
declare
  v_call signalbox.tool_call;
begin
  update signalbox.tool_call t
  set generation = p_run.generation
  where t.run_id = p_run.id and t.generation < p_run.generation
    and t.state in ('proposed', 'awaiting_approval', 'authorized')
    and t.model_call_id = (select n.model_call_id from signalbox.tool_call n
      where n.run_id = p_run.id and n.tool_use_id = p_tool_use and n.name = p_name and n.arguments_digest = p_digest);
  select t.* into v_call from signalbox.tool_call t
  where t.run_id = p_run.id and t.tool_use_id = p_tool_use and t.name = p_name and t.arguments_digest = p_digest
    and (t.generation = p_run.generation or t.state = 'denied');
  if found then
    return v_call;
  end if;
  update signalbox.tool_call t
  set state = 'proposed', generation = p_run.generation, attempt = t.attempt + 1, process = null, started_at = null,
      finished_at = null, result = null, result_summary = null, error_code = null
  where t.run_id = p_run.id and t.tool_use_id = p_tool_use and t.name = p_name and t.arguments_digest = p_digest
    and t.generation < p_run.generation and t.state = 'unknown' and t.effect in ('read', 'egress_read')
  returning t.* into v_call;
  return v_call;
end $$;

-- As before; a further attempt says which one it is.
create or replace function signalbox.start_tool_call(p_run signalbox.run, p_call signalbox.tool_call, p_process integer)
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
    'effect', v_call.effect, 'grade', 'contained', 'argumentsSummary', left(coalesce(v_call.edited_arguments, v_call.arguments), 200)));
  perform signalbox.audit(p_run.tenant_id, 'tool_called', p_run.actor, p_run.conversation_id, p_run.id,
    v_call.generation,
    '{"argumentsDigest":' || signalbox.quoted(v_call.arguments_digest)
    || case when v_call.attempt > 1 then ',"attempt":' || v_call.attempt else '' end
    || case when v_call.call_digest is null then '' else ',"callDigest":' || signalbox.quoted(v_call.call_digest) end
    || ',"definitionHash":' || signalbox.quoted(v_call.definition_hash)
    || ',"effect":' || signalbox.quoted(v_call.effect)
    || case when v_call.hold_id is null then '' else ',"holdId":' || signalbox.quoted(v_call.hold_id) end
    || ',"name":' || signalbox.quoted(v_call.name)
    || ',"toolCallId":' || signalbox.quoted(v_call.id) || '}');
  -- The row outlives every retry of the call, so its id is the key an upstream can recognise a repetition by.
  return json_build_object('kind', 'execute', 'toolCallId', v_call.id, 'runId', v_call.run_id, 'server', v_call.server,
    'tool', v_call.tool, 'effect', v_call.effect,
    'argumentsJson', coalesce(v_call.edited_arguments, v_call.arguments), 'isEdited', v_call.edited_arguments is not null,
    'callDigest', v_call.call_digest, 'conditions', v_call.judgement -> 'conditions', 'idempotencyKey', v_call.id,
    'conversationId', v_call.conversation_id, 'sequence', signalbox.newest(v_call.conversation_id));
end $$;
