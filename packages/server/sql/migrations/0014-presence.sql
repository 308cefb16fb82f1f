-- Presence and leases of processes. A process is present while the session that registered it lives: the session holds
-- an advisory lock on the incarnation, and whoever can take that lock knows the session is lost. Only the database's
-- clock judges.

-- Emptied when the server recovers from a crash or a standby is promoted: together with the time the server started it
-- tells since when sessions could be re-established.
create unlogged table signalbox.database_start (
  singleton boolean primary key default true check (singleton),
  at        timestamptz not null default signalbox.clock()
);
alter table signalbox.database_start enable row level security;
alter table signalbox.database_start force row level security;
create policy run_side on signalbox.database_start to signalbox_run using (true) with check (true);
grant select, insert on signalbox.database_start to signalbox_run;

create function signalbox.presence_space() returns integer
language sql immutable parallel safe
return 1396854616;

create function signalbox.register_process(p_roles text[], p_lease_ms integer) returns integer
language plpgsql as $$
declare
  v_incarnation integer := nextval('signalbox.incarnation');
begin
  -- Before the row can be seen: nobody finds a registered process whose lock is free.
  perform pg_advisory_lock(signalbox.presence_space(), v_incarnation);
  insert into signalbox.process (incarnation, roles, lease_until)
  values (v_incarnation, p_roles, signalbox.clock() + make_interval(secs => p_lease_ms / 1000.0));
  return v_incarnation;
end $$;

-- False when the process was declared dead.
create function signalbox.renew_process(p_process integer, p_lease_ms integer) returns boolean
language plpgsql as $$
begin
  update signalbox.process
  set heartbeat_at = signalbox.clock(), lease_until = signalbox.clock() + make_interval(secs => p_lease_ms / 1000.0)
  where incarnation = p_process and dead_at is null;
  return found;
end $$;

-- A process that lost its session takes its own lock again. `held`: it is alive and goes on; `dead`: it was declared
-- dead; `busy`: somebody else holds the lock at this moment.
create function signalbox.retake_presence(p_process integer, p_lease_ms integer) returns text
language plpgsql as $$
begin
  if not pg_try_advisory_lock(signalbox.presence_space(), p_process) then
    return 'busy';
  end if;
  if signalbox.renew_process(p_process, p_lease_ms) then
    return 'held';
  end if;
  perform pg_advisory_unlock(signalbox.presence_space(), p_process);
  return 'dead';
end $$;

-- Declares dead whose lease ran out or whose lock is free, and answers how many; -1 when the asker itself is dead. For
-- one lease after the server came up nobody is judged by presence: every session was lost then, the living ones', too.
create function signalbox.bury_processes(p_by integer, p_lease_ms integer) returns integer
language plpgsql as $$
declare
  v_lease interval := make_interval(secs => p_lease_ms / 1000.0);
  v_judges boolean;
  v_process integer;
  v_buried integer := 0;
begin
  if not signalbox.process_lives(p_by) then
    return -1;
  end if;
  insert into signalbox.database_start default values on conflict do nothing;
  select greatest(d.at, pg_postmaster_start_time()) + v_lease < signalbox.clock() into strict v_judges
  from signalbox.database_start d;
  for v_process in
    select p.incarnation from signalbox.process p
    where p.dead_at is null and p.incarnation <> p_by
      and (p.lease_until < signalbox.clock()
           or (v_judges and pg_try_advisory_xact_lock(signalbox.presence_space(), p.incarnation)))
    order by p.incarnation
  loop
    update signalbox.process set dead_at = signalbox.clock()
    where incarnation = v_process and dead_at is null
      and (lease_until < signalbox.clock()
           or (v_judges and pg_try_advisory_xact_lock(signalbox.presence_space(), incarnation)));
    v_buried := v_buried + case when found then 1 else 0 end;
  end loop;
  return v_buried;
end $$;

-- An orderly end. What the process still owns is taken over like that of any other dead one.
create function signalbox.unregister_process(p_process integer) returns void
language plpgsql as $$
begin
  update signalbox.process set dead_at = signalbox.clock() where incarnation = p_process and dead_at is null;
end $$;

-- Forgets the long dead that left nothing behind.
create function signalbox.forget_processes() returns void
language plpgsql as $$
begin
  delete from signalbox.process p
  where p.dead_at < signalbox.clock() - interval '1 day'
    and not exists (select from signalbox.ownership o where o.owner = p.incarnation)
    and not exists (select from signalbox.model_call m where m.process = p.incarnation and m.state = 'executing')
    and not exists (select from signalbox.tool_call t where t.process = p.incarnation and t.state = 'executing');
end $$;
