-- What operators do: pauses and stops at any scope, and commands on one run. Each is audited; each refuses what would
-- not be safe, with a sentence, and then changes nothing.

-- What stands over a run: the one place that says what a scope reaches.
create function signalbox.stops_over(p_tenant text, p_agent text, p_conversation text, p_run text)
returns setof signalbox.stop
language sql stable
begin atomic
  select s.* from signalbox.stop s
  where s.tenant_id = p_tenant and s.lifted_at is null
    and (s.scope, s.subject) in (('run', p_run), ('conversation', p_conversation), ('agent', p_agent),
                                 ('tenant', p_tenant));
end;

-- The stop, or else the pause, that stands in the way of a run; null when nothing does.
create function signalbox.stop_over(p_tenant text, p_agent text, p_conversation text, p_run text)
returns signalbox.stop
language plpgsql as $$
declare
  v_stop signalbox.stop;
begin
  select s.* into v_stop from signalbox.stops_over(p_tenant, p_agent, p_conversation, p_run) s
  order by s.kind desc, s.created_at limit 1;
  return v_stop;
end $$;

-- Puts a pause or a stop in place. One that stands already is answered as it is.
create function signalbox.create_stop(p_tenant text, p_user text, p_stop text, p_kind text, p_scope text,
                                      p_subject text, p_reason text, p_actor text) returns json
language plpgsql as $$
declare
  v_subject text := p_subject;
  v_stop text;
  v_finished timestamptz;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  case p_scope
    when 'run' then
      select r.finished_at into v_finished
      from signalbox.run r join signalbox.conversation c on c.id = r.conversation_id
      where r.id = p_subject and r.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
    when 'conversation' then
      perform from signalbox.conversation c
      where c.id = p_subject and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
    when 'agent' then
      select a.id into v_subject from signalbox.agent a
      where a.tenant_id = p_tenant and (a.id = p_subject or a.name = p_subject);
    else
      v_subject := p_tenant;
      perform 1;
  end case;
  if not found then
    return json_build_object('code', 'not_found');
  elsif v_finished is not null then
    return signalbox.refused('The run has ended already; there is nothing that this could keep from going on.');
  end if;
  insert into signalbox.stop (id, tenant_id, kind, scope, subject, reason, created_by)
  values (p_stop, p_tenant, p_kind, p_scope, v_subject, p_reason, p_actor)
  on conflict (tenant_id, scope, subject, kind) where lifted_at is null do nothing
  returning id into v_stop;
  if found then
    perform signalbox.audit(p_tenant, 'stop_created', p_actor, null, null, null,
      '{"kind":' || signalbox.quoted(p_kind) || ',"reason":' || signalbox.quoted(p_reason)
      || ',"scope":' || signalbox.quoted(p_scope) || ',"stopId":' || signalbox.quoted(p_stop)
      || ',"subject":' || signalbox.quoted(v_subject) || '}');
    return json_build_object('stopId', v_stop, 'created', true);
  end if;
  select s.id into strict v_stop from signalbox.stop s
  where s.tenant_id = p_tenant and s.scope = p_scope and s.subject = v_subject and s.kind = p_kind
    and s.lifted_at is null;
  return json_build_object('stopId', v_stop, 'created', false);
end $$;

-- What it kept from going on goes on: a pause's holds are decided by the sweep of whoever asked, or by any other.
create function signalbox.lift_stop(p_tenant text, p_stop text, p_actor text) returns json
language plpgsql as $$
declare
  v_stop signalbox.stop;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  update signalbox.stop set lifted_at = signalbox.clock(), lifted_by = p_actor
  where id = p_stop and tenant_id = p_tenant and lifted_at is null
  returning * into v_stop;
  if found then
    perform signalbox.audit(p_tenant, 'stop_lifted', p_actor, null, null, null,
      '{"stopId":' || signalbox.quoted(p_stop) || '}');
  elsif not exists (select from signalbox.stop s where s.id = p_stop and s.tenant_id = p_tenant) then
    return json_build_object('code', 'not_found');
  end if;
  return json_build_object('stopId', p_stop);
end $$;

-- Ends a run that a stop stands over: marks the cancel of an owned one, ends one that nobody owns.
create function signalbox.stop_run(p_run text) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
  v_stop signalbox.stop;
  v_generation bigint;
