-- An active run is ended from outside by one mark with a cause, and a message says what it does to a run that is active.
-- Every function here that decides is called with the ownership row locked exclusively.

alter table signalbox.run
  add column cancel_cause   text check (cancel_cause in ('user_cancel', 'superseded', 'operator_stop')),
  -- The turn is to be struck: a rollback was asked for.
  add column cancel_strikes boolean not null default false,
  -- The run that is offered this one's message, and when its engine took it into its context.
  add column steer_into     text,
  add column consumed_at    timestamptz;
alter table signalbox.message
  add column struck boolean not null default false,
  -- What a fork began with was said in no run of its own.
  alter column run_id drop not null;
alter table signalbox.conversation add column forked_from text;
alter table signalbox.ownership add column paced_until timestamptz;
create index run_open on signalbox.run (tenant_id) where state in ('queued', 'admitted', 'running', 'finalizing');
alter table signalbox.idempotency
  drop constraint idempotency_accepted_check,
  add constraint idempotency_accepted_check check (accepted in ('started', 'queued', 'steered'));

-- A run that nobody owns is ended on the request side, with everything an owner's finalization does.
grant update on signalbox.message, signalbox.tool_call to signalbox_app;
grant select, update, delete on signalbox.transcript_entry to signalbox_app;
grant update on signalbox.message to signalbox_run;

-- As the event language counts, in UTF-16 units.
create function signalbox.utf16_length(p_text text) returns integer
language sql immutable parallel safe
return char_length(p_text) + regexp_count(p_text, E'[\U00010000-\U0010FFFF]');

-- An id of ours for what the record itself makes.
create function signalbox.new_id(p_prefix text) returns text
language sql volatile parallel safe
return p_prefix || '_' || lpad(to_hex(signalbox.unix_ms(signalbox.clock())), 12, '0') || '7'
  || substr(replace(gen_random_uuid()::text, '-', ''), 14);

-- The holds of a run that ends are withdrawn with it.
create function signalbox.withdraw_holds(p_run signalbox.run) returns void
language plpgsql as $$
begin
end $$;

-- Whether a call with an effect left for the world outside in this run.
create function signalbox.has_effect(p_run text) returns boolean
language plpgsql as $$
begin
  return exists (select from signalbox.tool_call t
    where t.run_id = p_run and t.effect in ('write', 'irreversible') and t.started_at is not null);
end $$;

-- What readers see of an item now, or null when it was taken back.
create function signalbox.visible_text(p_run signalbox.run, p_item text) returns text
language plpgsql as $$
declare
  v_row record;
  v_generation bigint;
  v_text text := '';
begin
  select e.type, e.revision, e.data into strict v_row from signalbox.event e
  where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.item_id = p_item
  order by e.revision desc, e.sequence desc limit 1;
  if v_row.type not like '%.delta' then
    return v_row.data::json ->> 'text';
  end if;
  v_generation := v_row.revision / 1048576;
  for v_row in
    select (e.data::json ->> 'offset')::integer as place, e.data::json ->> 'text' as part from signalbox.event e
    where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.item_id = p_item
      and e.type like '%.delta' and e.revision / 1048576 = v_generation
    order by e.revision, e.sequence
  loop
    -- A part that a lost reply brought in twice is seen once.
    if v_row.place = signalbox.utf16_length(v_text) then
      v_text := v_text || v_row.part;
    end if;
  end loop;
  return v_text;
end $$;

-- Closes what an unowned run still shows as open, and answers the text that was written last.
create function signalbox.close_items(p_run signalbox.run, p_generation bigint) returns text
language plpgsql as $$
declare
  v_item record;
  v_text text;
  v_answer text;
begin
  for v_item in
    select e.item_id, bool_or(e.type like 'thinking.%') as thinks,
      (array_agg(e.type order by e.revision desc, e.sequence desc))[1] as last_type
    from signalbox.event e
    where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.run_id = p_run.id
      and e.type in ('text.delta', 'text.completed', 'text.retracted', 'thinking.delta', 'thinking.completed')
    group by e.item_id order by min(e.sequence)
  loop
    continue when v_item.last_type = 'text.retracted';
    v_text := signalbox.visible_text(p_run, v_item.item_id);
    if v_item.last_type like '%.delta' then
      perform signalbox.write_event(p_run, p_generation, 1048575, v_item.item_id,
        case when v_item.thinks then 'thinking.completed' else 'text.completed' end,
        json_build_object('text', v_text));
    end if;
    if not v_item.thinks then
      v_answer := v_text;
    end if;
  end loop;
  return case when btrim(v_answer) = '' then null else v_answer end;
end $$;

-- Writes the ending of a run: state, the one terminal event, audit; and of the messages it took in. A rolled back turn
-- is struck from the history. Returns the run as it is now.
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
    || ',"reason":' || signalbox.quoted(p_reason) || '}');
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

