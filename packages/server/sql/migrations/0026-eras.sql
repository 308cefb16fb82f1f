-- What processes tell each other, and incarnations of the store.

create function signalbox.tell_offers(p_process integer, p_runtimes jsonb, p_providers jsonb) returns void
language plpgsql as $$
begin
  -- Said again every second; a server that dies may forget it.
  perform set_config('synchronous_commit', 'off', true);
  insert into signalbox.process_offer (incarnation, runtimes, providers)
  select p.incarnation, p_runtimes, p_providers
  from signalbox.process p where p.incarnation = p_process and p.dead_at is null
  on conflict (incarnation) do update
  set runtimes = excluded.runtimes, providers = excluded.providers, told_at = signalbox.clock();
end $$;

-- Of every living process but the one that asks.
create function signalbox.offers(p_but integer) returns table (runtimes jsonb, providers jsonb)
language sql stable
begin atomic
  select o.runtimes, o.providers
  from signalbox.process_offer o join signalbox.process p on p.incarnation = o.incarnation
  where p.dead_at is null and p.lease_until > signalbox.clock() and p.incarnation is distinct from p_but
  order by p.incarnation;
end;

create function signalbox.system_identifier() returns text
language plpgsql stable as $$
begin
  return (select c.system_identifier::text from pg_control_system() c);
exception when insufficient_privilege then
  return null;
end $$;

-- The timeline that is being written now; a promotion begins a new one.
create function signalbox.store_timeline() returns integer
language sql volatile
return ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer;

-- The newest sign of life that the store remembers. Whoever was told of a newer one has an older copy before it.
create function signalbox.store_mark() returns bigint
language plpgsql as $$
begin
  return coalesce(signalbox.unix_ms(greatest((select max(p.heartbeat_at) from signalbox.process p),
                                             (select max(e.opened_at) from signalbox.era e))), 0);
end $$;

-- Asked by every claim and every intent, so it reads one row and no file.
create function signalbox.store_stands() returns boolean
language plpgsql as $$
begin
  return not exists (select from signalbox.store_identity s where s.timeline <> signalbox.store_timeline());
end $$;

-- Whether a process may act: it was not declared dead, and the store is the one that it was registered in.
create or replace function signalbox.process_lives(p_process integer) returns boolean
language plpgsql as $$
begin
  return exists (select from signalbox.process p where p.incarnation = p_process and p.dead_at is null)
    and signalbox.store_stands();
end $$;

create or replace function signalbox.renew_process(p_process integer, p_lease_ms integer) returns boolean
language plpgsql as $$
begin
  update signalbox.process
  set heartbeat_at = signalbox.clock(), lease_until = signalbox.clock() + make_interval(secs => p_lease_ms / 1000.0)
  where incarnation = p_process and dead_at is null and signalbox.store_stands();
  return found;
end $$;

-- Approvals that were given and whose run has not ended: nobody knows whether what they allowed was carried out, so each
-- is asked again, with as much time as it had, and its run waits for it. A run that is to end waits for nothing. Called
-- with every ownership locked.
create function signalbox.ask_again() returns void
language plpgsql as $$
declare
  v_hold signalbox.hold;
  v_run signalbox.run;
  v_generation bigint;
  v_asked text[] := '{}';
begin
  for v_hold in
    select h.* from signalbox.hold h join signalbox.run r on r.id = h.run_id
    where h.state = 'decided' and h.kind = 'approval' and r.state in ('admitted', 'running', 'suspended')
      and r.cancel_requested_at is null
      and not exists (select from signalbox.tool_call t
                      where t.hold_id = h.id and t.state not in ('proposed', 'authorized'))
    order by h.conversation_id, h.id
  loop
    select o.generation into strict v_generation from signalbox.ownership o
    where o.conversation_id = v_hold.conversation_id;
    select r.* into strict v_run from signalbox.run r where r.id = v_hold.run_id for update;
    update signalbox.hold
    set state = 'open', decision = null, response = null, decided_by = null, decided_at = null,
        opened_at = signalbox.clock(), expires_at = signalbox.clock() + (expires_at - opened_at)
    where id = v_hold.id
    returning * into strict v_hold;
    update signalbox.tool_call set state = 'awaiting_approval' where hold_id = v_hold.id;
    perform signalbox.note_hold_opened(v_run, v_hold, v_generation);
    v_asked := v_asked || v_run.id;
  end loop;
  for v_run in
    select r.* from signalbox.run r
    where r.id = any (v_asked) and r.state in ('admitted', 'running')
    order by r.conversation_id for update
  loop
    perform signalbox.put_to_wait(v_run);
  end loop;
  perform signalbox.ask_clients_again();
end $$;

