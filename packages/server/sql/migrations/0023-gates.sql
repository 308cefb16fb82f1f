-- What a gate may begin: the fence of every intent, the intents themselves, and the words in which gates of the first
-- release hear of what they do not know.

-- The fence of the gates: the slot names run and generation; the ownership row is locked in share mode until the end of
-- the transaction, so no claim, takeover, release, seal or cancel can pass before what follows is committed. For an
-- intent (`p_process` given) the gate must be alive, the run not cancelled, within its wall clock, not stopped and not
-- paused; of a pause the entry names run and pause, so that what comes can wait for it.
create or replace function signalbox.enter_gate(p_token_hash text, p_process integer) returns signalbox.gate_entry
language plpgsql as $$
declare
  v_entry signalbox.gate_entry;
  v_slot signalbox.slot;
  v_run signalbox.run;
  v_generation bigint;
  v_cancel_at timestamptz;
  v_stop signalbox.stop;
begin
  select s.* into v_slot from signalbox.slot s where s.token_hash = p_token_hash;
  if not found or v_slot.run_id is null then
    v_entry.code := 'slot_unknown';
    return v_entry;
  end if;
  select o.generation, o.cancel_at into v_generation, v_cancel_at from signalbox.ownership o
  where o.conversation_id = v_slot.conversation_id for share;
  select r.* into v_run from signalbox.run r where r.id = v_slot.run_id;
  if v_generation <> v_slot.generation or v_run.state <> 'running' then
    v_entry.code := 'stale_generation';
    perform signalbox.note_stale(v_slot.conversation_id, v_slot.run_id, v_slot.generation, 'gate');
    return v_entry;
  end if;
  if p_process is not null then
    if not signalbox.process_lives(p_process) then
      v_entry.code := 'stale_generation';
      return v_entry;
    elsif v_cancel_at is not null then
      v_entry.code := 'run_cancelled';
      return v_entry;
    elsif v_run.started_at + make_interval(secs => (v_run.wall_clock_ms + v_run.suspended_ms) / 1000.0)
          < signalbox.clock() then
      v_entry.code := 'run_timeout';
      return v_entry;
    end if;
    v_stop := signalbox.stop_over(v_run.tenant_id, v_run.agent_id, v_run.conversation_id, v_run.id);
    if v_stop.kind = 'stop' then
      v_entry.code := 'run_stopped';
      return v_entry;
    elsif v_stop.kind = 'pause' then
      v_entry.code := 'run_suspended';
      v_entry.stop_id := v_stop.id;
    end if;
  end if;
  v_entry.slot := v_slot;
  v_entry.run := v_run;
  return v_entry;
end $$;

-- A refused entry as the gate hears it. A pause opens the hold that the call waits for, once for a run and a pause.
create function signalbox.not_entered(p_entry signalbox.gate_entry) returns json
language plpgsql as $$
declare
  v_run signalbox.run := p_entry.run;
  v_hold text;
begin
  if p_entry.stop_id is null then
    return json_build_object('code', p_entry.code);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  select h.id into v_hold from signalbox.hold h
  where h.run_id = v_run.id and h.state = 'open' and h.kind = 'operator' and h.subject ->> 'stopId' = p_entry.stop_id;
  if not found then
    v_hold := signalbox.new_id('hld');
    perform signalbox.put_hold(v_run, v_hold, 'operator', jsonb_build_object('stopId', p_entry.stop_id), null, null);
  end if;
  return json_build_object('code', p_entry.code, 'holdId', v_hold, 'conversationId', v_run.conversation_id,
                           'generation', v_run.generation, 'sequence', signalbox.newest(v_run.conversation_id));
end $$;

-- The intent of a model call, as gates of today record it.
create function signalbox.begin_model_call(p_token_hash text, p_call text, p_process integer, p_wire text,
                                           p_model text, p_request_bytes bigint, p_rules text[]) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
