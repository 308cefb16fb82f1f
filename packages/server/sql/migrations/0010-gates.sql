-- What every gate asks first, and what becomes of calls whose gate died.

create type signalbox.gate_entry as (code text, slot signalbox.slot, run signalbox.run);

-- The fence of the gates: the slot names run and generation; the ownership row is locked in share mode until the end of
-- the transaction, so no claim, takeover, release, seal or cancel can pass before what follows is committed. For an
-- intent (`p_process` given) the gate must be alive, the run not cancelled and within its wall clock.
create function signalbox.enter_gate(p_token_hash text, p_process integer) returns signalbox.gate_entry
language plpgsql as $$
declare
  v_entry signalbox.gate_entry;
  v_slot signalbox.slot;
  v_run signalbox.run;
  v_generation bigint;
  v_cancel_at timestamptz;
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
    elsif v_run.started_at + make_interval(secs => v_run.wall_clock_ms / 1000.0) < signalbox.clock() then
      v_entry.code := 'run_timeout';
      return v_entry;
    end if;
  end if;
  v_entry.slot := v_slot;
  v_entry.run := v_run;
  return v_entry;
end $$;

-- The part of a slot's view that is not the snapshot.
create function signalbox.slot_view(p_token_hash text) returns json
language plpgsql as $$
declare
  v_slot signalbox.slot;
  v_run json;
begin
  select s.* into v_slot from signalbox.slot s where s.token_hash = p_token_hash;
  if not found then
    return json_build_object('code', 'slot_unknown');
  end if;
  select json_build_object('runId', r.id, 'messageId', r.message_id, 'generation', v_slot.generation,
                           'traceId', r.trace_id)
  into v_run from signalbox.run r where r.id = v_slot.run_id;
  return json_build_object('tenantId', v_slot.tenant_id, 'conversationId', v_slot.conversation_id,
    'snapshotHash', v_slot.snapshot_hash, 'actor', v_slot.actor::json, 'run', v_run);
end $$;

-- Locks for a settlement, which belongs to the call and not to the owner: ownership (any generation), run,
-- conversation. Returns the run as it is now.
create function signalbox.hold_for_call(p_conversation text, p_run text) returns signalbox.run
language plpgsql as $$
declare
  v_run signalbox.run;
begin
  perform from signalbox.ownership o where o.conversation_id = p_conversation for share;
  select r.* into strict v_run from signalbox.run r where r.id = p_run for no key update;
  perform from signalbox.conversation c where c.id = p_conversation for no key update;
  return v_run;
end $$;

create function signalbox.note_usage(p_run signalbox.run, p_call signalbox.model_call) returns void
language plpgsql as $$
begin
  update signalbox.run
  set input_tokens = input_tokens + p_call.input_tokens, output_tokens = output_tokens + p_call.output_tokens,
      cache_read_tokens = cache_read_tokens + p_call.cache_read_tokens,
      cache_write_tokens = cache_write_tokens + p_call.cache_write_tokens,
      cost_micros = case when p_call.cost_micros is null then cost_micros
                         else coalesce(cost_micros, 0) + p_call.cost_micros end
  where id = p_run.id;
  perform signalbox.write_event(p_run, p_call.generation, 0, p_call.id, 'usage.recorded', json_build_object(
    'modelCallId', p_call.id, 'requestedModel', p_call.requested_model,
    'servedModel', coalesce(p_call.served_model, p_call.requested_model),
    'usage', json_build_object('inputTokens', p_call.input_tokens, 'outputTokens', p_call.output_tokens,
                               'cacheReadTokens', p_call.cache_read_tokens,
                               'cacheWriteTokens', p_call.cache_write_tokens),
    'costMicros', p_call.cost_micros, 'priceVersion', p_call.price_version,
    'estimated', p_call.state = 'estimated'));
  perform signalbox.audit(p_run.tenant_id, 'model_settled', p_run.actor, p_run.conversation_id, p_run.id,
    p_call.generation,
    '{"costMicros":' || coalesce(p_call.cost_micros::text, 'null')
    || ',"errorCode":' || signalbox.quoted(p_call.error_code)
    || ',"modelCallId":' || signalbox.quoted(p_call.id)
    || ',"servedModel":' || signalbox.quoted(p_call.served_model)
    || ',"state":' || signalbox.quoted(p_call.state) || '}');
end $$;

