-- Tools that the caller carries out: the call waits with a hold of its own, and what the client says of it is its
-- result. The questions of `ask_user` are such calls too, whose hold is an input.

-- How long a client may take for a call, by the snapshot of its run.
create function signalbox.client_patience(p_run signalbox.run, p_name text) returns bigint
language plpgsql as $$
begin
  return (
    select (t ->> 'patienceMs')::bigint
    from signalbox.snapshot s cross join lateral json_array_elements(s.body::json -> 'tools') as t
    where s.tenant_id = p_run.tenant_id and s.hash = p_run.snapshot_hash and t ->> 'name' = p_name);
end $$;

-- Hands a call to the client: readers are told that it is theirs, and the intent that asked waits for the hold. Counted
-- and audited like every call that leaves.
create function signalbox.hand_to_client(p_run signalbox.run, p_call signalbox.tool_call) returns json
language plpgsql as $$
declare
  v_call signalbox.tool_call;
  v_hold text := signalbox.new_id('hld');
  v_kind text := case p_call.tool when 'ask_user' then 'input' else 'client_tool' end;
  v_arguments text := coalesce(p_call.edited_arguments, p_call.arguments);
  v_subject jsonb;
begin
  update signalbox.run set tool_call_count = tool_call_count + 1
  where id = p_run.id and tool_call_count < tool_call_limit;
  if not found then
    return json_build_object('code', 'run_timeout', 'detail', 'The run has used up its tool calls.');
  end if;
  update signalbox.tool_call set state = 'awaiting_approval', hold_id = v_hold, started_at = signalbox.clock()
  where id = p_call.id
  returning * into strict v_call;
  perform signalbox.write_event(p_run, v_call.generation, 0, v_call.id, 'tool.started', json_build_object(
    'toolCallId', v_call.id, 'toolUseId', v_call.tool_use_id, 'tool', v_call.name, 'title', v_call.title,
    'effect', v_call.effect, 'grade', 'contained', 'argumentsSummary', left(v_arguments, 200), 'executor', 'client'));
  perform signalbox.audit(p_run.tenant_id, 'tool_called', p_run.actor, p_run.conversation_id, p_run.id,
    v_call.generation,
    '{"argumentsDigest":' || signalbox.quoted(v_call.arguments_digest)
    || ',"definitionHash":' || signalbox.quoted(v_call.definition_hash)
    || ',"effect":' || signalbox.quoted(v_call.effect)
    || ',"executor":"client"'
    || ',"name":' || signalbox.quoted(v_call.name)
    || ',"toolCallId":' || signalbox.quoted(v_call.id) || '}');
  v_subject := jsonb_build_object('toolCallId', v_call.id, 'toolUseId', v_call.tool_use_id, 'name', v_call.name,
    'tool', v_call.tool, 'title', v_call.title, 'effect', v_call.effect, 'argumentsJson', v_arguments);
  if v_kind = 'input' then
    v_subject := v_subject || jsonb_strip_nulls(jsonb_build_object(
      'question', v_arguments::jsonb -> 'question', 'choices', v_arguments::jsonb -> 'choices',
      'schema', v_arguments::jsonb -> 'schema'));
  end if;
  perform signalbox.put_hold(p_run, v_hold, v_kind, v_subject, null, signalbox.client_patience(p_run, v_call.name));
  return json_build_object('code', 'run_suspended', 'holdId', v_hold, 'conversationId', p_run.conversation_id,
                           'generation', p_run.generation, 'sequence', signalbox.newest(p_run.conversation_id));
end $$;

-- What became of a call that a client was to carry out, in the transaction that closes its hold.
create function signalbox.move_client_call(p_run signalbox.run, p_hold signalbox.hold) returns void
language plpgsql as $$
declare
  v_call signalbox.tool_call;
  v_words text := signalbox.words_of(p_hold.response);
  v_failed boolean;
  v_why text;
begin
  select t.* into v_call from signalbox.tool_call t
  where t.hold_id = p_hold.id and t.state in ('awaiting_approval', 'withdrawn') for update;
  if not found or (v_call.state = 'withdrawn' and p_hold.state <> 'withdrawn') then
    return;
  end if;
  if p_hold.state = 'withdrawn' then
    update signalbox.tool_call set state = 'withdrawn', finished_at = signalbox.clock() where id = v_call.id
    returning * into strict v_call;
    perform signalbox.tell_tool_finished(p_run, v_call, 1);
    return;
  end if;
  v_why := case
    when p_hold.state = 'expired' then 'client_tool_unanswered'
    when p_hold.decision = 'reject' then 'client_tool_refused' end;
  v_words := case
    when p_hold.state = 'expired' then 'Nobody answered in time. (client_tool_unanswered)'
    when p_hold.decision = 'reject'
      then 'The client refused this' || coalesce(': ' || v_words, '.') || ' (client_tool_refused)'
    when p_hold.kind = 'client_tool' then coalesce(p_hold.response ->> 'content', v_words, '')
    when jsonb_typeof(p_hold.response) = 'string' then p_hold.response #>> '{}'
    else coalesce(p_hold.response::text, '') end;
  v_failed := v_why is not null
    or (p_hold.kind = 'client_tool' and coalesce(p_hold.response -> 'isError' = 'true'::jsonb, false));
  update signalbox.tool_call
  set state = case when v_failed then 'failed' else 'succeeded' end, error_code = v_why,
      result = signalbox.said(v_words, v_failed), result_summary = left(v_words, 200),
      finished_at = signalbox.clock()
  where id = v_call.id
  returning * into strict v_call;
  perform signalbox.note_tool_finished(p_run, v_call);
end $$;

-- The hold of a call that a client is to carry out, or has: for whoever may see its conversation.
create function signalbox.client_hold(p_tenant text, p_user text, p_call text) returns text
language plpgsql as $$
begin
  return (
    select h.id from signalbox.tool_call t
    join signalbox.hold h on h.id = t.hold_id and h.kind = 'client_tool'
    join signalbox.conversation c on c.id = h.conversation_id
    where t.id = p_call and t.tenant_id = p_tenant and (p_user is null or c.participant = p_user));
end $$;
