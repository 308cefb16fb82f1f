-- A feed over all conversations: events in the order of their transactions, read only below the oldest transaction that
-- is still open, so that one that commits late is never skipped. Its place is (position, conversation, sequence).

-- The transaction that wrote the event; never before the event's predecessor in its conversation, also where that was
-- written by a transaction with a higher number. Parts of items stand in no feed: their closing row says the whole.
alter table signalbox.conversation add column last_position xid8 not null default '0';
alter table signalbox.event add column position xid8 not null default pg_current_xact_id();
create index event_feed on signalbox.event (tenant_id, position, conversation_id, sequence)
  where type not in ('text.delta', 'thinking.delta');

create or replace function signalbox.write_event(p_run signalbox.run, p_generation bigint, p_step integer, p_item text,
                                                 p_type text, p_data json) returns bigint
language plpgsql as $$
declare
  v_sequence bigint;
  v_position xid8;
begin
  update signalbox.conversation set last_sequence = last_sequence + 1, updated_at = signalbox.clock(),
    last_position = greatest(last_position, pg_current_xact_id())
  where id = p_run.conversation_id
  returning last_sequence, last_position into strict v_sequence, v_position;
  insert into signalbox.event (tenant_id, conversation_id, sequence, item_id, revision, type, run_id, trace_id,
                               generation, data, at, position)
  values (p_run.tenant_id, p_run.conversation_id, v_sequence, p_item, signalbox.revision(p_generation, p_step), p_type,
          p_run.id, p_run.trace_id, p_generation, p_data, signalbox.clock(), v_position);
  return v_sequence;
end $$;

create or replace function signalbox.append_events(
  p_conversations text[], p_runs text[], p_generations bigint[], p_counts integer[], p_items text[],
  p_revisions bigint[], p_types text[], p_turns text[], p_data text[])
returns table (conversation_id text, last_sequence bigint)
language plpgsql as $$
begin
  perform from signalbox.ownership o
  where o.conversation_id = any (p_conversations) order by o.conversation_id for share;

  return query
  with batch as materialized (
    select b.conversation, b.run, b.generation, b.count, sum(b.count) over (order by b.place) - b.count as offset_before
    from unnest(p_conversations, p_runs, p_generations, p_counts)
      with ordinality as b(conversation, run, generation, count, place)
  ), owned as materialized (
    select b.conversation, b.count, b.offset_before, b.generation, r.id as run, r.tenant_id, r.trace_id
    from batch b
    join signalbox.ownership o on o.conversation_id = b.conversation and o.generation = b.generation
    join signalbox.run r on r.id = b.run
    where o.conversation_id = any (p_conversations) and r.id = any (p_runs)
      and r.generation = b.generation and r.state in ('running', 'finalizing')
  ), counted as (
    update signalbox.conversation c set last_sequence = c.last_sequence + owned.count,
      last_position = greatest(c.last_position, pg_current_xact_id())
    from owned
    where c.id = owned.conversation and c.id = any (p_conversations)
    returning c.id, c.last_sequence as last, c.last_position as position, owned.count, owned.offset_before,
      owned.generation, owned.run, owned.tenant_id, owned.trace_id
  ), written as (
    insert into signalbox.event (tenant_id, conversation_id, sequence, item_id, revision, type, run_id, turn_id,
                                 trace_id, generation, data, at, position)
    select counted.tenant_id, counted.id, counted.last - counted.count + n.n, p_items[counted.offset_before + n.n],
           p_revisions[counted.offset_before + n.n], p_types[counted.offset_before + n.n], counted.run,
           p_turns[counted.offset_before + n.n], counted.trace_id, counted.generation,
           p_data[counted.offset_before + n.n], signalbox.clock(), counted.position
    from counted cross join lateral generate_series(1, counted.count) as n(n)
  )
  select batch.conversation, counted.last
  from batch left join counted on counted.id = batch.conversation;
end $$;

-- The feed of a tenant after a place, up to a number of rows and about a number of bytes, without what the viewer or the
-- agent that is asked for leaves out: such a row comes without its event, as the place to go on from. The last row says
-- whether there may be more.
create function signalbox.read_feed(p_tenant text, p_user text, p_agent text, p_position xid8, p_after text,
                                    p_sequence bigint, p_limit integer, p_bytes integer)
returns table (place text, conversation_id text, sequence bigint, item_id text, revision bigint, type text, run_id text,
               turn_id text, trace_id text, generation bigint, data text, at timestamptz, shown boolean, more boolean)
language plpgsql as $$
declare
  v_event signalbox.event;
  v_count integer := 0;
  v_bytes integer := 0;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  for v_event in
    select e.* from signalbox.event e
    where e.tenant_id = p_tenant and e.type not in ('text.delta', 'thinking.delta')
      and (e.position, e.conversation_id, e.sequence) > (p_position, p_after, p_sequence)
      and e.position < pg_snapshot_xmin(pg_current_snapshot())
    order by e.position, e.conversation_id, e.sequence
    limit p_limit
  loop
    v_count := v_count + 1;
    shown := exists (
      select from signalbox.conversation c
      where c.id = v_event.conversation_id and (p_user is null or c.participant = p_user)
        and (p_agent is null or c.agent_id = p_agent));
    v_bytes := v_bytes + case when shown then octet_length(v_event.data) else 0 end;
    more := v_count = p_limit or v_bytes >= p_bytes;
    place := v_event.position || '.' || v_event.conversation_id || '.' || v_event.sequence;
    conversation_id := v_event.conversation_id;
    sequence := v_event.sequence;
    item_id := v_event.item_id;
    revision := v_event.revision;
    type := v_event.type;
    run_id := v_event.run_id;
    turn_id := v_event.turn_id;
    trace_id := v_event.trace_id;
    generation := v_event.generation;
    data := case when shown then v_event.data end;
    at := v_event.at;
    return next;
    exit when more;
  end loop;
end $$;