create function signalbox.tell_tool_finished(p_run signalbox.run, p_call signalbox.tool_call, p_step integer)
returns void
language plpgsql as $$
begin
  perform signalbox.write_event(p_run, p_call.generation, p_step, p_call.id, 'tool.finished', json_build_object(
    'toolCallId', p_call.id, 'toolUseId', p_call.tool_use_id, 'tool', p_call.name, 'title', p_call.title,
    'effect', p_call.effect, 'grade', 'contained', 'state', p_call.state,
    'resultSummary', coalesce(p_call.result_summary, ''), 'denial', p_call.denial,
    'elapsedMs', coalesce(signalbox.unix_ms(p_call.finished_at) - signalbox.unix_ms(p_call.started_at), 0)));
end $$;

-- A run ends: nothing it opened stays open for readers. The ledger still waits for what such a call came to; that is
-- then told as a newer revision.
create function signalbox.tell_still_open(p_run signalbox.run) returns void
language plpgsql as $$
declare
  v_call signalbox.tool_call;
begin
  for v_call in
    select t.* from signalbox.tool_call t where t.run_id = p_run.id and t.state = 'executing'
    order by t.started_at, t.ordinal
  loop
    v_call.state := 'unknown';
    v_call.finished_at := signalbox.clock();
    v_call.result_summary := 'The run ended while this call was open.';
    perform signalbox.tell_tool_finished(p_run, v_call, 1);
  end loop;
end $$;

create function signalbox.note_tool_finished(p_run signalbox.run, p_call signalbox.tool_call) returns void
language plpgsql as $$
begin
  perform signalbox.tell_tool_finished(p_run, p_call, 2);
  perform signalbox.audit(p_run.tenant_id,
    case p_call.state when 'denied' then 'tool_denied' else 'tool_settled' end,
    p_run.actor, p_run.conversation_id, p_run.id, p_call.generation,
    '{"denial":' || signalbox.quoted(p_call.denial)
    || ',"errorCode":' || signalbox.quoted(p_call.error_code)
    || ',"name":' || signalbox.quoted(p_call.name)
    || ',"state":' || signalbox.quoted(p_call.state)
    || ',"toolCallId":' || signalbox.quoted(p_call.id) || '}');
end $$;

-- The gate of this call is dead. What it may have spent is estimated from what was sent.
create function signalbox.lose_model_call(p_call text) returns json
language plpgsql as $$
declare
  v_call signalbox.model_call;
  v_run signalbox.run;
begin
  select m.* into strict v_call from signalbox.model_call m where m.id = p_call;
  v_run := signalbox.hold_for_call(v_call.conversation_id, v_call.run_id);
  update signalbox.model_call
  set state = 'estimated', input_tokens = ceil(request_bytes / 4.0), output_tokens = 0, cache_read_tokens = 0,
      cache_write_tokens = 0, error_code = 'provider_stream_broken', proposals_accepted = false,
      finished_at = signalbox.clock()
  where id = p_call and state = 'executing' and not signalbox.process_lives(process)
  returning * into v_call;
  if found then
    perform signalbox.note_usage(v_run, v_call);
  end if;
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;

create function signalbox.lose_tool_call(p_call text) returns json
language plpgsql as $$
declare
  v_call signalbox.tool_call;
  v_run signalbox.run;
begin
  select t.* into strict v_call from signalbox.tool_call t where t.id = p_call;
  v_run := signalbox.hold_for_call(v_call.conversation_id, v_call.run_id);
  update signalbox.tool_call
  set state = 'unknown', error_code = 'tool_outcome_unknown', finished_at = signalbox.clock(),
      result_summary = 'The gate was lost while the call was running; whether it took effect is not known.'
  where id = p_call and state = 'executing' and not signalbox.process_lives(process)
  returning * into v_call;
  if found then
    perform signalbox.note_tool_finished(v_run, v_call);
  end if;
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;

-- Calls of this run whose gate is dead.
create function signalbox.close_lost_calls(p_run signalbox.run) returns void
language plpgsql as $$
begin
  perform signalbox.lose_model_call(m.id) from signalbox.model_call m
  where m.run_id = p_run.id and m.state = 'executing' and not signalbox.process_lives(m.process);
  perform signalbox.lose_tool_call(t.id) from signalbox.tool_call t
  where t.run_id = p_run.id and t.state = 'executing' and not signalbox.process_lives(t.process);
end $$;

-- Open calls of dead gates, whoever owns their conversations. Each is closed in a transaction of its own.
create function signalbox.lost_calls(p_limit integer) returns table (kind text, id text)
language sql stable
begin atomic
  (select 'model', m.id from signalbox.process p join signalbox.model_call m on m.process = p.incarnation
   where p.dead_at is not null and m.state = 'executing' limit p_limit)
  union all
  (select 'tool', t.id from signalbox.process p join signalbox.tool_call t on t.process = p.incarnation
   where p.dead_at is not null and t.state = 'executing' limit p_limit);
end;
