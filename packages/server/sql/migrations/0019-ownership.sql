-- Who may drive a run, and what waits behind it: the line of a conversation, messages that a running run takes in,
-- claim, takeover and release. A takeover begins with what a dead generation left of its turn: calls are waited for or
-- closed, and items that were said to their end stay.

-- Tells the runs behind `p_after` their new places; the active run counts as one before them.
create or replace function signalbox.move_queue(p_conversation text, p_after bigint, p_generation bigint) returns void
language plpgsql as $$
declare
  v_run signalbox.run;
  v_place integer := 1;
begin
  for v_run in
    select r.* from signalbox.run r
    where r.conversation_id = p_conversation and r.state = 'queued' and r.consumed_at is null order by r.position
  loop
    if v_run.position > p_after then
      -- A place only falls, so a later one is a newer revision.
      perform signalbox.write_event(v_run, p_generation, 1048575 - v_place, v_run.message_id, 'queue.moved',
        json_build_object('messageId', v_run.message_id, 'position', v_place));
    end if;
    v_place := v_place + 1;
  end loop;
end $$;

-- Nobody is active any more: releases the ownership and lets the next in line in. Returns its id, or null.
create or replace function signalbox.hand_over(p_conversation text) returns text
language plpgsql as $$
declare
  v_generation bigint;
  v_run signalbox.run;
begin
  update signalbox.ownership
  set generation = generation + 1, owner = null, runtime = null, ready_at = null, cancel_at = null
  where conversation_id = p_conversation
  returning generation into strict v_generation;
  update signalbox.run set state = 'admitted', steer_into = null
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

-- Whether there is something to rebuild a session from: an answer that stands, what a fork began with, or a turn that
-- ended without an answer.
create function signalbox.has_history(p_run signalbox.run) returns boolean
language plpgsql as $$
begin
  if exists (select from signalbox.message m
             where m.conversation_id = p_run.conversation_id and m.position < p_run.position * 2 and not m.struck
               and (m.role = 'assistant' or m.run_id is null)) then
    return true;
  end if;
  -- Apart: in one condition the runs of the whole conversation would be read for it.
  return exists (select from signalbox.message m join signalbox.run r on r.id = m.run_id
                 where m.conversation_id = p_run.conversation_id and m.position < p_run.position * 2 and not m.struck
                   and r.started_at is not null);
end $$;

-- Calls of a turn that must not be forgotten: those with an effect; where no answer tells of the rest, all that began.
create function signalbox.calls_told(p_run text) returns json
language sql stable
begin atomic
  select json_agg(json_build_object('name', told.name, 'argumentsJson', left(told.arguments, 500), 'state', told.state,
                                    'resultSummary', left(told.result_summary, 500)) order by told.started_at, told.id)
  from (select t.id, t.name, t.arguments, t.state, t.result_summary, t.started_at
        from signalbox.tool_call t join signalbox.run r on r.id = t.run_id
        where t.run_id = p_run and t.started_at is not null and t.replay_of is null
          and (t.effect in ('write', 'irreversible') or r.state <> 'completed')
        order by t.started_at desc, t.id desc limit 20) as told;
end;

-- What was said before this run and not struck, oldest first: the last `p_limit` messages of the history, questions with
-- the calls that their turns made.
create function signalbox.past_messages(p_run text, p_limit integer)
returns table (role text, text text, calls json)
language sql stable
begin atomic
  select recent.role, recent.text, case recent.role when 'user' then signalbox.calls_told(recent.run_id) end
  from (select m.role, m.text, m.position, m.run_id
        from signalbox.run r join signalbox.message m
          on m.conversation_id = r.conversation_id and m.position < r.position * 2 and not m.struck
        where r.id = p_run
        order by m.position desc limit p_limit) as recent
  order by recent.position;
end;

-- The same as the release before this one asks for it.
create or replace function signalbox.history_before(p_run text, p_limit integer)
returns table (role text, text text)
language sql stable
begin atomic
  select past.role, past.text from signalbox.past_messages(p_run, p_limit) as past;
end;

-- Turns that were begun, ended, and are in the history but not in the transcript that the next turn goes on from: it is
-- told of them. The last eight, oldest first.
create function signalbox.missed_turns(p_run signalbox.run) returns json
language plpgsql as $$
declare
  v_leaf_turn bigint;
