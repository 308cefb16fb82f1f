-- Model calls and tool calls: an intent before, an outcome after.

create function signalbox.open_model_call(p_token_hash text, p_call text, p_process integer, p_wire text, p_model text,
                                          p_request_bytes bigint, p_rules text[]) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
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

-- Closes the call once, whoever owns the conversation by now. Its proposals count only while the opener is the owner.
create function signalbox.settle_model_call(
  p_call text, p_state text, p_served_model text, p_input bigint, p_output bigint, p_cache_read bigint,
  p_cache_write bigint, p_cost_micros bigint, p_price_version text, p_stop_reason text, p_error_code text,
  p_proposals jsonb) returns json
language plpgsql as $$
declare
  v_call signalbox.model_call;
  v_run signalbox.run;
  v_accepted boolean := false;
begin
  select m.* into v_call from signalbox.model_call m where m.id = p_call;
  if not found then
    -- The intent was never recorded: its reply was lost together with it.
    return json_build_object('proposalsAccepted', false);
  end if;
  v_run := signalbox.hold_for_call(v_call.conversation_id, v_call.run_id);
  update signalbox.model_call
  set state = p_state, served_model = p_served_model, input_tokens = p_input, output_tokens = p_output,
      cache_read_tokens = p_cache_read, cache_write_tokens = p_cache_write, cost_micros = p_cost_micros,
      price_version = p_price_version, stop_reason = p_stop_reason, error_code = p_error_code,
      finished_at = signalbox.clock()
  where id = p_call and state = 'executing'
  returning * into v_call;
  if not found then
    return (select json_build_object('proposalsAccepted', coalesce(m.proposals_accepted, false))
            from signalbox.model_call m where m.id = p_call);
  end if;
  perform signalbox.note_usage(v_run, v_call);
  if p_state = 'succeeded' and v_run.state = 'running' and exists (
       select from signalbox.ownership o
       where o.conversation_id = v_call.conversation_id and o.generation = v_call.generation and o.cancel_at is null)
  then
    v_accepted := signalbox.propose(v_run, v_call, p_proposals);
  end if;
  update signalbox.model_call set proposals_accepted = v_accepted where id = p_call;
  return json_build_object('proposalsAccepted', v_accepted, 'conversationId', v_call.conversation_id,
                           'sequence', signalbox.newest(v_call.conversation_id));
end $$;

-- Records the calls of one model message, or none: a message that gives a known id other arguments, or one id twice, is
-- refused whole.
create function signalbox.propose(p_run signalbox.run, p_call signalbox.model_call, p_proposals jsonb) returns boolean
language plpgsql as $$
declare
  v_proposal jsonb;
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
  return true;
end $$;

-- The id is known with these arguments: what has an outcome keeps it, what came to nothing starts over.
create function signalbox.propose_again(p_run text, p_tool_use text) returns void
language plpgsql as $$
begin
  update signalbox.tool_call
  set state = 'proposed', process = null, started_at = null, finished_at = null, result = null, result_summary = null,
      error_code = null, proposed_at = signalbox.clock()
  where run_id = p_run and tool_use_id = p_tool_use
    and (state in ('failed', 'withdrawn') or (state = 'unknown' and effect in ('read', 'egress_read')));
end $$;

create function signalbox.propose_new(p_run signalbox.run, p_call signalbox.model_call, p_ordinal integer,
                                      p_proposal jsonb) returns void
language plpgsql as $$
declare
  v_denied boolean := p_proposal ->> 'server' is null;
  v_call signalbox.tool_call;
begin
  insert into signalbox.tool_call (
    id, tenant_id, run_id, conversation_id, model_call_id, ordinal, tool_use_id, name, server, tool, title, effect,
    definition_hash, arguments, arguments_digest, state, generation, error_code, denial, proposed_at, finished_at)
  values (
    p_proposal ->> 'toolCallId', p_run.tenant_id, p_run.id, p_run.conversation_id, p_call.id, p_ordinal,
    p_proposal ->> 'toolUseId', p_proposal ->> 'name', p_proposal ->> 'server', p_proposal ->> 'tool',
    coalesce((select t.title from signalbox.tool t
              where t.tenant_id = p_run.tenant_id and t.server = p_proposal ->> 'server'
                and t.tool = p_proposal ->> 'tool'), p_proposal ->> 'tool', p_proposal ->> 'name'),
    p_proposal ->> 'effect', p_proposal ->> 'definitionHash', p_proposal ->> 'argumentsJson',
    p_proposal ->> 'argumentsDigest', case when v_denied then 'denied' else 'proposed' end, p_call.generation,
    case when v_denied then 'tool_not_allowed' end,
    case when v_denied then 'This agent has no tool of that name.' end,
    signalbox.clock(), case when v_denied then signalbox.clock() end)
  returning * into strict v_call;
  if v_denied then
    perform signalbox.note_tool_finished(p_run, v_call);
  end if;
end $$;
