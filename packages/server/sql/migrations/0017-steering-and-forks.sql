-- Ends, steering and forks: what the end of an owned run and the claim of one know of marks, struck turns and messages that
-- were taken in.

-- Says also why the run is to end, and whether its turn can be struck: not when a call with an effect has left.
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
  update signalbox.run set state = 'finalizing', conclusion = coalesce(conclusion, p_conclusion)
  where conversation_id = p_conversation and state in ('running', 'finalizing') and generation = p_generation
  returning * into v_run;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  select t.leaf, t.digest into strict v_tip
  from signalbox.transcript_tip(p_conversation, (v_run.conclusion ->> 'generation')::bigint,
                                v_run.conclusion ->> 'rung') t;
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
    'strikes', v_run.cancel_strikes and not signalbox.has_effect(v_run.id));
end $$;


-- Decides, in one transaction: history, continuity, terminal state and event, audit, release, next message.
create or replace function signalbox.finish(
  p_conversation text, p_generation bigint, p_outcome text, p_reason text, p_error json, p_answer text,
  p_answer_text text, p_partial boolean, p_rung text, p_continuity text, p_leaf text, p_digest text,
  p_served_model text) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
  v_tip record;
  v_turn bigint;
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
  if p_continuity = 'moved' then
    select t.leaf, t.digest into strict v_tip
    from signalbox.transcript_tip(p_conversation, v_turn, v_run.conclusion ->> 'rung') t;
    if v_tip.leaf is distinct from p_leaf or encode(v_tip.digest, 'hex') is distinct from p_digest then
      return json_build_object('code', 'transcript_not_durable');
    end if;
  end if;
  if p_answer is not null then
    insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, partial, position)
    values (p_answer, v_run.tenant_id, p_conversation, v_run.id, 'assistant', p_answer_text, p_partial,
            signalbox.answer_position(v_run));
  end if;
  v_run.rung := p_rung;
  v_run.served_model := p_served_model;
  v_run := signalbox.end_run(v_run, p_generation, p_outcome,
    -- The release before this one knows one cause only.
    case when p_outcome = 'cancelled' and p_reason = 'user_cancel' then coalesce(v_run.cancel_cause, p_reason)
         else p_reason end, p_error, p_answer);
  perform signalbox.settle_transcript(p_conversation, v_turn, p_continuity, p_rung, p_leaf, decode(p_digest, 'hex'));
  perform signalbox.unbind_slots(p_conversation);
  perform signalbox.withdraw_proposals(v_run.id);
  return json_build_object('nextRunId', signalbox.hand_over(p_conversation), 'sequence', signalbox.newest(p_conversation));
end $$;


-- What was said before this run and not struck, oldest first: the last `p_limit` messages of the history.
create or replace function signalbox.history_before(p_run text, p_limit integer)
returns table (role text, text text)
language sql stable
begin atomic
  select recent.role, recent.text
  from (select m.role, m.text, m.position
        from signalbox.run r join signalbox.message m
          on m.conversation_id = r.conversation_id and m.position < r.position * 2 and not m.struck
        where r.id = p_run
        order by m.position desc limit p_limit) as recent
  order by recent.position;
end;

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


-- Everything an owner needs to know of the run it holds now. The snapshot is named by its hash. `p_again`: the run was
-- owned before.
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
    'visibleItems', v_visible, 'takenIn', signalbox.taken_in(p_run),
    'outcomeUnknown', v_unknown, 'sealed', p_run.conclusion, 'sequence', v_sequence);
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

-- Null, or the refusal of a message beyond what a conversation may be sent in a minute, or a tenant may have open at
-- once. Each message moves the conversation's pace on by its share of the minute, so nothing is counted. Runs that wait
-- for a hold take no room from others.
create function signalbox.over_limit(p_tenant text, p_conversation text, p_minute_limit integer, p_tenant_limit integer)
returns json
language plpgsql as $$
declare
  v_at timestamptz := signalbox.clock();
  v_paced timestamptz;
  v_open integer;
