-- What looked at too little: a hold that is overdue and not swept yet, a conversation that is being deleted, a run
-- whose message another run has taken in, and an answer that was not read.

-- Decides, and wakes the run when nothing else keeps it. A second decision changes nothing: the first one stands. What
-- is overdue is decided no more, whether or not a sweep has been there: it expires here.
create or replace function signalbox.decide_hold(p_tenant text, p_user text, p_hold text, p_actor text, p_decision text,
                                                 p_response jsonb, p_digest text) returns json
language plpgsql as $$
declare
  v_hold signalbox.hold;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  perform from signalbox.hold h join signalbox.conversation c on c.id = h.conversation_id
  where h.id = p_hold and h.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  v_hold := signalbox.lock_hold(p_hold);
  if v_hold.state = 'decided' then
    perform signalbox.audit(p_tenant, 'hold_decision_refused', p_actor, v_hold.conversation_id, v_hold.run_id, null,
      '{"decision":' || signalbox.quoted(p_decision) || ',"holdId":' || signalbox.quoted(p_hold)
      || ',"why":"already decided"}');
    return signalbox.hold_changed(v_hold, 'already_decided', false);
  elsif v_hold.state = 'open' and v_hold.expires_at <= signalbox.clock() then
    v_hold := signalbox.close_hold(p_hold, 'expired', null, null, null);
    return signalbox.hold_changed(v_hold, 'expired', signalbox.wake_run(v_hold.run_id));
  elsif v_hold.state <> 'open' then
    return json_build_object('code', 'hold_closed', 'detail', 'The hold was ' || v_hold.state || '; nothing waits for it any more.');
  elsif v_hold.digest is not null and v_hold.digest is distinct from p_digest then
    return json_build_object('code', 'approval_changed', 'digest', v_hold.digest);
  end if;
  v_hold := signalbox.close_hold(p_hold, 'decided', p_decision, p_response, p_actor);
  return signalbox.hold_changed(v_hold, 'decided', signalbox.wake_run(v_hold.run_id));
end $$;

-- The lock keeps a deletion from coming between what is read and what is written: a fork would outlive what it repeats.
create or replace function signalbox.fork_conversation(p_tenant text, p_user text, p_conversation text, p_message text,
                                                       p_fork text, p_actor text) returns json
language plpgsql as $$
declare
  v_from signalbox.conversation;
  v_until bigint;
  v_last bigint;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  perform from signalbox.ownership o where o.conversation_id = p_conversation and o.tenant_id = p_tenant for share;
  select c.* into v_from from signalbox.conversation c
  where c.id = p_conversation and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  elsif v_from.delete_requested_at is not null then
    return json_build_object('code', 'conversation_deleting');
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

-- Ends a run whatever has become of its owner, who finds itself stale. What the turn wrote is not continued from.
create or replace function signalbox.fail_run(p_tenant text, p_user text, p_run text, p_actor text,
                                              p_force boolean) returns json
language plpgsql as $$
declare
  v_run signalbox.run := signalbox.lock_run(p_tenant, p_user, p_run);
  v_queued boolean := v_run.state = 'queued';
  v_generation bigint;
begin
  if v_run.id is null then
    return json_build_object('code', 'not_found');
  elsif v_run.finished_at is not null then
    return signalbox.refused('The run has ended already.');
  elsif v_run.consumed_at is not null then
    return signalbox.refused('The message of the run was taken in by the run before it, and ends with that one.');
  elsif not p_force and signalbox.has_live_call(p_run, true) then
    return signalbox.refused('A call with an effect is running at a live gate; cancel the run, or wait for the call. '
      || 'With force the run ends now and the outcome of the call is recorded when it comes.');
  end if;
  perform signalbox.audit(p_tenant, 'run_failed', p_actor, v_run.conversation_id, p_run, v_run.generation,
    '{"force":' || p_force || ',"state":' || signalbox.quoted(v_run.state) || '}');
  if v_run.state = 'running' then
    update signalbox.run set state = 'finalizing', conclusion = '{}' where id = p_run;
  end if;
  select o.generation into strict v_generation from signalbox.ownership o
  where o.conversation_id = v_run.conversation_id;
  perform signalbox.retract_items(v_run, v_generation, 'run_stopped');
  v_run := signalbox.end_run(v_run, v_generation, 'failed', 'operator_stop',
    json_build_object('code', 'run_stopped', 'detail', 'An operator ended the run.', 'fault', 'policy',
                      'retryable', false), null);
  if v_queued then
    perform signalbox.move_queue(v_run.conversation_id, v_run.position, v_generation);
  else
    perform signalbox.settle_transcript(v_run.conversation_id, coalesce(v_run.generation, 0), 'kept', null, null, null);
    perform signalbox.unbind_slots(v_run.conversation_id);
    perform signalbox.withdraw_proposals(p_run);
    perform signalbox.hand_over(v_run.conversation_id);
  end if;
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;

-- Takes a run away from its owner, so that whoever has room claims it.
create or replace function signalbox.release_run(p_tenant text, p_user text, p_run text, p_actor text) returns json
language plpgsql as $$
declare
  v_run signalbox.run := signalbox.lock_run(p_tenant, p_user, p_run);
