-- Holds: the one thing a run waits for. Opened under the fence, decided only in their row; the transaction that decides
-- the last open one of a suspended run wakes it. Locks are taken as everywhere: ownership, run, conversation, the rest.

create function signalbox.has_open_hold(p_run text) returns boolean
language plpgsql as $$
begin
  return exists (select from signalbox.hold h where h.run_id = p_run and h.state = 'open');
end $$;

-- What a run waits for, oldest first, as every document shows it.
create function signalbox.waiting_for(p_run text) returns json
language plpgsql as $$
begin
  return (select coalesce(json_agg(json_build_object('holdId', h.id, 'kind', h.kind,
                                                     'since', signalbox.rfc3339(h.opened_at)) order by h.id), '[]')
          from signalbox.hold h where h.run_id = p_run and h.state = 'open');
end $$;

-- Tells that a hold is open: its event, as a newer form of it when it was asked before, and its audit entry.
create function signalbox.note_hold_opened(p_run signalbox.run, p_hold signalbox.hold, p_generation bigint) returns void
language plpgsql as $$
begin
  perform signalbox.write_event(p_run, p_generation, 0, p_hold.id, 'hold.opened', json_build_object(
    'holdId', p_hold.id, 'kind', p_hold.kind, 'subject', p_hold.subject, 'digest', p_hold.digest,
    'expiresAt', signalbox.rfc3339(p_hold.expires_at)));
  perform signalbox.audit(p_run.tenant_id, 'hold_opened', p_run.actor, p_run.conversation_id, p_run.id, p_generation,
    '{"digest":' || signalbox.quoted(p_hold.digest)
    || ',"holdId":' || signalbox.quoted(p_hold.id)
    || ',"kind":' || signalbox.quoted(p_hold.kind) || '}');
end $$;

-- Opens a hold. The caller holds the fence, and the run and its conversation for a write. An id that is known already
-- is that hold: the reply was lost.
create function signalbox.put_hold(p_run signalbox.run, p_hold text, p_kind text, p_subject jsonb, p_digest text,
                                   p_expires_ms bigint) returns signalbox.hold
language plpgsql as $$
declare
  v_hold signalbox.hold;
begin
  insert into signalbox.hold (id, tenant_id, conversation_id, run_id, kind, subject, digest, expires_at)
  values (p_hold, p_run.tenant_id, p_run.conversation_id, p_run.id, p_kind, p_subject, p_digest,
          signalbox.clock() + make_interval(secs => p_expires_ms / 1000.0))
  on conflict (id) do nothing
  returning * into v_hold;
  if not found then
    select h.* into strict v_hold from signalbox.hold h where h.id = p_hold and h.run_id = p_run.id;
    return v_hold;
  end if;
  perform signalbox.note_hold_opened(p_run, v_hold, p_run.generation);
  return v_hold;
end $$;

-- A gate opens a hold for the call it keeps: an intent like every other one.
create function signalbox.open_hold(p_token_hash text, p_process integer, p_hold text, p_kind text, p_subject jsonb,
                                    p_digest text, p_expires_ms bigint) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_hold signalbox.hold;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  v_hold := signalbox.put_hold(v_run, p_hold, p_kind, p_subject, p_digest, p_expires_ms);
  return json_build_object('holdId', v_hold.id, 'conversationId', v_run.conversation_id,
                           'generation', v_run.generation, 'sequence', signalbox.newest(v_run.conversation_id));
end $$;

-- Whether a call that waits for this hold has waited long enough: it is not open any more, its owner is not the owner
-- any more, or the run is to end.
create function signalbox.hold_over(p_hold text, p_generation bigint) returns boolean
language plpgsql as $$
begin
  return not exists (
    select from signalbox.hold h join signalbox.ownership o on o.conversation_id = h.conversation_id
    where h.id = p_hold and h.state = 'open' and o.cancel_at is null and o.generation = p_generation);
end $$;

-- A run with an open hold needs nobody: no owner, no worker, no slot. The ownership row and the run are locked.
create function signalbox.put_to_wait(p_run signalbox.run) returns void
language plpgsql as $$
declare
  v_run signalbox.run;
  v_generation bigint;