begin
  select coalesce(c.leaf_turn, (select max(r.position) from signalbox.run r
                                where r.conversation_id = c.id and r.answer_message_id is not null), 0)
  into strict v_leaf_turn from signalbox.conversation c where c.id = p_run.conversation_id;
  return (
    select coalesce(json_agg(json_build_object('text', left(missed.text, 4000), 'outcome', missed.state,
                                               'reason', missed.reason, 'calls', missed.calls)
                             order by missed.position), '[]')
    from (select m.text, m.position, r.state, r.reason, coalesce(signalbox.calls_told(r.id), '[]') as calls
          from signalbox.message m join signalbox.run r on r.id = m.run_id
          where m.conversation_id = p_run.conversation_id and m.position > v_leaf_turn * 2 + 1
            and m.position < p_run.position * 2 and m.role = 'user' and not m.struck
            and (r.started_at is not null or r.consumed_at is not null)
          order by m.position desc limit 8) as missed);
end $$;

-- The messages a run has taken in while it was running, in their order: a turn that runs again begins with them.
create function signalbox.taken_in(p_run signalbox.run) returns json
language plpgsql as $$
begin
  return (select coalesce(json_agg(json_build_object('messageId', r.message_id, 'text', m.text) order by r.position), '[]')
    from signalbox.run r join signalbox.message m on m.tenant_id = r.tenant_id and m.id = r.message_id
    where r.conversation_id = p_run.conversation_id and r.state = 'queued' and r.steer_into = p_run.id
      and r.consumed_at is not null);
end $$;

-- Offered to the owners a process has: messages for their running runs that nothing else stands before.
create function signalbox.steered(p_process integer)
returns table (conversation_id text, generation bigint, message_id text, text text)
language sql stable
begin atomic
  select o.conversation_id, o.generation, r.message_id, m.text
  from signalbox.ownership o
  join signalbox.run a on a.conversation_id = o.conversation_id and a.state = 'running' and a.generation = o.generation
  join signalbox.run r on r.conversation_id = o.conversation_id and r.state = 'queued' and r.steer_into = a.id
    and r.consumed_at is null
  join signalbox.message m on m.tenant_id = r.tenant_id and m.id = r.message_id
  where o.owner = p_process and o.cancel_at is null
    and not exists (select from signalbox.run b
                    where b.conversation_id = o.conversation_id and b.state = 'queued' and b.position < r.position
                      and b.consumed_at is null and b.steer_into is distinct from a.id)
  order by o.conversation_id, r.position;
end;

-- The engine has taken a message into its context: from here on it belongs to the running run, and ends with it.
create function signalbox.take_in(p_conversation text, p_generation bigint, p_message text) returns json
language plpgsql as $$
declare
  v_target signalbox.run;
  v_run signalbox.run;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'take_in');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_target from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  update signalbox.run set consumed_at = signalbox.clock()
  where conversation_id = p_conversation and message_id = p_message and state = 'queued' and consumed_at is null
    and steer_into = v_target.id
  returning * into v_run;
  if not found then
    -- Reported before, or cancelled meanwhile.
    return json_build_object('kind', 'known');
  end if;
  perform signalbox.write_event(v_run, p_generation, 1048575, p_message, 'queue.moved',
    json_build_object('messageId', p_message, 'position', 0, 'mergedInto', v_target.id));
  perform signalbox.move_queue(p_conversation, v_run.position, p_generation);
  return json_build_object('kind', 'taken_in', 'sequence', signalbox.newest(p_conversation));
end $$;

-- Makes the process owner of the conversation's active run. The ownership row is locked exclusively. A takeover begins
-- with the open calls of earlier generations: those of a dead gate are closed here. Null when nothing is to be owned.
create or replace function signalbox.take(p_conversation text, p_process integer, p_cause text) returns json
language plpgsql as $$
declare
  v_generation bigint;
  v_run signalbox.run;
  v_again boolean;