begin
  select r.* into strict v_run from signalbox.run r where r.id = p_run;
  select o.generation into strict v_generation from signalbox.ownership o
  where o.conversation_id = v_run.conversation_id for update;
  select r.* into strict v_run from signalbox.run r where r.id = p_run for update;
  v_stop := signalbox.stop_over(v_run.tenant_id, v_run.agent_id, v_run.conversation_id, v_run.id);
  if v_stop.kind is distinct from 'stop' or v_run.cancel_requested_at is not null
     or v_run.state not in ('queued', 'admitted', 'running', 'suspended')
  then
    return json_build_object('kind', 'unchanged', 'conversationId', v_run.conversation_id,
                             'sequence', signalbox.newest(v_run.conversation_id));
  end if;
  perform signalbox.end_from_outside(v_run, v_generation, 'operator_stop', false, v_stop.created_by);
  return json_build_object('kind', 'stopped', 'conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;

-- The pause that opened this hold does not stand any more.
create function signalbox.resume_hold(p_hold text) returns json
language plpgsql as $$
declare
  v_hold signalbox.hold := signalbox.lock_hold(p_hold);
  v_stop signalbox.stop;
begin
  select s.* into v_stop from signalbox.stop s where s.id = v_hold.subject ->> 'stopId';
  if v_hold.state <> 'open' or v_stop.lifted_at is null then
    return signalbox.hold_changed(v_hold, 'unchanged', false);
  end if;
  v_hold := signalbox.close_hold(p_hold, 'decided', 'resume', null, v_stop.lifted_by);
  return signalbox.hold_changed(v_hold, 'decided', signalbox.wake_run(v_hold.run_id));
end $$;

-- No run begins to exist where a stop stands, whichever way it would be admitted.
create function signalbox.refuse_stopped() returns trigger
language plpgsql as $$
begin
  if (signalbox.stop_over(new.tenant_id, new.agent_id, new.conversation_id, new.id)).kind = 'stop' then
    raise exception 'stopped by an operator' using errcode = 'check_violation', constraint = 'operator_stopped';
  end if;
  return new;
end $$;
create trigger run_not_stopped before insert on signalbox.run for each row
  execute function signalbox.refuse_stopped();

-- Why the message of this run is not to be answered again, or null. A call with an effect stands in the way whatever came
-- of it: who answers again may cause it again. The conversation's line is locked, so two cannot both be let through.
create function signalbox.refused_retry(p_tenant text, p_run text, p_force boolean) returns text
language plpgsql as $$
declare
  v_run signalbox.run;
  v_later signalbox.run;
begin
  select r.* into v_run from signalbox.run r where r.tenant_id = p_tenant and r.id = p_run;
  select r.* into v_later from signalbox.run r
  where r.conversation_id = v_run.conversation_id and r.position > v_run.position
    and r.requested ->> 'retryOf' = p_run and (r.finished_at is null or r.state = 'completed')
  order by r.position limit 1;
  return case
    when v_run.finished_at is null then 'The run has not ended; it may still be answered.'
    when v_run.state = 'completed' then 'The run was answered; send a new message instead.'
    when v_later.state = 'completed' then 'The run was answered again already, by ' || v_later.id || '.'
    when v_later.id is not null then 'The run is being answered again already, by ' || v_later.id || '.'
    when p_force then null
    when exists (select from signalbox.tool_call t
                 where t.run_id = p_run and t.effect in ('write', 'irreversible') and t.state in ('executing', 'unknown'))
      then 'A call with an effect has an unknown outcome: answering again may repeat it. With force it is done all the same.'
    when exists (select from signalbox.tool_call t
                 where t.run_id = p_run and t.effect in ('write', 'irreversible') and t.state = 'succeeded')
      then 'A call with an effect was carried out: answering again may repeat it. With force it is done all the same.'
  end;
end $$;

create function signalbox.refused(p_why text) returns json
language sql immutable
return json_build_object('code', 'command_refused', 'detail', p_why);

-- The run an operator means, locked together with its ownership; null for what the viewer may not see.
create function signalbox.lock_run(p_tenant text, p_user text, p_run text) returns signalbox.run
language plpgsql as $$
declare
  v_run signalbox.run;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  select r.* into v_run from signalbox.run r join signalbox.conversation c on c.id = r.conversation_id
  where r.id = p_run and r.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
  if not found then
    return null;
  end if;
  perform from signalbox.ownership o where o.conversation_id = v_run.conversation_id for update;
  select r.* into strict v_run from signalbox.run r where r.id = p_run for update;
  return v_run;
end $$;

-- Whether a call of the run is outside at a gate that lives; of those with an effect only, if so asked.
create function signalbox.has_live_call(p_run text, p_effects_only boolean) returns boolean
language plpgsql as $$
begin
  return exists (select from signalbox.tool_call t where t.run_id = p_run and t.state = 'executing'
                   and (not p_effects_only or t.effect in ('write', 'irreversible'))
                   and signalbox.process_lives(t.process))
      or (not p_effects_only and exists (
            select from signalbox.model_call m where m.run_id = p_run and m.state = 'executing'
              and signalbox.process_lives(m.process)));
end $$;

-- Ends a run whatever has become of its owner, who finds itself stale. What the turn wrote is not continued from.
create function signalbox.fail_run(p_tenant text, p_user text, p_run text, p_actor text,
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
    update signalbox.run set state = 'finalizing', conclusion = '{}', sealed_at = signalbox.clock() where id = p_run;
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
create function signalbox.release_run(p_tenant text, p_user text, p_run text, p_actor text) returns json
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
