-- What admission, cancel, claim and finish share. Every function here is called with the ownership row locked
-- exclusively. Locks are taken in one order everywhere: ownership, run, conversation, the rest.

-- Tells the runs behind `p_after` their new places; the active run counts as one before them.
create function signalbox.move_queue(p_conversation text, p_after bigint, p_generation bigint) returns void
language plpgsql as $$
declare
  v_run signalbox.run;
  v_place integer := 1;
begin
  for v_run in
    select r.* from signalbox.run r where r.conversation_id = p_conversation and r.state = 'queued' order by r.position
  loop
    if v_run.position > p_after then
      -- A place only falls, so a later one is a newer revision.
      perform signalbox.write_event(v_run, p_generation, 1048575 - v_place, v_run.message_id, 'queue.moved',
        json_build_object('messageId', v_run.message_id, 'position', v_place));
    end if;
    v_place := v_place + 1;
  end loop;
end $$;

create function signalbox.note_admitted(p_run signalbox.run, p_generation bigint) returns void
language plpgsql as $$
begin
  perform signalbox.write_event(p_run, p_generation, 0, p_run.id, 'run.admitted',
    json_build_object('messageId', p_run.message_id));
  perform signalbox.audit(p_run.tenant_id, 'run_admitted', p_run.actor, p_run.conversation_id, p_run.id, p_generation,
    '{"messageId":' || signalbox.quoted(p_run.message_id) || '}');
end $$;

-- Nobody is active any more: releases the ownership and lets the next in line in. Returns its id, or null.
create function signalbox.hand_over(p_conversation text) returns text
language plpgsql as $$
declare
  v_generation bigint;
  v_run signalbox.run;
begin
  update signalbox.ownership
  set generation = generation + 1, owner = null, runtime = null, ready_at = null, cancel_at = null
  where conversation_id = p_conversation
  returning generation into strict v_generation;
  update signalbox.run set state = 'admitted'
  where id = (select r.id from signalbox.run r
              where r.conversation_id = p_conversation and r.state = 'queued' order by r.position limit 1)
  returning * into v_run;
  if not found then
    return null;
  end if;
  update signalbox.ownership set runtime = v_run.runtime, ready_at = signalbox.clock()
  where conversation_id = p_conversation;
  perform signalbox.note_admitted(v_run, v_generation);
  perform signalbox.move_queue(p_conversation, v_run.position, v_generation);
  return v_run.id;
end $$;

-- Writes the ending of a run: state, the one terminal event, audit. Returns the run as it is now.
create function signalbox.end_run(p_run signalbox.run, p_generation bigint, p_outcome text, p_reason text,
                                  p_error json, p_answer text) returns signalbox.run
language plpgsql as $$
declare
  v_run signalbox.run;
begin
  update signalbox.run
  set state = p_outcome, reason = p_reason, error = p_error::jsonb, answer_message_id = p_answer, rung = p_run.rung,
      served_model = p_run.served_model, finished_at = signalbox.clock(), conclusion = null
  where id = p_run.id
  returning * into strict v_run;
  perform signalbox.tell_still_open(v_run);
  perform signalbox.write_event(v_run, p_generation, 1048575, v_run.id, 'run.finished',
    json_build_object('outcome', p_outcome, 'reason', p_reason, 'error', p_error, 'messageId', p_answer));
  perform signalbox.audit(v_run.tenant_id, 'message_completed', v_run.actor, v_run.conversation_id, v_run.id,
    p_generation,
    '{"answerMessageId":' || signalbox.quoted(p_answer)
    || ',"errorCode":' || signalbox.quoted(p_error ->> 'code')
    || ',"outcome":' || signalbox.quoted(p_outcome)
    || ',"reason":' || signalbox.quoted(p_reason) || '}');
  return v_run;
end $$;

-- Everything an owner needs to know of the run it holds now. The snapshot is named by its hash. `p_again`: the run was
-- owned before.
create function signalbox.claim_facts(p_run signalbox.run, p_cause text, p_again boolean) returns json
language plpgsql as $$
declare
  v_at timestamptz := signalbox.clock();
  v_message signalbox.message;
  v_before signalbox.message;
  v_leaf text;
  v_sequence bigint;
  v_history boolean;
  v_visible json := '[]';
  v_unknown boolean := false;
begin
  select m.* into strict v_message from signalbox.message m
  where m.conversation_id = p_run.conversation_id and m.position = p_run.position * 2;
  select m.* into v_before from signalbox.message m
  where m.conversation_id = p_run.conversation_id and m.position = (p_run.position - 1) * 2;
  v_history := exists (select from signalbox.message m
    where m.conversation_id = p_run.conversation_id and m.position < p_run.position * 2 and m.role = 'assistant');
  select c.leaf_entry, c.last_sequence into strict v_leaf, v_sequence from signalbox.conversation c where c.id = p_run.conversation_id;
  if p_again then
    select coalesce(json_agg(json_build_object('itemId', last.item_id, 'kind', split_part(last.type, '.', 1))
                             order by last.item_id), '[]')
    into v_visible
    from (select distinct on (e.item_id) e.item_id, e.type
          from signalbox.event e
          where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.run_id = p_run.id
            and e.type in ('text.delta', 'text.completed', 'text.retracted', 'thinking.delta', 'thinking.completed')
          order by e.item_id, e.revision desc, e.sequence desc) as last
    where last.type <> 'text.retracted';
    v_unknown := exists (select from signalbox.tool_call t
      where t.run_id = p_run.id and t.effect in ('write', 'irreversible') and t.state in ('executing', 'unknown'));
  end if;
  return json_build_object(
    'tenantId', p_run.tenant_id, 'conversationId', p_run.conversation_id, 'runId', p_run.id,
    'messageId', p_run.message_id, 'generation', p_run.generation, 'attempt', p_run.attempt, 'cause', p_cause,
    'actor', p_run.actor::json, 'snapshotHash', p_run.snapshot_hash, 'traceId', p_run.trace_id,
    'text', v_message.text, 'metadata', v_message.metadata,
    'acceptedAtMs', signalbox.unix_ms(p_run.accepted_at), 'nowMs', signalbox.unix_ms(v_at),
    'startedAtMs', signalbox.unix_ms(p_run.started_at),
    'lastUserMessageAgeMs', signalbox.unix_ms(v_message.created_at) - signalbox.unix_ms(v_before.created_at),
    'lastUserSnippet', left(v_before.text, 400),
    'leaf', v_leaf, 'hasHistory', v_history, 'cancelRequested', p_run.cancel_requested_at is not null,
    'visibleItems', v_visible, 'outcomeUnknown', v_unknown, 'sealed', p_run.conclusion, 'sequence', v_sequence);
end $$;

create function signalbox.unix_ms(p_at timestamptz) returns bigint
language sql stable parallel safe
return (extract(epoch from p_at) * 1000)::bigint;