begin
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state in ('admitted', 'running', 'finalizing') for update;
  if not found then
    return null;
  end if;
  v_again := v_run.generation is not null;
  if v_again then
    perform signalbox.close_lost_calls(v_run);
  end if;
  update signalbox.ownership
  set generation = generation + 1, owner = p_process, runtime = v_run.runtime, ready_at = null
  where conversation_id = p_conversation
  returning generation into strict v_generation;
  update signalbox.run
  set state = case v_run.state when 'finalizing' then 'finalizing' else 'running' end,
      generation = v_generation, owner = p_process, started_at = coalesce(started_at, signalbox.clock()),
      attempt = case p_cause when 'ready' then greatest(attempt, 1) else attempt + 1 end
  where id = v_run.id
  returning * into v_run;
  perform signalbox.note_taken(v_run, p_cause);
  -- For its owner the wall clock stood while the run waited.
  v_run.started_at := v_run.started_at + make_interval(secs => v_run.suspended_ms / 1000.0);
  return signalbox.claim_facts(v_run, p_cause, v_again);
end $$;

-- Everything an owner needs to know of the run it holds now. The snapshot is named by its hash. `p_again`: the run was
-- owned before. Another runtime's transcript is no leaf to continue from; what it was about is in the history.
create or replace function signalbox.claim_facts(p_run signalbox.run, p_cause text, p_again boolean) returns json
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
  where m.conversation_id = p_run.conversation_id and m.position < p_run.position * 2 and m.role = 'user'
    and not m.struck
  order by m.position desc limit 1;
  v_history := signalbox.has_history(p_run);
  select c.leaf_entry, c.last_sequence into strict v_leaf, v_sequence from signalbox.conversation c where c.id = p_run.conversation_id;
  if signalbox.leaf_is_foreign(p_run) then
    v_leaf := null;
    v_history := true;
  end if;
  if p_again then
    select coalesce(json_agg(json_build_object('itemId', i.item_id, 'kind', i.kind) order by i.item_id), '[]')
    into v_visible
    from signalbox.visible_items(p_run) i;
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
    'missed', case when v_leaf is null then '[]' else signalbox.missed_turns(p_run) end,
    'ownedBefore', p_again, 'visibleItems', v_visible, 'takenIn', signalbox.taken_in(p_run),
    'outcomeUnknown', v_unknown, 'sealed', p_run.conclusion, 'sequence', v_sequence);
end $$;

-- What earlier generations left to this one. While a call of theirs is open at a live gate nothing is adopted: its
-- outcome belongs to the turn, and to its transcript.
create function signalbox.take_over(p_conversation text, p_generation bigint, p_adopt boolean) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
  v_open bigint;
  v_leaf text;
begin
  if not signalbox.hold_shared(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'take_over');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation for no key update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  perform signalbox.close_lost_calls(v_run);
  v_open := (select count(*) from signalbox.model_call m where m.run_id = v_run.id and m.state = 'executing')
    + (select count(*) from signalbox.tool_call t where t.run_id = v_run.id and t.state = 'executing');
  if p_adopt and v_open = 0 then
    v_leaf := signalbox.adopt_transcript(v_run, p_generation);
  end if;
  return json_build_object(
    'openCallCount', v_open,
    'outcomeUnknown', exists (select from signalbox.tool_call t
      where t.run_id = v_run.id and t.effect in ('write', 'irreversible') and t.state in ('executing', 'unknown')),
    'leaf', v_leaf,
    'closedItems', signalbox.closed_items(v_run));
end $$;

-- Gives the run back: whoever has room claims it. One that is to end needs nobody for that.
create or replace function signalbox.release(p_conversation text, p_generation bigint) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
  v_cancelled boolean;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'release');
    return json_build_object('code', 'stale_generation');
  end if;
  update signalbox.run set state = 'admitted', owner = null
  where conversation_id = p_conversation and state = 'running' and generation = p_generation
  returning * into v_run;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  update signalbox.ownership
  set generation = generation + 1, owner = null, ready_at = signalbox.clock()
  where conversation_id = p_conversation
  returning cancel_at is not null into strict v_cancelled;
  perform signalbox.unbind_slots(p_conversation);
  if v_cancelled then
    perform signalbox.end_unowned(v_run, p_generation + 1);
    perform signalbox.hand_over(p_conversation);
    return json_build_object('kind', 'released', 'sequence', signalbox.newest(p_conversation));
  end if;
  perform signalbox.audit(v_run.tenant_id, 'run_admitted', v_run.actor, p_conversation, v_run.id, p_generation + 1,
    '{"messageId":' || signalbox.quoted(v_run.message_id) || '}');
  return json_build_object('kind', 'released');
end $$;
