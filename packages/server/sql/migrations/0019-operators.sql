-- What operators do: pauses and stops at any scope, and commands on one run. Each is audited; each refuses what would
-- not be safe, with a sentence, and then changes nothing.

create table signalbox.stop (
  id         text primary key,
  tenant_id  text not null check (tenant_id <> ''),
  kind       text not null check (kind in ('pause', 'stop')),
  scope      text not null check (scope in ('run', 'conversation', 'agent', 'tenant')),
  -- Id of what it is about; of a tenant, its name.
  subject    text not null,
  reason     text,
  created_by text not null,
  created_at timestamptz not null default signalbox.clock(),
  lifted_by  text,
  lifted_at  timestamptz,
  constraint stop_lifted check ((lifted_at is null) = (lifted_by is null))
);
-- Looked at by every intent: nearly always empty.
create unique index stop_standing on signalbox.stop (tenant_id, scope, subject, kind) where lifted_at is null;
create index stop_tenant on signalbox.stop (tenant_id, id);
create index hold_paused on signalbox.hold (id) where state = 'open' and kind = 'operator';
-- Obligations to answer that are still open.
create index run_unfinished on signalbox.run (tenant_id, id) where finished_at is null;

alter table signalbox.stop enable row level security;
alter table signalbox.stop force row level security;
create policy run_side on signalbox.stop to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.stop to signalbox_app
  using (tenant_id = nullif(current_setting('signalbox.tenant', true), ''))
  with check (tenant_id = nullif(current_setting('signalbox.tenant', true), ''));
grant select, insert, update on signalbox.stop to signalbox_app, signalbox_run;

-- The stop, or else the pause, that stands in the way of a run; null when nothing does.
create function signalbox.stop_over(p_tenant text, p_agent text, p_conversation text, p_run text)
returns signalbox.stop
language plpgsql as $$
declare
  v_stop signalbox.stop;
begin
  select s.* into v_stop from signalbox.stop s
  where s.tenant_id = p_tenant and s.lifted_at is null
    and (s.scope, s.subject) in (('run', p_run), ('conversation', p_conversation), ('agent', p_agent),
                                 ('tenant', p_tenant))
  order by s.kind desc, s.created_at limit 1;
  return v_stop;
end $$;

alter type signalbox.gate_entry add attribute stop_id text;

-- The fence of the gates: the slot names run and generation; the ownership row is locked in share mode until the end of
-- the transaction, so no claim, takeover, release, seal or cancel can pass before what follows is committed. For an
-- intent (`p_process` given) the gate must be alive, the run not cancelled, within its wall clock, not stopped and not
-- paused; of a pause the entry names run and pause, so that what comes can wait for it.
create or replace function signalbox.enter_gate(p_token_hash text, p_process integer) returns signalbox.gate_entry
language plpgsql as $$
declare
  v_entry signalbox.gate_entry;
  v_slot signalbox.slot;
  v_run signalbox.run;
  v_generation bigint;
  v_cancel_at timestamptz;
  v_stop signalbox.stop;
begin
  select s.* into v_slot from signalbox.slot s where s.token_hash = p_token_hash;
  if not found or v_slot.run_id is null then
    v_entry.code := 'slot_unknown';
    return v_entry;
  end if;
  select o.generation, o.cancel_at into v_generation, v_cancel_at from signalbox.ownership o
  where o.conversation_id = v_slot.conversation_id for share;
  select r.* into v_run from signalbox.run r where r.id = v_slot.run_id;
  if v_generation <> v_slot.generation or v_run.state <> 'running' then
    v_entry.code := 'stale_generation';
    perform signalbox.note_stale(v_slot.conversation_id, v_slot.run_id, v_slot.generation, 'gate');
    return v_entry;
  end if;
  if p_process is not null then
    if not signalbox.process_lives(p_process) then
      v_entry.code := 'stale_generation';
      return v_entry;
    elsif v_cancel_at is not null then
      v_entry.code := 'run_cancelled';
      return v_entry;
    elsif v_run.started_at + make_interval(secs => (v_run.wall_clock_ms + v_run.suspended_ms) / 1000.0)
          < signalbox.clock() then
      v_entry.code := 'run_timeout';
      return v_entry;
    end if;
    v_stop := signalbox.stop_over(v_run.tenant_id, v_run.agent_id, v_run.conversation_id, v_run.id);
    if v_stop.kind = 'stop' then
      v_entry.code := 'run_stopped';
      return v_entry;
    elsif v_stop.kind = 'pause' then
      v_entry.code := 'run_suspended';
      v_entry.stop_id := v_stop.id;
    end if;
  end if;
  v_entry.slot := v_slot;
  v_entry.run := v_run;
  return v_entry;
end $$;

-- A refused entry as the gate hears it. A pause opens the hold that the call waits for, once for a run and a pause.
create function signalbox.not_entered(p_entry signalbox.gate_entry) returns json
language plpgsql as $$
declare
  v_run signalbox.run := p_entry.run;
  v_hold text;
begin
  if p_entry.stop_id is null then
    return json_build_object('code', p_entry.code);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  select h.id into v_hold from signalbox.hold h
  where h.run_id = v_run.id and h.state = 'open' and h.kind = 'operator' and h.subject ->> 'stopId' = p_entry.stop_id;
  if not found then
    v_hold := signalbox.new_id('hld');
    perform signalbox.put_hold(v_run, v_hold, 'operator', jsonb_build_object('stopId', p_entry.stop_id), null, null);
  end if;
  return json_build_object('code', p_entry.code, 'holdId', v_hold, 'conversationId', v_run.conversation_id,
                           'generation', v_run.generation, 'sequence', signalbox.newest(v_run.conversation_id));
