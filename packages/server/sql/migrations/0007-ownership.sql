-- Claims, takeovers and what an owner does with its ownership. The generation is the fence: each of these statements
-- locks the ownership row first and demands that the generation it was given is the current one.

-- Both answer false when the generation is not the current one; after a wait the row is judged as it is then.
create function signalbox.hold_shared(p_conversation text, p_generation bigint) returns boolean
language plpgsql as $$
begin
  perform from signalbox.ownership o
  where o.conversation_id = p_conversation and o.generation = p_generation for share;
  return found;
end $$;

create function signalbox.hold_exclusive(p_conversation text, p_generation bigint) returns boolean
language plpgsql as $$
begin
  perform from signalbox.ownership o
  where o.conversation_id = p_conversation and o.generation = p_generation for update;
  return found;
end $$;

-- Audits that somebody acted under a generation that is no longer the current one.
create function signalbox.note_stale(p_conversation text, p_run text, p_generation bigint, p_what text) returns void
language plpgsql as $$
begin
  perform signalbox.audit(c.tenant_id, 'stale_refused', null, p_conversation, p_run, p_generation,
    '{"what":' || signalbox.quoted(p_what) || '}')
  from signalbox.conversation c where c.id = p_conversation;
end $$;

create function signalbox.process_lives(p_process integer) returns boolean
language plpgsql as $$
begin
  return exists (select from signalbox.process p where p.incarnation = p_process and p.dead_at is null);
end $$;

create function signalbox.withdraw_proposals(p_run text) returns void
language plpgsql as $$
begin
  update signalbox.tool_call
  set state = 'withdrawn', finished_at = signalbox.clock()
  where run_id = p_run and state in ('proposed', 'awaiting_approval', 'authorized');
end $$;

-- Makes the process owner of the conversation's active run. The ownership row is locked exclusively. A takeover begins
-- with the open calls of earlier generations: those of a dead gate are closed here. Null when nothing is to be owned.
create function signalbox.take(p_conversation text, p_process integer, p_cause text) returns json
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
    perform signalbox.withdraw_proposals(v_run.id);
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
  return signalbox.claim_facts(v_run, p_cause, v_again);
end $$;

create function signalbox.note_taken(p_run signalbox.run, p_cause text) returns void
language plpgsql as $$
begin
  if p_cause = 'ready' then
    perform signalbox.write_event(p_run, p_run.generation, 0, p_run.id, 'run.started',
      json_build_object('runtime', p_run.runtime, 'attempt', p_run.attempt));
  else
    perform signalbox.write_event(p_run, p_run.generation, 0, p_run.id, 'run.recovered',
      json_build_object('cause', p_cause, 'attempt', p_run.attempt));
  end if;
  perform signalbox.audit(p_run.tenant_id, case p_cause when 'ready' then 'run_started' else 'run_recovered' end,
    p_run.actor, p_run.conversation_id, p_run.id, p_run.generation,
    '{"attempt":' || p_run.attempt || ',"cause":' || signalbox.quoted(p_cause) || ',"process":' || p_run.owner || '}');
end $$;

-- Claims for a live process, within the room it has for each runtime: first what dead processes left behind, which is
-- few and overdue, then what is ready, oldest first. Locked rows are somebody else's and skipped. A process that was
-- declared dead gets one row, the refusal.
create function signalbox.claim(p_process integer, p_room jsonb, p_limit integer) returns setof json
language plpgsql as $$
declare
  v_room jsonb := p_room;
  v_left integer := p_limit;
  v_runtime text;
  v_conversation text;
  v_claim json;
begin
  if not signalbox.process_lives(p_process) then
    return next json_build_object('code', 'stale_generation');
    return;
  end if;
  for v_conversation, v_runtime in
    select o.conversation_id, o.runtime
    from signalbox.process p join signalbox.ownership o on o.owner = p.incarnation
    where p.dead_at is not null and coalesce((p_room ->> o.runtime)::integer, 0) > 0
    limit p_limit
    for update of o skip locked
  loop
    continue when (v_room ->> v_runtime)::integer <= 0;
    v_claim := signalbox.take(v_conversation, p_process, 'owner_lost');
    if v_claim is null then
      perform signalbox.hand_over(v_conversation);
      continue;
    end if;
    v_room := jsonb_set(v_room, array[v_runtime], to_jsonb((v_room ->> v_runtime)::integer - 1));
    v_left := v_left - 1;
    return next v_claim;
  end loop;
  for v_runtime in select jsonb_object_keys(v_room) loop
    for v_conversation in
      select o.conversation_id from signalbox.ownership o
      where o.ready_at is not null and o.runtime = v_runtime
      order by o.ready_at
      limit greatest(least(v_left, (v_room ->> v_runtime)::integer), 0)
      for update skip locked
    loop
      v_claim := signalbox.take(v_conversation, p_process, 'ready');
      v_left := v_left - 1;
      return next v_claim;
    end loop;
  end loop;
