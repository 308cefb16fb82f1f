-- How a run ends: by its owner, or from outside by one mark with a cause. Every function here that decides is called
-- with the ownership row locked exclusively.

-- Whether a rollback was asked for and the turn can be struck. Not when a call with an effect left for the world outside
-- in it, and not when it compacted: what stood before it is not in the transcript any more.
create function signalbox.can_strike(p_run signalbox.run) returns boolean
language plpgsql as $$
begin
  return p_run.cancel_strikes
    and not exists (
      select from signalbox.tool_call t
      where t.run_id = p_run.id and t.effect in ('write', 'irreversible') and t.started_at is not null)
    and not exists (
      select from signalbox.event e
      where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.run_id = p_run.id
        and e.type = 'run.phase' and e.data::json ->> 'phase' = 'compacting');
end $$;

-- The place in the history behind the run's own message and those it took in.
create function signalbox.answer_position(p_run signalbox.run) returns bigint
language plpgsql as $$
begin
  return 1 + 2 * greatest(p_run.position, (
    select max(r.position) from signalbox.run r
    where r.conversation_id = p_run.conversation_id and r.state = 'queued' and r.steer_into = p_run.id
      and r.consumed_at is not null));
end $$;

-- Writes the ending of a run: state, the one terminal event, audit, which says also on which rung the turn stood; and of
-- the messages it took in. A rolled back turn is struck from the history. Returns the run as it is now.
create or replace function signalbox.end_run(p_run signalbox.run, p_generation bigint, p_outcome text, p_reason text,
                                             p_error json, p_answer text) returns signalbox.run
language plpgsql as $$
declare
  v_run signalbox.run;
  v_merged signalbox.run;
begin
  perform signalbox.withdraw_holds(p_run);
  update signalbox.run
  set state = p_outcome, reason = p_reason, error = p_error::jsonb, answer_message_id = p_answer, rung = p_run.rung,
      served_model = p_run.served_model, finished_at = signalbox.clock(), conclusion = null
  where id = p_run.id
  returning * into strict v_run;
  if p_outcome = 'rolled_back' then
    update signalbox.message m set struck = true
    where m.conversation_id = v_run.conversation_id
      and m.run_id in (select v_run.id union all
                       select r.id from signalbox.run r
                       where r.conversation_id = v_run.conversation_id and r.state = 'queued'
                         and r.steer_into = v_run.id and r.consumed_at is not null);
  end if;
  perform signalbox.tell_still_open(v_run);
  perform signalbox.write_event(v_run, p_generation, 1048575, v_run.id, 'run.finished',
    case when v_run.cancel_strikes then
      json_build_object('outcome', p_outcome, 'reason', p_reason, 'error', p_error, 'messageId', p_answer,
                        'rollback', case p_outcome when 'rolled_back' then 'struck' else 'interrupted' end)
    else json_build_object('outcome', p_outcome, 'reason', p_reason, 'error', p_error, 'messageId', p_answer) end);
  perform signalbox.audit(v_run.tenant_id, 'message_completed', v_run.actor, v_run.conversation_id, v_run.id,
    p_generation,
    '{"answerMessageId":' || signalbox.quoted(p_answer)
    || ',"errorCode":' || signalbox.quoted(p_error ->> 'code')
    || ',"outcome":' || signalbox.quoted(p_outcome)
    || ',"reason":' || signalbox.quoted(p_reason)
    || ',"rung":' || signalbox.quoted(v_run.rung) || '}');
  for v_merged in
    select r.* from signalbox.run r
    where r.conversation_id = v_run.conversation_id and r.state = 'queued' and r.steer_into = v_run.id
      and r.consumed_at is not null
    order by r.position
  loop
    perform signalbox.end_run(v_merged, p_generation, 'completed', 'merged', null, p_answer);
  end loop;
  return v_run;
end $$;

