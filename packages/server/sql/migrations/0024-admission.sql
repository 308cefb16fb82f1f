-- A message becomes a record, or is refused. It says what it does to a run that is active.

-- Counts the runs a tenant has open, and keeps it true until the end of the transaction where that matters: as long as
-- more are free than sessions could add at once, admissions pass side by side; beyond that one waits for the other. Those
-- that pass side by side share the lock, so that who counts alone sees them all.
create function signalbox.count_open_runs(p_tenant text, p_limit integer) returns integer
language plpgsql as $$
declare
  v_side_by_side integer := p_limit - current_setting('max_connections')::integer;
  v_open integer := signalbox.open_runs(p_tenant, p_limit);
begin
  if v_open < v_side_by_side then
    perform pg_advisory_xact_lock_shared(signalbox.tenant_space(), hashtext(p_tenant));
    v_open := signalbox.open_runs(p_tenant, p_limit);
    -- So many came while this waited for the lock that it cannot tell how many there are.
    return case when v_open < v_side_by_side then v_open else p_limit end;
  end if;
  perform pg_advisory_xact_lock(signalbox.tenant_space(), hashtext(p_tenant));
  return signalbox.open_runs(p_tenant, p_limit);
end $$;

create function signalbox.open_runs(p_tenant text, p_limit integer) returns integer
language plpgsql as $$
begin
  return (select count(*) from (
    select from signalbox.run r
    where r.tenant_id = p_tenant and r.state in ('queued', 'admitted', 'running', 'finalizing')
    limit p_limit) as open_run);
end $$;

-- Advisory locks of this space are about the tenant whose name hashes to the second number.
create function signalbox.tenant_space() returns integer
language sql immutable parallel safe
return signalbox.presence_space() + 1;

-- Null, or the refusal of a message beyond what a conversation may be sent in a minute, or a tenant may have open at
-- once. Each message moves the conversation's pace on by its share of the minute, so nothing is counted. Runs that wait
-- for a hold take no room from others.
create function signalbox.over_limit(p_tenant text, p_conversation text, p_minute_limit integer, p_tenant_limit integer)
returns json
language plpgsql as $$
declare
  v_at timestamptz := signalbox.clock();
  v_paced timestamptz;
begin
  if signalbox.count_open_runs(p_tenant, p_tenant_limit) >= p_tenant_limit then
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
  v_why text;
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
  if p_requested ? 'retryOf' then
    v_why := signalbox.refused_retry(p_tenant, p_requested ->> 'retryOf', p_requested ? 'retryForced');
    if v_why is not null then
      return signalbox.refused(v_why);
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
  if p_requested ? 'retryOf' then
    perform signalbox.audit(p_tenant, 'run_retried', p_actor, p_conversation, p_requested ->> 'retryOf', null,
      '{"force":' || coalesce(p_requested ->> 'retryForced', 'false') || ',"newRunId":' || signalbox.quoted(p_run) || '}');
  end if;

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

-- A run is let in by the table itself, whichever statement brings it. A message takes a conversation out of the archive.
create function signalbox.accept_run() returns trigger
language plpgsql as $$
declare
  v_deleting timestamptz;
  v_archived timestamptz;
begin
  select c.delete_requested_at, c.archived_at into v_deleting, v_archived
  from signalbox.conversation c where c.id = new.conversation_id;
  if v_deleting is not null then
    raise exception using errcode = 'SB001', message = 'conversation_deleting';
  end if;
  if exists (select from signalbox.agent a where a.id = new.agent_id and a.disabled_at is not null) then
    raise exception using errcode = 'SB001', message = 'agent_disabled';
  end if;
  if v_archived is not null then
    update signalbox.conversation set archived_at = null where id = new.conversation_id;
    perform signalbox.audit(new.tenant_id, 'conversation_changed', new.actor, new.conversation_id, new.id, null,
      '{"archived":false}');
  end if;
  return new;
end $$;
create trigger run_accepted before insert on signalbox.run for each row execute function signalbox.accept_run();

-- A new conversation with the history of another one, up to a message or as far as it is finished. Queue, ledger, holds and
-- transcript stay behind, so its first turn is rebuilt. What was said stands before the first run's place. The lock keeps
-- a deletion from coming between what is read and what is written: a fork would outlive what it repeats.
create function signalbox.fork_conversation(p_tenant text, p_user text, p_conversation text, p_message text,
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
