-- Gates of the first release know neither pauses nor stops, and an answer they do not know ends a run as an accident of
-- the platform. They go on calling the names they know; gates of today call new ones.

alter function signalbox.open_model_call(text, text, integer, text, text, bigint, text[]) rename to begin_model_call;
alter function signalbox.open_tool_call(text, integer, text, text, text) rename to begin_tool_call;
alter function signalbox.deny_tool_call(text, integer, text, text, text, text, text) rename to refuse_tool_call;

-- Whoever may suspend locks exclusively from the start: two calls of one run that only share could wait for each other.
create function signalbox.foresee_pause(p_token_hash text) returns void
language plpgsql as $$
declare
  v_run signalbox.run;
begin
  select r.* into v_run from signalbox.slot s join signalbox.run r on r.id = s.run_id
  where s.token_hash = p_token_hash;
  if found
     and (signalbox.stop_over(v_run.tenant_id, v_run.agent_id, v_run.conversation_id, v_run.id)).kind = 'pause'
  then
    perform from signalbox.ownership o where o.conversation_id = v_run.conversation_id for update;
  end if;
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

create function signalbox.open_model_call(p_token_hash text, p_call text, p_process integer, p_wire text, p_model text,
                                          p_request_bytes bigint, p_rules text[]) returns json
language plpgsql as $$
begin
  perform signalbox.foresee_pause(p_token_hash);
  return signalbox.in_earlier_words(
    signalbox.begin_model_call(p_token_hash, p_call, p_process, p_wire, p_model, p_request_bytes, p_rules));
end $$;

create function signalbox.open_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text,
                                         p_digest text) returns json
language plpgsql as $$
begin
  perform signalbox.foresee_pause(p_token_hash);
  return signalbox.in_earlier_words(signalbox.begin_tool_call(p_token_hash, p_process, p_tool_use, p_name, p_digest));
end $$;

create function signalbox.deny_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text,
                                         p_digest text, p_code text, p_reason text) returns json
language plpgsql as $$
begin
  return signalbox.in_earlier_words(
    signalbox.refuse_tool_call(p_token_hash, p_process, p_tool_use, p_name, p_digest, p_code, p_reason));
end $$;
