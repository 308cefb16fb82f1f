-- An active run is ended from outside by one mark with a cause. Every function here that decides is called with the
-- ownership row locked exclusively.

alter table signalbox.run
  add column cancel_cause text check (cancel_cause in ('user_cancel', 'superseded', 'operator_stop'));

-- A run that nobody owns is ended on the request side, with everything an owner's finalization does.
grant update on signalbox.tool_call to signalbox_app;
grant select, update, delete on signalbox.transcript_entry to signalbox_app;

-- An id of ours for what the record itself makes.
create function signalbox.new_id(p_prefix text) returns text
language sql volatile
return p_prefix || '_' || lpad(to_hex(signalbox.unix_ms(signalbox.clock())), 12, '0') || '7'
  || substr(replace(gen_random_uuid()::text, '-', ''), 14);

-- The holds of a run that ends are withdrawn with it.
create function signalbox.withdraw_holds(p_run signalbox.run) returns void
language plpgsql as $$
begin
end $$;

-- Writes the ending of a run: state, the one terminal event, audit. Returns the run as it is now.
create or replace function signalbox.end_run(p_run signalbox.run, p_generation bigint, p_outcome text, p_reason text,
                                             p_error json, p_answer text) returns signalbox.run
language plpgsql as $$
declare
  v_run signalbox.run;
  -- The mark says for itself why the end was asked for.
  v_reason text := case when p_reason = 'user_cancel' then coalesce(
    (select r.cancel_cause from signalbox.run r where r.id = p_run.id), p_reason) else p_reason end;
begin
  perform signalbox.withdraw_holds(p_run);
  update signalbox.run
  set state = p_outcome, reason = v_reason, error = p_error::jsonb, answer_message_id = p_answer, rung = p_run.rung,
      served_model = p_run.served_model, finished_at = signalbox.clock(), conclusion = null
  where id = p_run.id
  returning * into strict v_run;
  perform signalbox.tell_still_open(v_run);
  perform signalbox.write_event(v_run, p_generation, 1048575, v_run.id, 'run.finished',
    json_build_object('outcome', p_outcome, 'reason', v_reason, 'error', p_error, 'messageId', p_answer));
  perform signalbox.audit(v_run.tenant_id, 'message_completed', v_run.actor, v_run.conversation_id, v_run.id,
    p_generation,
    '{"answerMessageId":' || signalbox.quoted(p_answer)
    || ',"errorCode":' || signalbox.quoted(p_error ->> 'code')
    || ',"outcome":' || signalbox.quoted(p_outcome)
    || ',"reason":' || signalbox.quoted(v_reason) || '}');
  return v_run;
end $$;

-- Marks that a run is to end, and ends one that nobody owns.
create function signalbox.end_from_outside(p_run signalbox.run, p_generation bigint, p_cause text, p_strikes boolean,
                                           p_actor text) returns text
language plpgsql as $$
declare
  v_run signalbox.run;
begin
  if p_run.state in ('completed', 'cancelled', 'failed', 'rolled_back') then
    return 'already_ended';
  elsif p_run.state = 'finalizing' then
    return 'ending';
  end if;
  update signalbox.run
  set cancel_requested_at = coalesce(cancel_requested_at, signalbox.clock()),
      cancel_cause = coalesce(cancel_cause, case when cancel_requested_at is null then p_cause else 'user_cancel' end)
  where id = p_run.id
  returning * into strict v_run;
  if p_run.cancel_requested_at is null then
    perform signalbox.audit(v_run.tenant_id, 'run_cancel_requested', p_actor, v_run.conversation_id, v_run.id,
      v_run.generation, '{"cause":' || signalbox.quoted(p_cause) || '}');
  end if;
  if v_run.state = 'running' then
    update signalbox.ownership set cancel_at = signalbox.clock()
    where conversation_id = v_run.conversation_id and cancel_at is null;
    return 'requested';
  end if;
  perform signalbox.end_run(v_run, p_generation, 'cancelled', v_run.cancel_cause, null, null);
  if v_run.state = 'queued' then
    perform signalbox.move_queue(v_run.conversation_id, v_run.position, p_generation);
  else
    perform signalbox.hand_over(v_run.conversation_id);
  end if;
  return 'ended';
end $$;
