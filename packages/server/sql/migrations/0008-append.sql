-- Group commit: events of many conversations, of any tenant, in one statement. An entry per conversation; its events
-- follow one another in the flat arrays. Answers the last sequence of each conversation that was written, and null for
-- each whose owner is stale. Every lock is taken in the order of ids, and never more than one batch of a process holds
-- a conversation, so two batches cannot wait for each other.
create function signalbox.append_events(
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
    update signalbox.conversation c set last_sequence = c.last_sequence + owned.count
    from owned
    where c.id = owned.conversation and c.id = any (p_conversations)
    returning c.id, c.last_sequence as last, owned.count, owned.offset_before, owned.generation, owned.run,
      owned.tenant_id, owned.trace_id
  ), written as (
    insert into signalbox.event (tenant_id, conversation_id, sequence, item_id, revision, type, run_id, turn_id,
                                 trace_id, generation, data, at)
    select counted.tenant_id, counted.id, counted.last - counted.count + n.n, p_items[counted.offset_before + n.n],
           p_revisions[counted.offset_before + n.n], p_types[counted.offset_before + n.n], counted.run,
           p_turns[counted.offset_before + n.n], counted.trace_id, counted.generation,
           p_data[counted.offset_before + n.n], signalbox.clock()
    from counted cross join lateral generate_series(1, counted.count) as n(n)
  )
  select batch.conversation, counted.last
  from batch left join counted on counted.id = batch.conversation;
end $$;

-- For a large batch: planned for its size, and without nested loops, which are quadratic over a batch. Forbidding them
-- makes the plan look expensive enough to be compiled, which must not happen either.
create function signalbox.append_group(
  p_conversations text[], p_runs text[], p_generations bigint[], p_counts integer[], p_items text[],
  p_revisions bigint[], p_types text[], p_turns text[], p_data text[])
returns table (conversation_id text, last_sequence bigint)
language plpgsql
set enable_nestloop = off
set plan_cache_mode = force_custom_plan
set jit = off
as $$
begin
  return query select e.conversation_id, e.last_sequence
    from signalbox.append_events(p_conversations, p_runs, p_generations, p_counts, p_items, p_revisions, p_types,
                                 p_turns, p_data) e;
end $$;

-- For a small one: planning would take longer than the rest. The plan is kept, so it must not be one for empty tables.
create function signalbox.append_few(
  p_conversations text[], p_runs text[], p_generations bigint[], p_counts integer[], p_items text[],
  p_revisions bigint[], p_types text[], p_turns text[], p_data text[])
returns table (conversation_id text, last_sequence bigint)
language plpgsql
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
begin
  return query select e.conversation_id, e.last_sequence
    from signalbox.append_events(p_conversations, p_runs, p_generations, p_counts, p_items, p_revisions, p_types,
                                 p_turns, p_data) e;
end $$;