end $$;

-- Takes again what the process owns without knowing it: everything but what it lists.
create function signalbox.reclaim(p_process integer, p_conversations text[], p_generations bigint[])
returns setof json
language plpgsql as $$
declare
  v_conversation text;
begin
  if not signalbox.process_lives(p_process) then
    return next json_build_object('code', 'stale_generation');
    return;
  end if;
  for v_conversation in
    select o.conversation_id from signalbox.ownership o
    where o.owner = p_process
      and not exists (select from unnest(p_conversations, p_generations) as driven(conversation, generation)
                      where driven.conversation = o.conversation_id and driven.generation = o.generation)
    for update skip locked
  loop
    return next signalbox.take(v_conversation, p_process, 'owner_lost');
  end loop;
end $$;

-- The worker died under the same owner. Answers the new claim, or why there is none.
create function signalbox.change_worker(p_conversation text, p_generation bigint, p_attempt_limit integer) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'change_worker');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation for update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  if v_run.attempt >= p_attempt_limit then
    return json_build_object('code', 'retries_exhausted');
  end if;
  perform signalbox.unbind_slots(p_conversation);
  return json_build_object('claim', signalbox.take(p_conversation, v_run.owner, 'worker_lost'));
end $$;

create function signalbox.unbind_slots(p_conversation text) returns void
language plpgsql as $$
begin
  update signalbox.slot set run_id = null, generation = null
  where conversation_id = p_conversation and run_id is not null;
end $$;

-- Gives the run back: whoever has room claims it.
create function signalbox.release(p_conversation text, p_generation bigint) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
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
  where conversation_id = p_conversation;
  perform signalbox.unbind_slots(p_conversation);
  perform signalbox.withdraw_proposals(v_run.id);
  perform signalbox.audit(v_run.tenant_id, 'run_admitted', v_run.actor, p_conversation, v_run.id, p_generation + 1,
    '{"messageId":' || signalbox.quoted(v_run.message_id) || '}');
  return json_build_object('kind', 'released');
end $$;

-- From here on gates accept the slot for this run and its generation. Other slots of the conversation are dropped unless
-- they are still bound: those belong to lost generations, and hear that they are stale. False when the slot is another
-- conversation's.
create function signalbox.put_slot(p_run signalbox.run, p_token_hash text, p_worker text) returns boolean
language plpgsql as $$
begin
  insert into signalbox.slot (token_hash, tenant_id, conversation_id, snapshot_hash, worker_id, run_id, generation,
                              actor, bound_at)
  values (p_token_hash, p_run.tenant_id, p_run.conversation_id, p_run.snapshot_hash, p_worker, p_run.id,
          p_run.generation, p_run.actor, signalbox.clock())
  on conflict (token_hash) do update
  set snapshot_hash = excluded.snapshot_hash, worker_id = excluded.worker_id, run_id = excluded.run_id,
      generation = excluded.generation, actor = excluded.actor, bound_at = excluded.bound_at
  where slot.conversation_id = p_run.conversation_id;
  if not found then
    return false;
  end if;
  -- One slot speaks for a generation; slots of earlier ones keep theirs, and hear that it is stale.
  update signalbox.slot s set run_id = null, generation = null
  where s.conversation_id = p_run.conversation_id and s.token_hash <> p_token_hash
    and s.generation = p_run.generation;
  delete from signalbox.slot s
  where s.conversation_id = p_run.conversation_id and s.token_hash <> p_token_hash
    and (s.run_id is null or s.bound_at < signalbox.clock() - interval '1 hour');
  return true;
end $$;

create function signalbox.bind_slot(p_conversation text, p_generation bigint, p_token_hash text, p_worker text)
returns json
language plpgsql as $$
declare
  v_run signalbox.run;
begin
  if not signalbox.hold_shared(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'bind_slot');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  if not signalbox.put_slot(v_run, p_token_hash, p_worker) then
    return json_build_object('code', 'slot_unknown');
  end if;
  -- Nobody waits for the disk: a database that dies and forgets this binding denies the slot, and every commit of what
  -- the slot then does is durable and brings the binding with it.
  perform set_config('synchronous_commit', 'off', true);
  return json_build_object('kind', 'bound');
end $$;