begin
  if v_run.id is null then
    return json_build_object('code', 'not_found');
  elsif v_run.state <> 'running' then
    return signalbox.refused('Nobody drives the run: it is ' || v_run.state || '.');
  elsif signalbox.has_live_call(p_run, false) then
    return signalbox.refused('A call of the run is open at a live gate; its outcome belongs to this owner.');
  end if;
  if signalbox.release(v_run.conversation_id, v_run.generation) ->> 'code' is not null then
    return signalbox.refused('The run has no owner any more that it could be taken from.');
  end if;
  perform signalbox.audit(p_tenant, 'run_released', p_actor, v_run.conversation_id, p_run, v_run.generation,
    '{"process":' || v_run.owner || '}');
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;

-- What the first release calls. A message that was taken in waits in no line, and a process of another store claims
-- nothing.
create or replace function signalbox.admit(
  p_tenant text, p_conversation text, p_message text, p_run text, p_actor text, p_user text, p_text text,
  p_metadata jsonb, p_when_busy text, p_agent text, p_agent_revision integer, p_runtime text, p_snapshot_hash text,
  p_snapshot_body text, p_model_call_limit integer, p_tool_call_limit integer, p_wall_clock_ms bigint,
  p_requested jsonb, p_granted jsonb, p_trace text, p_key text, p_body_hash text, p_queue_limit integer,
  p_claim_for integer, p_slot_hash text, p_worker text) returns json
language plpgsql as $$
declare
  v_generation bigint;
  v_known signalbox.idempotency;
  v_active text;
  v_queued integer;
  v_before integer;
  v_at timestamptz;
  v_cursor bigint;
  v_run signalbox.run;
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

  select r.id into v_active from signalbox.run r
  where r.conversation_id = p_conversation and r.state in ('admitted', 'running', 'suspended', 'finalizing');
  select count(*) into v_queued from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'queued' and r.consumed_at is null;
  v_before := v_queued + case when v_active is null then 0 else 1 end;
  if v_before > 0 and p_when_busy = 'reject' then
    return json_build_object('code', 'conversation_busy', 'activeRunId', v_active);
  end if;
  if v_before > 0 and v_queued >= p_queue_limit then
    return json_build_object('code', 'queue_full');
  end if;

  if p_snapshot_body is not null then
    insert into signalbox.snapshot (tenant_id, hash, body) values (p_tenant, p_snapshot_hash, p_snapshot_body)
    on conflict do nothing;
  elsif not exists (select from signalbox.snapshot s where s.tenant_id = p_tenant and s.hash = p_snapshot_hash) then
    return json_build_object('missing', true);
  end if;

  v_at := signalbox.clock();
  if p_key is not null then
    insert into signalbox.idempotency (tenant_id, key, route, body_hash, conversation_id, run_id, message_id, accepted,
                                       position, cursor)
    values (p_tenant, p_key, 'message', p_body_hash, p_conversation, p_run, p_message,
            case when v_before = 0 then 'started' else 'queued' end, v_before, v_cursor)
    on conflict do nothing;
    if not found then
      -- Another conversation used the key while we waited for its transaction.
      select i.* into strict v_known from signalbox.idempotency i where i.tenant_id = p_tenant and i.key = p_key;
      return signalbox.admitted_before(v_known, p_conversation, p_body_hash);
    end if;
  end if;

  insert into signalbox.run (id, tenant_id, conversation_id, message_id, agent_id, agent_revision, snapshot_hash,
                             runtime, state, position, cursor, actor, requested, granted, trace_id, model_call_limit,
                             tool_call_limit, wall_clock_ms, accepted_at)
  values (p_run, p_tenant, p_conversation, p_message, p_agent, p_agent_revision, p_snapshot_hash, p_runtime,
          case when v_before = 0 then 'admitted' else 'queued' end,
          1 + coalesce((select max(r.position) from signalbox.run r where r.conversation_id = p_conversation), 0),
          v_cursor, p_actor, p_requested, p_granted, p_trace, p_model_call_limit, p_tool_call_limit, p_wall_clock_ms,
          v_at)
  returning * into v_run;
  insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, metadata, position, created_at)
  values (p_message, p_tenant, p_conversation, p_run, 'user', p_text, p_metadata, v_run.position * 2, v_at);
  perform signalbox.audit(p_tenant, 'message_received', p_actor, p_conversation, p_run, null,
    '{"messageId":' || signalbox.quoted(p_message)
    || ',"textDigest":"' || encode(sha256(convert_to(p_text, 'UTF8')), 'hex') || '"}');

  if v_before > 0 then
    perform signalbox.write_event(v_run, v_generation, 1048575 - v_before, p_message, 'queue.moved',
      json_build_object('messageId', p_message, 'position', v_before));
  else
    perform signalbox.note_admitted(v_run, v_generation);
    if p_claim_for is not null and signalbox.process_lives(p_claim_for) then
      v_claim := signalbox.take(p_conversation, p_claim_for, 'ready');
      if v_claim is not null and p_slot_hash is not null then
        select r.* into strict v_run from signalbox.run r where r.id = p_run;
        v_bound := signalbox.put_slot(v_run, p_slot_hash, p_worker);
      end if;
    else
      update signalbox.ownership set runtime = p_runtime, ready_at = v_at where conversation_id = p_conversation;
    end if;
  end if;
  return json_build_object('kind', 'admitted', 'messageId', p_message, 'runId', p_run,
    'accepted', case when v_before = 0 then 'started' else 'queued' end, 'position', v_before, 'cursor', v_cursor,
    'claim', v_claim, 'bound', v_bound, 'sequence', signalbox.newest(p_conversation),
    'events', (select json_agg(e order by e.sequence) from signalbox.event e
               where e.conversation_id = p_conversation and e.sequence > v_cursor));
end $$;