-- The place in the history behind the run's own message and those it took in.
create function signalbox.answer_position(p_run signalbox.run) returns bigint
language plpgsql as $$
begin
  return 1 + 2 * greatest(p_run.position, (
    select max(r.position) from signalbox.run r
    where r.conversation_id = p_run.conversation_id and r.state = 'queued' and r.steer_into = p_run.id
      and r.consumed_at is not null));
end $$;

-- Ends a marked run that nobody drives. What it had said is kept and marked; the transcript does not have it, so the
-- next turn is rebuilt then.
create function signalbox.end_unowned(p_run signalbox.run, p_generation bigint) returns void
language plpgsql as $$
declare
  v_strikes boolean := p_run.cancel_strikes and not signalbox.has_effect(p_run.id);
  v_text text;
  v_answer text;
begin
  v_text := signalbox.close_items(p_run, p_generation);
  if v_text is not null then
    v_answer := signalbox.new_id('msg');
    insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, partial, position)
    values (v_answer, p_run.tenant_id, p_run.conversation_id, p_run.id, 'assistant', v_text, true,
            signalbox.answer_position(p_run));
  end if;
  perform signalbox.end_run(p_run, p_generation, case when v_strikes then 'rolled_back' else 'cancelled' end,
    coalesce(p_run.cancel_cause, 'user_cancel'), null, v_answer);
  if p_run.generation is not null then
    perform signalbox.settle_transcript(p_run.conversation_id, p_run.generation,
      case when v_answer is null or v_strikes then 'kept' else 'broken' end, null, null, null);
    perform signalbox.unbind_slots(p_run.conversation_id);
    perform signalbox.withdraw_proposals(p_run.id);
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
  perform signalbox.withdraw_proposals(v_run.id);
  if v_cancelled then
    perform signalbox.end_unowned(v_run, p_generation + 1);
    perform signalbox.hand_over(p_conversation);
    return json_build_object('kind', 'released', 'sequence', signalbox.newest(p_conversation));
  end if;
  perform signalbox.audit(v_run.tenant_id, 'run_admitted', v_run.actor, p_conversation, v_run.id, p_generation + 1,
    '{"messageId":' || signalbox.quoted(v_run.message_id) || '}');
  return json_build_object('kind', 'released');
end $$;

-- Whether there is something to rebuild a session from: an answer that stands, or what a fork began with.
create function signalbox.has_history(p_run signalbox.run) returns boolean
language plpgsql as $$
begin
  return exists (select from signalbox.message m
    where m.conversation_id = p_run.conversation_id and m.position < p_run.position * 2 and not m.struck
      and (m.role = 'assistant' or m.run_id is null));
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

-- A new conversation with the history of another one, up to a message or as far as it is finished. Queue, ledger, holds and
-- transcript stay behind, so its first turn is rebuilt. What was said stands before the first run's place.
create function signalbox.fork_conversation(p_tenant text, p_user text, p_conversation text, p_message text,
                                            p_fork text, p_actor text) returns json
language plpgsql as $$
declare
  v_from signalbox.conversation;
  v_until bigint;
  v_last bigint;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  select c.* into v_from from signalbox.conversation c
  where c.id = p_conversation and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  select m.position into v_until from signalbox.message m
  where m.conversation_id = p_conversation and m.id = p_message and m.tenant_id = p_tenant and not m.struck;
  if p_message is not null and not found then
    return json_build_object('code', 'not_found', 'detail', 'The history of this conversation has no such message.');
  end if;
  insert into signalbox.conversation (id, tenant_id, agent_id, title, created_by, participant, metadata, forked_from)
  values (p_fork, p_tenant, v_from.agent_id, v_from.title, p_actor, v_from.participant, v_from.metadata, p_conversation);
  insert into signalbox.ownership (conversation_id, tenant_id) values (p_fork, p_tenant);
  select coalesce(max(m.position) / 2, 0) into v_last from signalbox.message m where m.conversation_id = p_conversation;
  insert into signalbox.message (id, tenant_id, conversation_id, role, text, metadata, partial, position, created_at)
  select signalbox.new_id('msg'), p_tenant, p_fork, m.role, m.text, m.metadata, m.partial, m.position - 2 * v_last,
         m.created_at
  from signalbox.message m left join signalbox.run r on r.id = m.run_id
  where m.conversation_id = p_conversation and not m.struck and (v_until is null or m.position <= v_until)
    and (r.id is null or r.finished_at is not null or m.id = p_message);
  perform signalbox.audit(p_tenant, 'conversation_created', p_actor, p_fork, null, null,
    '{"agentId":' || signalbox.quoted(v_from.agent_id) || ',"forkedFrom":' || signalbox.quoted(p_conversation) || '}');
  return json_build_object('conversationId', p_fork);
end $$;