-- Closes the gates for the run and answers what its end is decided from: the transcript's tip by the rung the transcript
-- sees, open calls, why the run is to end, and whether its turn can be struck: not when a call with an effect has left.
create or replace function signalbox.seal(p_conversation text, p_generation bigint, p_conclusion jsonb) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
  v_tip record;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'seal');
    return json_build_object('code', 'stale_generation');
  end if;
  update signalbox.run
  set state = 'finalizing', conclusion = coalesce(conclusion, p_conclusion),
      sealed_at = coalesce(sealed_at, signalbox.clock())
  where conversation_id = p_conversation and state in ('running', 'finalizing') and generation = p_generation
  returning * into v_run;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  select t.leaf, t.digest into strict v_tip
  from signalbox.transcript_tip(p_conversation, (v_run.conclusion ->> 'generation')::bigint,
                                signalbox.transcript_rung(v_run, v_run.conclusion ->> 'rung')) t;
  return json_build_object(
    'leaf', v_tip.leaf,
    'digest', encode(v_tip.digest, 'hex'),
    'openModelCallCount', (select count(*) from signalbox.model_call m
                           where m.run_id = v_run.id and m.state = 'executing'),
    'openToolCallCount', (select count(*) from signalbox.tool_call t
                          where t.run_id = v_run.id and t.state = 'executing'),
    'unknownToolCallCount', (select count(*) from signalbox.tool_call t
                             where t.run_id = v_run.id and t.state = 'unknown'
                               and t.effect in ('write', 'irreversible')),
    'cancelRequested', v_run.cancel_requested_at is not null,
    'cancelCause', case when v_run.cancel_requested_at is not null
                        then coalesce(v_run.cancel_cause, 'user_cancel') end,
    'strikes', signalbox.can_strike(v_run));
end $$;

-- Decides, in one transaction: history, continuity, and whose transcript it is that the next turn finds; terminal state
-- and event, audit, release, next message.
create or replace function signalbox.finish(
  p_conversation text, p_generation bigint, p_outcome text, p_reason text, p_error json, p_answer text,
  p_answer_text text, p_partial boolean, p_rung text, p_continuity text, p_leaf text, p_digest text,
  p_served_model text) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
  v_tip record;
  v_turn bigint;
  v_rung text;
  v_place bigint;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'finish');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'finalizing' and r.generation = p_generation for update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  v_turn := (v_run.conclusion ->> 'generation')::bigint;
  v_rung := signalbox.transcript_rung(v_run, v_run.conclusion ->> 'rung');
  if p_continuity = 'moved' then
    select t.leaf, t.digest into strict v_tip
    from signalbox.transcript_tip(p_conversation, v_turn, v_rung) t;
    if v_tip.leaf is distinct from p_leaf or encode(v_tip.digest, 'hex') is distinct from p_digest then
      return json_build_object('code', 'transcript_not_durable');
    end if;
  end if;
  v_place := signalbox.answer_position(v_run);
  if p_answer is not null then
    insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, partial, position)
    values (p_answer, v_run.tenant_id, p_conversation, v_run.id, 'assistant', p_answer_text, p_partial, v_place);
  end if;
  v_run.rung := p_rung;
  v_run.served_model := p_served_model;
  v_run := signalbox.end_run(v_run, p_generation, p_outcome,
    -- The release before this one knows one cause only.
    case when p_outcome = 'cancelled' and p_reason = 'user_cancel' then coalesce(v_run.cancel_cause, p_reason)
         else p_reason end, p_error, p_answer);
  perform signalbox.settle_transcript(p_conversation, v_turn, p_continuity, v_rung, p_leaf, decode(p_digest, 'hex'));
  if p_continuity = 'moved' then
    update signalbox.conversation
    set leaf_runtime = v_run.runtime, leaf_turn = (v_place - 1) / 2
    where id = p_conversation;
  end if;
  perform signalbox.unbind_slots(p_conversation);
  perform signalbox.withdraw_proposals(v_run.id);
  return json_build_object('nextRunId', signalbox.hand_over(p_conversation), 'sequence', signalbox.newest(p_conversation));
end $$;

-- Ends a marked run that nobody drives. What it had said is kept and marked; the transcript does not have it, so the
-- next turn is rebuilt then. One that was running is sealed first, as by its owner, and what a dead gate left open of it
-- is closed before its end is told; a call at a live gate is closed by that gate.
create function signalbox.end_unowned(p_run signalbox.run, p_generation bigint) returns void
language plpgsql as $$
declare
  v_run signalbox.run := p_run;
  v_strikes boolean;
  v_text text;
  v_answer text;
begin
  if v_run.state = 'running' then
    update signalbox.run set state = 'finalizing', conclusion = '{}', sealed_at = signalbox.clock()
    where id = v_run.id;
  end if;
  if v_run.generation is not null then
    perform signalbox.close_lost_calls(v_run);
  end if;
  select r.* into strict v_run from signalbox.run r where r.id = p_run.id;
  v_strikes := signalbox.can_strike(v_run);
  v_text := signalbox.close_items(v_run, p_generation);
  if v_text is not null then
    v_answer := signalbox.new_id('msg');
    insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, partial, position)
    values (v_answer, v_run.tenant_id, v_run.conversation_id, v_run.id, 'assistant', v_text, true,
            signalbox.answer_position(v_run));
  end if;
  perform signalbox.end_run(v_run, p_generation, case when v_strikes then 'rolled_back' else 'cancelled' end,
    coalesce(v_run.cancel_cause, 'user_cancel'), null, v_answer);
  if v_run.generation is not null then
    perform signalbox.settle_transcript(v_run.conversation_id, v_run.generation,
      case when v_answer is null or v_strikes then 'kept' else 'broken' end, null, null, null);
    perform signalbox.unbind_slots(v_run.conversation_id);
    perform signalbox.withdraw_proposals(v_run.id);
  end if;