begin
  select count(*) into v_open from (
    select from signalbox.run r
    where r.tenant_id = p_tenant and r.state in ('queued', 'admitted', 'running', 'finalizing')
    limit p_tenant_limit) as open_runs;
  if v_open >= p_tenant_limit then
    return json_build_object('code', 'too_many_runs', 'limit', p_tenant_limit);
  end if;
  select greatest(o.paced_until, v_at) + interval '1 minute' / p_minute_limit into strict v_paced
  from signalbox.ownership o where o.conversation_id = p_conversation;
  if v_paced > v_at + interval '1 minute' then
    return json_build_object('code', 'message_rate_exceeded', 'limit', p_minute_limit,
      'retryAfterMs', signalbox.unix_ms(v_paced) - signalbox.unix_ms(v_at) - 60000);
  end if;
  update signalbox.ownership set paced_until = v_paced where conversation_id = p_conversation;
  return null;
end $$;

-- Admission: an intent becomes a record in one transaction, or nothing does. Refusals are answers, never exceptions. Where
-- a run is active, `p_when_busy` says what becomes of it and of the message; its place in line it has in any case.
create function signalbox.admit_message(
  p_tenant text, p_conversation text, p_message text, p_run text, p_actor text, p_user text, p_text text,
  p_metadata jsonb, p_when_busy text, p_agent text, p_agent_revision integer, p_runtime text, p_snapshot_hash text,
  p_snapshot_body text, p_model_call_limit integer, p_tool_call_limit integer, p_wall_clock_ms bigint,
  p_requested jsonb, p_granted jsonb, p_trace text, p_key text, p_body_hash text, p_queue_limit integer,
  p_claim_for integer, p_slot_hash text, p_worker text, p_minute_limit integer, p_tenant_limit integer,
  p_steerable text[]) returns json