begin
  if v_entry.code is not null then
    return signalbox.not_entered(v_entry);
  end if;
  update signalbox.run set model_call_count = model_call_count + 1
  where id = v_run.id and model_call_count < model_call_limit;
  if not found then
    return json_build_object('code', 'run_timeout', 'detail', 'The run has used up its model calls.');
  end if;
  insert into signalbox.model_call (id, tenant_id, run_id, conversation_id, generation, process, state, wire,
                                    requested_model, rules, request_bytes, started_at)
  values (p_call, v_run.tenant_id, v_run.id, v_run.conversation_id, v_run.generation, p_process, 'executing', p_wire,
          p_model, p_rules, p_request_bytes, signalbox.clock());
  perform signalbox.audit(v_run.tenant_id, 'model_called', v_run.actor, v_run.conversation_id, v_run.id,
    v_run.generation,
    '{"model":' || signalbox.quoted(p_model) || ',"modelCallId":' || signalbox.quoted(p_call) || '}');
  return signalbox.slot_view(p_token_hash);
end $$;

-- A denial in place of an intent; nothing leaves with it, so a pause does not keep it. What was not proposed, or has an
-- outcome, is only audited.
create function signalbox.refuse_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text,
                                           p_digest text, p_code text, p_reason text) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_call signalbox.tool_call;
begin
  if v_entry.code is not null and v_entry.stop_id is null then
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
    perform signalbox.withdraw_question(v_call);
  else
    perform signalbox.note_denied(v_run, null, p_name, p_code, p_reason);
  end if;
  return json_build_object('kind', 'denied', 'conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;

-- What became of calls of the bound run.
create function signalbox.call_outcomes(p_token_hash text, p_tool_uses text[]) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  return json_build_object('outcomes', (
    select coalesce(json_agg(json_build_object('toolUseId', t.tool_use_id, 'state', t.state, 'resultJson', t.result)
                             order by t.proposed_at, t.ordinal), '[]')
    from signalbox.tool_call t
    where t.run_id = v_run.id and t.tool_use_id = any (p_tool_uses)));
end $$;

-- Whoever may suspend locks exclusively from the start: two calls of one run that only share could wait for each other.
-- Whether there will be a pause to suspend for is known only once this is locked.
create function signalbox.foresee_pause(p_token_hash text) returns void
language plpgsql as $$
begin
  perform from signalbox.ownership o
  where o.conversation_id = (select s.conversation_id from signalbox.slot s
                             where s.token_hash = p_token_hash and s.run_id is not null)
  for update;
end $$;

-- A gate that does not keep a call has no patience: the run is suspended at once, and its owner finds itself stale. While
-- another call of it is outside, or when the pause is over already, the gate is to ask again.
create function signalbox.in_earlier_words(p_answer json) returns json
language plpgsql as $$
begin
  case p_answer ->> 'code'
    when 'run_stopped' then
      return json_build_object('code', 'run_cancelled');
    when 'run_suspended' then
      return json_build_object('code',
        case signalbox.suspend(p_answer ->> 'conversationId', (p_answer ->> 'generation')::bigint) ->> 'kind'
          when 'suspended' then 'stale_generation'
          else 'database_unavailable' end);
    else
      return p_answer;
  end case;
end $$;

-- Gates of the first release know neither pauses nor stops, and an answer they do not know ends a run as an accident of
-- the platform. They go on calling the names they know; gates of today call those above.
create or replace function signalbox.open_model_call(p_token_hash text, p_call text, p_process integer, p_wire text, p_model text,
                                                     p_request_bytes bigint, p_rules text[]) returns json
language plpgsql as $$
begin
  perform signalbox.foresee_pause(p_token_hash);
  return signalbox.in_earlier_words(
    signalbox.begin_model_call(p_token_hash, p_call, p_process, p_wire, p_model, p_request_bytes, p_rules));
end $$;

create or replace function signalbox.deny_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text,
                                                    p_digest text, p_code text, p_reason text) returns json
language plpgsql as $$
begin
  return signalbox.in_earlier_words(
    signalbox.refuse_tool_call(p_token_hash, p_process, p_tool_use, p_name, p_digest, p_code, p_reason));
end $$;