begin
  update signalbox.run set state = 'suspended', owner = null, suspended_at = signalbox.clock() where id = p_run.id
  returning * into strict v_run;
  update signalbox.ownership
  set generation = generation + 1, owner = null, runtime = null, ready_at = null
  where conversation_id = v_run.conversation_id
  returning generation into strict v_generation;
  perform signalbox.unbind_slots(v_run.conversation_id);
  perform signalbox.write_event(v_run, v_generation, 0, v_run.id, 'run.suspended',
    json_build_object('waitingFor', signalbox.waiting_for(v_run.id)));
  perform signalbox.audit(v_run.tenant_id, 'run_suspended', v_run.actor, v_run.conversation_id, v_run.id,
    v_generation, '{}');
end $$;

-- The end of patience: a run whose hold is still open needs nobody any more. Whichever commits first wins, the decision
-- or this. A call that is still outside is waited for (`busy`), since its outcome belongs to the turn.
create function signalbox.suspend(p_conversation text, p_generation bigint) returns json
language plpgsql as $$
declare
  v_run signalbox.run;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'suspend');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation for update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  if not signalbox.has_open_hold(v_run.id)
     or exists (select from signalbox.ownership o where o.conversation_id = p_conversation and o.cancel_at is not null)
  then
    return json_build_object('kind', 'go_on');
  end if;
  if exists (select from signalbox.tool_call t where t.run_id = v_run.id and t.state = 'executing')
     or exists (select from signalbox.model_call m where m.run_id = v_run.id and m.state = 'executing')
  then
    return json_build_object('kind', 'busy');
  end if;
  perform signalbox.put_to_wait(v_run);
  return json_build_object('kind', 'suspended', 'conversationId', p_conversation,
                           'sequence', signalbox.newest(p_conversation));
end $$;

-- Nothing keeps a suspended run any more: whoever has room claims it. The ownership row is locked exclusively.
create function signalbox.wake_run(p_run text) returns boolean
language plpgsql as $$
declare
  v_run signalbox.run;
  v_generation bigint;
begin
  if signalbox.has_open_hold(p_run) then
    return false;
  end if;
  update signalbox.run
  set state = 'admitted', suspended_at = null,
      suspended_ms = suspended_ms + signalbox.unix_ms(signalbox.clock()) - signalbox.unix_ms(suspended_at)
  where id = p_run and state = 'suspended'
  returning * into v_run;
  if not found then
    return false;
  end if;
  update signalbox.ownership set runtime = v_run.runtime, ready_at = signalbox.clock()
  where conversation_id = v_run.conversation_id
  returning generation into strict v_generation;
  perform signalbox.write_event(v_run, v_generation, 1, v_run.id, 'run.resumed', json_build_object());
  perform signalbox.audit(v_run.tenant_id, 'run_resumed', v_run.actor, v_run.conversation_id, v_run.id, v_generation,
    '{}');
  return true;
end $$;

-- Closes an open hold. Ownership and run are locked.
create function signalbox.close_hold(p_hold text, p_state text, p_decision text, p_response jsonb, p_actor text)
returns signalbox.hold
language plpgsql as $$
declare
  v_hold signalbox.hold;
  v_run signalbox.run;
  v_generation bigint;
begin
  update signalbox.hold
  set state = p_state, decision = p_decision, response = p_response, decided_by = p_actor,
      decided_at = signalbox.clock()
  where id = p_hold and state = 'open'
  returning * into strict v_hold;
  if v_hold.gateway_call_id is not null then
    perform signalbox.note_client_hold_closed(v_hold);
    return v_hold;
  end if;
  select r.* into strict v_run from signalbox.run r where r.id = v_hold.run_id;
  select o.generation into strict v_generation from signalbox.ownership o
  where o.conversation_id = v_hold.conversation_id;
  perform signalbox.write_event(v_run, v_generation, 1, v_hold.id, 'hold.' || p_state,
    case p_state when 'decided'
      then json_build_object('holdId', v_hold.id, 'kind', v_hold.kind, 'decision', p_decision)
      else json_build_object('holdId', v_hold.id, 'kind', v_hold.kind) end);
  perform signalbox.audit(v_hold.tenant_id, 'hold_' || p_state, p_actor, v_hold.conversation_id, v_hold.run_id,
    v_generation,
    '{"decision":' || signalbox.quoted(p_decision)
    || ',"digest":' || signalbox.quoted(v_hold.digest)
    || ',"holdId":' || signalbox.quoted(v_hold.id)
    || ',"kind":' || signalbox.quoted(v_hold.kind) || '}');
  if v_hold.kind = 'approval' then
    perform signalbox.move_asked_call(v_run, v_hold);
  elsif v_hold.kind in ('client_tool', 'input') then
    perform signalbox.move_client_call(v_run, v_hold);
  end if;
  return v_hold;