end $$;

create or replace function signalbox.open_model_call(p_token_hash text, p_call text, p_process integer, p_wire text,
                                                     p_model text, p_request_bytes bigint, p_rules text[]) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
begin
  if v_entry.code is not null then
    return signalbox.not_entered(v_entry);
  end if;
  update signalbox.run set model_call_count = model_call_count + 1
  where id = v_run.id and model_call_count < model_call_limit;
  if not found then
    return json_build_object('code', 'run_timeout', 'detail', 'The run has used up its model calls.');
  end if;
  insert into signalbox.model_call (id, tenant_id, run_id, conversation_id, generation, process, state, wire,
                                    requested_model, rules, request_bytes, started_at)
  values (p_call, v_run.tenant_id, v_run.id, v_run.conversation_id, v_run.generation, p_process, 'executing', p_wire,
          p_model, p_rules, p_request_bytes, signalbox.clock());
  perform signalbox.audit(v_run.tenant_id, 'model_called', v_run.actor, v_run.conversation_id, v_run.id,
    v_run.generation,
    '{"model":' || signalbox.quoted(p_model) || ',"modelCallId":' || signalbox.quoted(p_call) || '}');
  return signalbox.slot_view(p_token_hash);
end $$;

create or replace function signalbox.open_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text,
                                                    p_digest text) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_call signalbox.tool_call;
begin
  if v_entry.code is not null then
    return signalbox.not_entered(v_entry);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  v_call := signalbox.find_call(v_run, p_tool_use, p_name, p_digest);
  case
    when v_call.id is null or v_call.state = 'withdrawn' then
      perform signalbox.note_denied(v_run, v_call.id, p_name, 'tool_not_proposed', 'The model did not propose this call.');
      return json_build_object('code', 'tool_not_proposed');
    when v_call.state in ('succeeded', 'failed') then
      return signalbox.replay_of(v_call);
    when v_call.state in ('executing', 'unknown') then
      return json_build_object('code', 'tool_outcome_unknown');
    when v_call.state = 'awaiting_approval' or v_call.server is null then
      return json_build_object('code', 'tool_not_allowed', 'detail', v_call.denial);
    when v_call.state = 'denied' then
      return signalbox.replay_of(v_call);
    else
      return signalbox.start_tool_call(v_run, v_call, p_process);
  end case;
end $$;

-- A denial in place of an intent; nothing leaves with it, so a pause does not keep it. What was not proposed, or has an
-- outcome, is only audited.
create or replace function signalbox.deny_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text,
                                                    p_digest text, p_code text, p_reason text) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_call signalbox.tool_call;
begin
  if v_entry.code is not null and v_entry.stop_id is null then
    return json_build_object('code', v_entry.code);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  v_call := signalbox.find_call(v_run, p_tool_use, p_name, p_digest);
  update signalbox.tool_call
  set state = 'denied', denial = p_reason, error_code = p_code, finished_at = signalbox.clock(),
      result = json_build_object('isError', true,
        'content', json_build_array(json_build_object('type', 'text', 'text', p_reason)))
  where id = v_call.id and state in ('proposed', 'awaiting_approval', 'authorized')
  returning * into v_call;
  if found then
    perform signalbox.note_tool_finished(v_run, v_call);
  else
    perform signalbox.note_denied(v_run, null, p_name, p_code, p_reason);
  end if;
  return json_build_object('kind', 'denied', 'conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;

-- Puts a pause or a stop in place. One that stands already is answered as it is.
create function signalbox.create_stop(p_tenant text, p_user text, p_stop text, p_kind text, p_scope text,
                                      p_subject text, p_reason text, p_actor text) returns json
language plpgsql as $$
declare
  v_subject text := p_subject;
  v_stop text;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  case p_scope
    when 'run' then
      perform from signalbox.run r join signalbox.conversation c on c.id = r.conversation_id
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

-- Takes back what readers still see of a run that ends without an answer.
create function signalbox.retract_items(p_run signalbox.run, p_generation bigint, p_cause text) returns void
language plpgsql as $$
begin
  perform signalbox.write_event(p_run, p_generation, 1048575, last.item_id, 'text.retracted',
                                json_build_object('cause', p_cause))
  from (select distinct on (e.item_id) e.item_id, e.type
        from signalbox.event e
        where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.run_id = p_run.id
          and e.type in ('text.delta', 'text.completed', 'text.retracted', 'thinking.delta', 'thinking.completed')
        order by e.item_id, e.revision desc, e.sequence desc) as last
  where last.type <> 'text.retracted';
end $$;

-- Ends a run whatever has become of its owner, who finds itself stale. What the turn wrote is not continued from.
create function signalbox.fail_run(p_tenant text, p_user text, p_run text, p_actor text, p_force boolean) returns json
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
  perform signalbox.audit(p_tenant, 'run_released', p_actor, v_run.conversation_id, p_run, v_run.generation,
    '{"process":' || v_run.owner || '}');
  perform signalbox.release(v_run.conversation_id, v_run.generation);
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $$;