end $$;

-- Marks that a run is to end, and ends it where nobody has to be asked: it waits, or whoever drove it is dead. Answers
-- `requested` (its owner ends it), `ended`, `ending` (too late: its end is being decided, or its message was taken in by
-- another run) or `already_ended`.
create function signalbox.end_from_outside(p_run signalbox.run, p_generation bigint, p_cause text, p_strikes boolean,
                                           p_actor text) returns text
language plpgsql as $$
declare
  v_run signalbox.run;
begin
  if p_run.state in ('completed', 'cancelled', 'failed', 'rolled_back') then
    return 'already_ended';
  elsif p_run.state = 'finalizing' or p_run.consumed_at is not null then
    return 'ending';
  end if;
  update signalbox.run
  set cancel_requested_at = coalesce(cancel_requested_at, signalbox.clock()),
      -- The first mark says why; one that was set by the release before this one has no other cause.
      cancel_cause = coalesce(cancel_cause, case when cancel_requested_at is null then p_cause else 'user_cancel' end),
      cancel_strikes = cancel_strikes or p_strikes
  where id = p_run.id
  returning * into strict v_run;
  if p_run.cancel_requested_at is null then
    perform signalbox.audit(v_run.tenant_id, 'run_cancel_requested', p_actor, v_run.conversation_id, v_run.id,
      v_run.generation, '{"cause":' || signalbox.quoted(p_cause) || '}');
  end if;
  if v_run.state = 'queued' then
    perform signalbox.end_run(v_run, p_generation, 'cancelled', v_run.cancel_cause, null, null);
    perform signalbox.move_queue(v_run.conversation_id, v_run.position, p_generation);
    return 'ended';
  end if;
  if v_run.state = 'running' then
    update signalbox.ownership set cancel_at = signalbox.clock()
    where conversation_id = v_run.conversation_id and cancel_at is null;
    if signalbox.process_lives(v_run.owner) then
      return 'requested';
    end if;
  end if;
  perform signalbox.end_unowned(v_run, p_generation);
  perform signalbox.hand_over(v_run.conversation_id);
  return 'ended';
end $$;

create or replace function signalbox.request_cancel(p_tenant text, p_user text, p_run text, p_actor text) returns json
language plpgsql as $$
declare
  v_conversation text;
  v_generation bigint;
  v_run signalbox.run;
  v_kind text;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  select r.conversation_id into v_conversation
  from signalbox.run r join signalbox.conversation c on c.id = r.conversation_id
  where r.id = p_run and r.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  select o.generation into strict v_generation from signalbox.ownership o
  where o.conversation_id = v_conversation for update;
  select r.* into strict v_run from signalbox.run r where r.id = p_run for update;
  v_kind := signalbox.end_from_outside(v_run, v_generation, 'user_cancel', false, p_actor);
  select r.* into strict v_run from signalbox.run r where r.id = p_run;
  if v_kind <> 'ended' then
    return json_build_object('kind', v_kind, 'state', v_run.state);
  end if;
  return json_build_object('kind', v_kind, 'state', v_run.state, 'conversationId', v_conversation,
                           'sequence', signalbox.newest(v_conversation));
end $$;

-- Ends the marked runs of dead processes, which need no worker for that. Answers where readers have news.
create function signalbox.end_abandoned(p_by integer)
returns table (conversation_id text, last_sequence bigint)
language plpgsql as $$
declare
  v_ownership signalbox.ownership;
  v_run signalbox.run;
begin
  if not signalbox.process_lives(p_by) then
    return;
  end if;
  for v_ownership in
    select o.* from signalbox.process p join signalbox.ownership o on o.owner = p.incarnation
    where p.dead_at is not null and o.cancel_at is not null
    order by o.conversation_id
    limit 32
    for update of o skip locked
  loop
    select r.* into v_run from signalbox.run r
    where r.conversation_id = v_ownership.conversation_id and r.state = 'running' for update;
    continue when not found;
    perform signalbox.end_unowned(v_run, v_ownership.generation);
    perform signalbox.hand_over(v_run.conversation_id);
    conversation_id := v_run.conversation_id;
    last_sequence := signalbox.newest(v_run.conversation_id);
    return next;
  end loop;
end $$;