end $$;

-- The run ends: nobody is asked any more. In the transaction that ends it.
create function signalbox.withdraw_holds(p_run signalbox.run) returns void
language plpgsql as $$
declare
  v_hold text;
begin
  for v_hold in
    select h.id from signalbox.hold h where h.run_id = p_run.id and h.state = 'open' order by h.id for update
  loop
    perform signalbox.close_hold(v_hold, 'withdrawn', null, null, null);
  end loop;
end $$;

-- Locks what a change of this hold needs, and answers the hold as it is then; null when there is none.
create function signalbox.lock_hold(p_hold text) returns signalbox.hold
language plpgsql as $$
declare
  v_hold signalbox.hold;
begin
  select h.* into v_hold from signalbox.hold h where h.id = p_hold;
  if not found then
    return null;
  end if;
  perform from signalbox.ownership o where o.conversation_id = v_hold.conversation_id for update;
  perform from signalbox.run r where r.id = v_hold.run_id for update;
  select h.* into strict v_hold from signalbox.hold h where h.id = p_hold for update;
  return v_hold;
end $$;

create function signalbox.hold_changed(p_hold signalbox.hold, p_kind text, p_ready boolean) returns json
language plpgsql as $$
begin
  return json_build_object('kind', p_kind, 'ready', p_ready, 'conversationId', p_hold.conversation_id,
                           'sequence', signalbox.newest(p_hold.conversation_id));
end $$;

-- Decides, and wakes the run when nothing else keeps it. A second decision changes nothing: the first one stands. What
-- is overdue is decided no more, whether or not a sweep has been there: it expires here.
create function signalbox.decide_hold(p_tenant text, p_user text, p_hold text, p_actor text, p_decision text,
                                      p_response jsonb, p_digest text) returns json
language plpgsql as $$
declare
  v_hold signalbox.hold;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  perform from signalbox.hold h
    left join signalbox.conversation c on c.id = h.conversation_id
    left join signalbox.gateway_call g on g.id = h.gateway_call_id
  where h.id = p_hold and h.tenant_id = p_tenant
    and (p_user is null or c.participant = p_user or g.actor::json ->> 'user' = p_user);
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
  elsif v_hold.state = 'open' and exists (
    select from signalbox.ownership o where o.conversation_id = v_hold.conversation_id and o.cancel_at is not null)
  then
    -- Nothing of a run that is to end is made any more, whatever somebody says to it.
    v_hold := signalbox.close_hold(p_hold, 'withdrawn', null, null, null);
    return signalbox.hold_changed(v_hold, 'withdrawn', false);
  elsif v_hold.state <> 'open' then
    return json_build_object('code', 'hold_closed', 'detail', 'The hold was ' || v_hold.state || '; nothing waits for it any more.');
  elsif v_hold.digest is not null and v_hold.digest is distinct from p_digest then
    return json_build_object('code', 'approval_changed', 'digest', v_hold.digest);
  elsif v_hold.subject ->> 'approver' = 'other' and signalbox.asked_for(coalesce(v_hold.run_id, v_hold.gateway_call_id), p_actor) then
    perform signalbox.audit(p_tenant, 'hold_decision_refused', p_actor, v_hold.conversation_id, v_hold.run_id, null,
      '{"decision":' || signalbox.quoted(p_decision) || ',"holdId":' || signalbox.quoted(p_hold)
      || ',"why":"same person"}');
    return json_build_object('code', 'permission_denied', 'detail', 'Somebody else than who asked for the run has to decide this.');
  end if;
  v_hold := signalbox.close_hold(p_hold, 'decided', p_decision, p_response, p_actor);
  return signalbox.hold_changed(v_hold, 'decided', signalbox.wake_run(v_hold.run_id));
end $$;

-- Nobody decided in time: the run goes on and finds that out.
create function signalbox.expire_hold(p_hold text) returns json
language plpgsql as $$
declare
  v_hold signalbox.hold := signalbox.lock_hold(p_hold);
begin
  if v_hold.state <> 'open' or v_hold.expires_at > signalbox.clock() then
    return signalbox.hold_changed(v_hold, 'unchanged', false);
  end if;
  v_hold := signalbox.close_hold(p_hold, 'expired', null, null, null);
  return signalbox.hold_changed(v_hold, 'expired', signalbox.wake_run(v_hold.run_id));
end $$;
