-- Admission: an intent becomes a record in one transaction, or nothing does. Refusals are answers, never exceptions.

-- What was answered the first time a key was used.
create function signalbox.admitted_before(p_known signalbox.idempotency, p_conversation text, p_body_hash text)
returns json
language sql stable
return case
  when p_known.conversation_id = p_conversation and p_known.body_hash = p_body_hash and p_known.run_id is not null then
    json_build_object('kind', 'replayed', 'messageId', p_known.message_id, 'runId', p_known.run_id,
                      'accepted', p_known.accepted, 'position', p_known.position, 'cursor', p_known.cursor,
                      'claim', null)
  else json_build_object('code', 'idempotency_key_reused')
end;

create function signalbox.admit(
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
  select count(*) into v_queued from signalbox.run r where r.conversation_id = p_conversation and r.state = 'queued';
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
    if p_claim_for is not null
       and exists (select from signalbox.process p where p.incarnation = p_claim_for and p.dead_at is null) then
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

-- Marks the cancel of an owned run, ends one that nobody owns. The exclusive lock waits for every intent that is being
-- recorded; later ones find the mark.
create function signalbox.request_cancel(p_tenant text, p_user text, p_run text, p_actor text) returns json
language plpgsql as $$
declare
  v_conversation text;
  v_generation bigint;
  v_run signalbox.run;
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

  if v_run.state not in ('queued', 'admitted', 'suspended', 'running') then
    return json_build_object('kind', 'already_ended', 'state', v_run.state);
  end if;
  if v_run.cancel_requested_at is null then
    update signalbox.run set cancel_requested_at = signalbox.clock() where id = p_run;
    perform signalbox.audit(p_tenant, 'run_cancel_requested', p_actor, v_conversation, p_run, v_run.generation, '{}');
  end if;
  if v_run.state = 'running' then
    update signalbox.ownership set cancel_at = signalbox.clock()
    where conversation_id = v_conversation and cancel_at is null;
    return json_build_object('kind', 'requested', 'state', v_run.state);
  end if;

  perform signalbox.end_run(v_run, v_generation, 'cancelled', 'user_cancel', null, null);
  if v_run.state = 'queued' then
    perform signalbox.move_queue(v_conversation, v_run.position, v_generation);
  else
    perform signalbox.hand_over(v_conversation);
  end if;
  return json_build_object('kind', 'ended', 'state', 'cancelled', 'conversationId', v_conversation,
                           'sequence', signalbox.newest(v_conversation));
end $$;