-- Opens the next era in one transaction. Slots are gone, so no token means anything; every generation jumps further
-- than a lost one can have grown, and the numbers of processes likewise; calls that were outside are closed as far as
-- they can be known; what was decided and not carried out is asked again. It is about every conversation at once, so it
-- locks the table of ownerships and no rows of it: whoever holds one ends first, and nobody comes in between.
create function signalbox.open_era(p_cause text, p_place text) returns integer
language plpgsql as $$
declare
  v_era integer;
  v_since timestamptz;
  v_tenant text;
  v_id text;
begin
  perform pg_advisory_xact_lock(signalbox.presence_space(), -1);
  lock table signalbox.ownership in exclusive mode;
  perform from signalbox.process p where p.dead_at is null order by p.incarnation for update;
  select coalesce(max(p.heartbeat_at), signalbox.clock()) into v_since from signalbox.process p;
  insert into signalbox.store_identity (system_identifier, timeline, place, era)
  values (signalbox.system_identifier(), signalbox.store_timeline(), p_place, 2)
  on conflict (singleton) do update
  set system_identifier = excluded.system_identifier, timeline = excluded.timeline,
      place = coalesce(excluded.place, store_identity.place), era = store_identity.era + 1
  returning era into v_era;
  insert into signalbox.era (number, cause, since) values (v_era, p_cause, v_since);
  perform setval('signalbox.incarnation', nextval('signalbox.incarnation') + 65536);
  update signalbox.process set dead_at = signalbox.clock() where dead_at is null;
  update signalbox.ownership set generation = generation + 1048576;
  delete from signalbox.slot;
  for v_id in select m.id from signalbox.model_call m where m.state = 'executing' order by m.conversation_id, m.id loop
    perform signalbox.lose_model_call(v_id);
  end loop;
  for v_id in select t.id from signalbox.tool_call t where t.state = 'executing' order by t.conversation_id, t.id loop
    perform signalbox.lose_tool_call(v_id);
  end loop;
  perform signalbox.ask_again();
  for v_tenant in select distinct c.tenant_id from signalbox.conversation c loop
    perform signalbox.audit(v_tenant, 'incarnation_opened', null, null, null, null,
      '{"cause":' || signalbox.quoted(p_cause) || ',"era":' || v_era
      || ',"since":' || signalbox.quoted(signalbox.rfc3339(v_since))
      || ',"until":' || signalbox.quoted(signalbox.rfc3339(signalbox.clock())) || '}');
  end loop;
  return v_era;
end $$;

-- At every start and registration, and when a session was lost. Answers the era, having opened one when the store is
-- not what it was.
create function signalbox.check_store(p_place text, p_mark bigint) returns integer
language plpgsql as $$
declare
  v_known signalbox.store_identity;
  v_identifier text := signalbox.system_identifier();
  v_timeline integer := signalbox.store_timeline();
begin
  perform pg_advisory_xact_lock(signalbox.presence_space(), -1);
  select s.* into v_known from signalbox.store_identity s;
  if not found then
    insert into signalbox.store_identity (system_identifier, timeline, place) values (v_identifier, v_timeline, p_place);
    return 1;
  elsif v_known.system_identifier <> v_identifier then
    return signalbox.open_era('store_replaced', p_place);
  elsif v_known.timeline <> v_timeline then
    return signalbox.open_era('failover', p_place);
  elsif signalbox.store_mark() < p_mark then
    return signalbox.open_era('store_restored', p_place);
  elsif v_known.place <> p_place then
    return signalbox.open_era('store_copied', p_place);
  elsif v_known.place is null and p_place is not null then
    update signalbox.store_identity set place = p_place;
  end if;
  return v_known.era;
end $$;

create or replace function signalbox.register_process(p_roles text[], p_lease_ms integer) returns integer
language plpgsql as $$
declare
  v_incarnation integer;
begin
  perform signalbox.check_store(null, null);
  v_incarnation := nextval('signalbox.incarnation');
  -- Before the row can be seen: nobody finds a registered process whose lock is free.
  perform pg_advisory_lock(signalbox.presence_space(), v_incarnation);
  insert into signalbox.process (incarnation, roles, lease_until)
  values (v_incarnation, p_roles, signalbox.clock() + make_interval(secs => p_lease_ms / 1000.0));
  return v_incarnation;
end $$;

-- Whether a worker knows of a generation that the record has not given out yet: the record is older than the worker.
create function signalbox.sessions_ahead(p_conversations text[], p_generations bigint[]) returns boolean
language plpgsql as $$
begin
  return exists (
    select from unnest(p_conversations, p_generations) as held(conversation, generation)
    join signalbox.ownership o on o.conversation_id = held.conversation
    where o.generation < held.generation);
end $$;