language plpgsql as $$
declare
  v_generation bigint;
  v_known signalbox.idempotency;
  v_active signalbox.run;
  v_queued integer;
  v_before integer;
  v_steer text;
  v_at timestamptz;
  v_cursor bigint;
  v_run signalbox.run;
  v_accepted text;
  v_refusal json;
  v_claim json;
  v_bound boolean := false;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  -- The order in which this lock is given is the order of acknowledgement.
  select o.generation into v_generation from signalbox.ownership o
  where o.conversation_id = p_conversation and o.tenant_id = p_tenant for update;
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  -- Not before the lock: who waited longer for it was acknowledged later.
  v_at := signalbox.clock();
  select c.last_sequence into v_cursor from signalbox.conversation c
  where c.id = p_conversation and (p_user is null or c.participant = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  if p_key is not null then
    select i.* into v_known from signalbox.idempotency i where i.tenant_id = p_tenant and i.key = p_key;
    if found then
      return signalbox.admitted_before(v_known, p_conversation, p_body_hash);
    end if;
  end if;

  select r.* into v_active from signalbox.run r
  where r.conversation_id = p_conversation and r.state in ('admitted', 'running', 'suspended', 'finalizing');
  select count(*), case when v_active.state = 'running' and v_active.cancel_requested_at is null
                          and v_active.runtime = any (p_steerable)
                          and count(*) = count(*) filter (where r.steer_into = v_active.id) then v_active.id end
  into v_queued, v_steer
  from signalbox.run r where r.conversation_id = p_conversation and r.state = 'queued' and r.consumed_at is null;
  v_steer := case when p_when_busy = 'steer' then v_steer end;
  v_before := v_queued + case when v_active.id is null then 0 else 1 end;
  if v_before > 0 and p_when_busy = 'reject' then
    return json_strip_nulls(json_build_object('code', 'conversation_busy', 'activeRunId', v_active.id,
      'waitingFor', case when v_active.state = 'suspended' then signalbox.waiting_for(v_active.id) end));
  elsif v_before > 0 and v_queued >= p_queue_limit then
    return json_build_object('code', 'queue_full', 'limit', p_queue_limit);
  end if;
  if p_snapshot_body is not null then
    insert into signalbox.snapshot (tenant_id, hash, body) values (p_tenant, p_snapshot_hash, p_snapshot_body)
    on conflict do nothing;
  elsif not exists (select from signalbox.snapshot s where s.tenant_id = p_tenant and s.hash = p_snapshot_hash) then
    return json_build_object('missing', true);
  end if;
  v_refusal := signalbox.over_limit(p_tenant, p_conversation, p_minute_limit, p_tenant_limit);
  if v_refusal is not null then
    return v_refusal;
  end if;
  v_accepted := case when v_before = 0 then 'started' when v_steer is null then 'queued' else 'steered' end;
  if p_key is not null then
    insert into signalbox.idempotency (tenant_id, key, route, body_hash, conversation_id, run_id, message_id, accepted,
                                       position, cursor)
    values (p_tenant, p_key, 'message', p_body_hash, p_conversation, p_run, p_message, v_accepted, v_before, v_cursor)
    on conflict do nothing;
    if not found then
      -- Another conversation used the key while we waited for its transaction.
      select i.* into strict v_known from signalbox.idempotency i where i.tenant_id = p_tenant and i.key = p_key;
      return signalbox.admitted_before(v_known, p_conversation, p_body_hash);
    end if;
  end if;

  insert into signalbox.run (id, tenant_id, conversation_id, message_id, agent_id, agent_revision, snapshot_hash,
                             runtime, state, position, cursor, actor, requested, granted, trace_id, model_call_limit,
                             tool_call_limit, wall_clock_ms, accepted_at, steer_into)
  values (p_run, p_tenant, p_conversation, p_message, p_agent, p_agent_revision, p_snapshot_hash, p_runtime,
          case when v_before = 0 then 'admitted' else 'queued' end,
          1 + coalesce((select max(r.position) from signalbox.run r where r.conversation_id = p_conversation), 0),
          v_cursor, p_actor, p_requested, p_granted, p_trace, p_model_call_limit, p_tool_call_limit, p_wall_clock_ms,
          v_at, v_steer)
  returning * into v_run;
  insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, metadata, position, created_at)
  values (p_message, p_tenant, p_conversation, p_run, 'user', p_text, p_metadata, v_run.position * 2, v_at);
  perform signalbox.audit(p_tenant, 'message_received', p_actor, p_conversation, p_run, null,
    '{"messageId":' || signalbox.quoted(p_message)
    || ',"textDigest":"' || encode(sha256(convert_to(p_text, 'UTF8')), 'hex') || '"}');

  if v_before = 0 then
    perform signalbox.note_admitted(v_run, v_generation);
    update signalbox.ownership set runtime = p_runtime, ready_at = v_at where conversation_id = p_conversation;
  elsif p_when_busy in ('interrupt', 'rollback')
      and signalbox.end_from_outside(v_active, v_generation, 'superseded', p_when_busy = 'rollback', p_actor) = 'ended' then
    -- The line has moved on already, this message with it.
    v_before := v_before - 1;
    v_accepted := case when v_before = 0 then 'started' else 'queued' end;
    update signalbox.idempotency set accepted = v_accepted, position = v_before where tenant_id = p_tenant and key = p_key;
  else
    perform signalbox.write_event(v_run, v_generation, 1048575 - v_before, p_message, 'queue.moved',
      json_build_object('messageId', p_message, 'position', v_before));
  end if;
  if v_before = 0 and p_claim_for is not null and signalbox.process_lives(p_claim_for) then
    v_claim := signalbox.take(p_conversation, p_claim_for, 'ready');
    if v_claim is not null and p_slot_hash is not null then
      select r.* into strict v_run from signalbox.run r where r.id = p_run;
      v_bound := signalbox.put_slot(v_run, p_slot_hash, p_worker);
    end if;
  end if;
  return json_build_object('kind', 'admitted', 'messageId', p_message, 'runId', p_run, 'accepted', v_accepted,
    'position', v_before, 'cursor', v_cursor, 'claim', v_claim, 'bound', v_bound,
    'sequence', signalbox.newest(p_conversation),
    'events', (select json_agg(e order by e.sequence) from signalbox.event e
               where e.conversation_id = p_conversation and e.sequence > v_cursor));
end $$;
