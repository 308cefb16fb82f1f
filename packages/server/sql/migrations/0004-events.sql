-- The log: one writer's statement for the record's own events, and the readers'.

-- Whatever a later generation says of an item is newer than what an earlier one said.
create function signalbox.revision(p_generation bigint, p_step integer) returns bigint
language sql immutable parallel safe
return p_generation * 1048576 + p_step;

-- Appends one event under the conversation's row lock, which the transaction keeps: sequences have no holes, and the
-- order of commits is the order of sequences. Returns the event's sequence.
create function signalbox.write_event(p_run signalbox.run, p_generation bigint, p_step integer, p_item text,
                                      p_type text, p_data json) returns bigint
language plpgsql as $$
declare
  v_sequence bigint;
begin
  update signalbox.conversation set last_sequence = last_sequence + 1, updated_at = signalbox.clock()
  where id = p_run.conversation_id
  returning last_sequence into strict v_sequence;
  insert into signalbox.event (tenant_id, conversation_id, sequence, item_id, revision, type, run_id, trace_id,
                               generation, data, at)
  values (p_run.tenant_id, p_run.conversation_id, v_sequence, p_item, signalbox.revision(p_generation, p_step), p_type,
          p_run.id, p_run.trace_id, p_generation, p_data, signalbox.clock());
  return v_sequence;
end $$;

-- The newest sequence, for the doorbell that is rung after the commit.
create function signalbox.newest(p_conversation text) returns bigint
language plpgsql as $$
begin
  return (select c.last_sequence from signalbox.conversation c where c.id = p_conversation);
end $$;

-- The newest sequence, or null when the viewer may not see the conversation.
create function signalbox.event_head(p_tenant text, p_user text, p_conversation text) returns bigint
language plpgsql as $$
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  return (select c.last_sequence from signalbox.conversation c
          where c.id = p_conversation and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user));
end $$;

create function signalbox.read_events(p_tenant text, p_user text, p_conversation text, p_after bigint, p_limit integer)
returns table (sequence bigint, item_id text, revision bigint, type text, run_id text, turn_id text, trace_id text,
               generation bigint, data text, at timestamptz)
language plpgsql as $$
begin
  if signalbox.event_head(p_tenant, p_user, p_conversation) is null then
    return;
  end if;
  return query
    select e.sequence, e.item_id, e.revision, e.type, e.run_id, e.turn_id, e.trace_id, e.generation, e.data, e.at
    from signalbox.event e
    where e.conversation_id = p_conversation and e.tenant_id = p_tenant and e.sequence > p_after
    order by e.sequence
    limit p_limit;
end $$;
