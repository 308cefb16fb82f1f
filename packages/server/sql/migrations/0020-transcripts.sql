-- A transcript belongs to the runtime that wrote it, and its tail to the generation that holds the run. What no turn
-- can continue from any more is removed, not marked, so that nothing reads past it.

-- Whether the finalized transcript was written by another runtime than the run's.
create function signalbox.leaf_is_foreign(p_run signalbox.run) returns boolean
language plpgsql as $$
begin
  return (select c.leaf_entry is not null and c.leaf_runtime <> p_run.runtime
          from signalbox.conversation c where c.id = p_run.conversation_id) is true;
end $$;

-- The rung as the transcript sees it: behind another runtime's entries every turn begins a chain of its own, also one
-- that was continued after a crash.
create function signalbox.transcript_rung(p_run signalbox.run, p_rung text) returns text
language plpgsql as $$
begin
  return case when signalbox.leaf_is_foreign(p_run) then 'rebuilt' else p_rung end;
end $$;

-- Where the readable transcript begins and ends, for the owner the slot is bound to. Another runtime's entries are not
-- read.
create or replace function signalbox.transcript_head(p_token_hash text) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
  v_foreign boolean;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  v_foreign := signalbox.leaf_is_foreign(v_run);
  return (select json_build_object('conversationId', c.id, 'generation', v_run.generation,
                                   'after', case when v_foreign then c.leaf_position else 0 end,
                                   'leafPosition', c.leaf_position,
                                   'leafDigest', case when not v_foreign then encode(c.leaf_digest, 'hex') end)
          from signalbox.conversation c where c.id = v_run.conversation_id);
end $$;

-- One page of what a generation may continue from. At least one entry, then as many as fit. Another runtime's entries are
-- passed over here as well: a gate of the first release begins at the beginning.
create or replace function signalbox.load_transcript(p_conversation text, p_generation bigint, p_after bigint,
                                                     p_page_bytes bigint)
returns table ("position" bigint, kind text, entry_id text, stream text, body bytea, digest bytea)
language plpgsql as $$
declare
  v_run signalbox.run;
  v_after bigint := p_after;
begin
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state in ('admitted', 'running', 'suspended', 'finalizing');
  if found and signalbox.leaf_is_foreign(v_run) then
    v_after := greatest(p_after, (select c.leaf_position from signalbox.conversation c where c.id = p_conversation));
  end if;
  return query
    select page.position, page.kind, page.entry_id, page.stream, page.body, page.digest
    from (
      select t.position, t.kind, t.entry_id, t.stream, t.body, t.digest,
             sum(octet_length(t.body)) over (order by t.position) - octet_length(t.body) as before_bytes
      from (
        select e.position, e.kind, e.entry_id, e.stream, e.body, e.digest
        from signalbox.transcript_entry e join signalbox.conversation c on c.id = e.conversation_id
        where e.conversation_id = p_conversation and e.position > v_after and not e.cut
          and (e.position <= c.leaf_position or e.generation = p_generation)
        order by e.position
        limit 256) as t) as page
    where page.before_bytes < p_page_bytes
    order by page.position;
end $$;

-- What the next turn finds of this one's transcript. What it cannot continue from is deleted: each entry once, by the turn
-- that leaves it behind.
create or replace function signalbox.settle_transcript(
  p_conversation text, p_generation bigint, p_continuity text, p_rung text, p_leaf text, p_digest bytea) returns void
language plpgsql as $$
declare
  v_leaf_position bigint;
  v_end bigint;
begin
  select c.leaf_position into strict v_leaf_position from signalbox.conversation c where c.id = p_conversation;
  select greatest(max(t.position), v_leaf_position) into v_end
  from signalbox.transcript_entry t where t.conversation_id = p_conversation;
  if p_continuity = 'broken' or (p_continuity = 'moved' and p_rung = 'rebuilt') then
    delete from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and (p_continuity = 'broken' or t.generation <> p_generation);
  else
    -- Only what stands behind the leaf is looked at, however long the transcript is.
    delete from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and t.position > v_leaf_position and
      (p_continuity = 'kept' or t.generation <> p_generation);
  end if;
  if p_continuity = 'moved' then
    update signalbox.conversation
    set leaf_entry = p_leaf, leaf_position = v_end, leaf_digest = p_digest
    where id = p_conversation;
  elsif p_continuity = 'broken' then
    update signalbox.conversation set leaf_entry = null, leaf_digest = null where id = p_conversation;
  end if;
  -- Of states, only the newest of each stream below the leaf is worth keeping.
  delete from signalbox.transcript_entry t
  where t.conversation_id = p_conversation and t.kind = 'state'
    and exists (select from signalbox.transcript_entry n
                where n.conversation_id = p_conversation and n.kind = 'state' and n.stream = t.stream
                  and n.position > t.position and not n.cut);
end $$;

-- A transcript of this turn that an earlier generation left, in the order it was appended.
create function signalbox.orphaned_generation(p_conversation text, p_generation bigint) returns bigint
language plpgsql as $$
begin
  return (
    select max(t.generation)
    from signalbox.conversation c join signalbox.transcript_entry t
      on t.conversation_id = c.id and t.position > c.leaf_position
    where c.id = p_conversation and not t.cut and t.generation < p_generation);
end $$;

-- Makes the tail this generation's. Whoever wrote it is refused by the fence, before this statement and after it, so
-- nothing is added to what is counted here. Answers the tail's last entry of the main stream, or null. Repeated, it
-- answers the same: no session is opened in between, so what this generation has behind the leaf is what it adopted.
create function signalbox.adopt_transcript(p_run signalbox.run, p_generation bigint) returns text
language plpgsql as $$
declare
  v_position bigint;
  v_from bigint := signalbox.orphaned_generation(p_run.conversation_id, p_generation);
  v_leaf text;
  v_count bigint;
begin
  select c.leaf_position into strict v_position from signalbox.conversation c
  where c.id = p_run.conversation_id for no key update;
  if v_from is not null and not exists (
       select from signalbox.transcript_entry t
       where t.conversation_id = p_run.conversation_id and t.position > v_position and t.generation = p_generation)
  then
    update signalbox.transcript_entry t set generation = p_generation
    where t.conversation_id = p_run.conversation_id and t.position > v_position and t.generation = v_from
      and not t.cut;
    get diagnostics v_count = row_count;
    perform signalbox.audit(p_run.tenant_id, 'transcript_adopted', p_run.actor, p_run.conversation_id, p_run.id,
      p_generation, '{"entryCount":' || v_count || ',"fromGeneration":' || v_from || '}');
  end if;
  select t.entry_id into v_leaf from signalbox.transcript_entry t
  where t.conversation_id = p_run.conversation_id and t.position > v_position and t.generation = p_generation
    and t.stream = '' and not t.cut
  order by t.position desc limit 1;
  return v_leaf;
end $$;

-- What was adopted cannot be continued: the turn is run again without it. Deleted, not marked: an entry that is marked
-- would still stand in the way of its own id, appended again by the same generation.
create function signalbox.drop_tail(p_conversation text, p_generation bigint) returns json
language plpgsql as $$
declare
  v_position bigint;
begin
  if not signalbox.hold_shared(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'drop_tail');
    return json_build_object('code', 'stale_generation');
  end if;
  perform from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation for no key update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  select c.leaf_position into strict v_position from signalbox.conversation c
  where c.id = p_conversation for no key update;
  delete from signalbox.transcript_entry t
  where t.conversation_id = p_conversation and t.position > v_position and t.generation = p_generation;
  return json_build_object('kind', 'dropped');
end $$;

-- Appends behind an entry of this generation, or behind the leaf: what stands behind it is deleted in the same
-- transaction, so that its ids can be appended again.
create function signalbox.append_behind(p_token_hash text, p_behind text, p_kinds text[], p_entries text[],
                                        p_streams text[], p_bodies bytea[]) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
  v_position bigint;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  perform from signalbox.conversation c where c.id = v_run.conversation_id for no key update;
  select t.position into v_position
  from signalbox.conversation c join signalbox.transcript_entry t on t.conversation_id = c.id
  where c.id = v_run.conversation_id and t.stream = '' and t.entry_id = p_behind and not t.cut
    and ((t.position > c.leaf_position and t.generation = v_run.generation)
         or (t.position <= c.leaf_position and t.entry_id = c.leaf_entry))
  order by t.position desc limit 1;
  if not found then
    return json_build_object('code', 'transcript_corrupt');
  end if;
  delete from signalbox.transcript_entry t
  where t.conversation_id = v_run.conversation_id and t.position > v_position and t.generation = v_run.generation;
  return signalbox.append_transcript(p_token_hash, p_kinds, p_entries, p_streams, p_bodies);
end $$;

-- Entries that are marked as cut: what an earlier release left. What stands behind the leaf of a conversation whose run
-- is open belongs to the run.
create function signalbox.prune_transcripts(p_limit integer) returns integer
language plpgsql as $$
declare
  v_count integer;
begin
  delete from signalbox.transcript_entry t
  using (
    select e.conversation_id, e.position
    from signalbox.transcript_entry e join signalbox.conversation c on c.id = e.conversation_id
    where e.cut and (e.position <= c.leaf_position or not exists (
      select from signalbox.run r
      where r.conversation_id = e.conversation_id
        and r.state in ('admitted', 'running', 'suspended', 'finalizing')))
    order by e.conversation_id, e.position limit p_limit
    for update of e skip locked) as gone
  where t.conversation_id = gone.conversation_id and t.position = gone.position;
  get diagnostics v_count = row_count;
  return v_count;
end $$;

-- Entries come and go at the ends of a transcript. A scan of an index by itself marks what is gone and passes over it the
-- next time; one by way of a bitmap never does, and reads everything that was ever deleted until a vacuum comes by. Which
-- of them the planner takes depends on when it last counted, so it is not asked.
do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select p.oid::regprocedure from pg_proc p
    where p.pronamespace = 'signalbox'::regnamespace and p.proname in (
      'append_transcript', 'append_behind', 'load_transcript', 'transcript_tip', 'settle_transcript',
      'orphaned_generation', 'adopt_transcript', 'drop_tail')
  loop
    execute format('alter function %s set enable_bitmapscan = off', v_function);
    execute format('alter function %s set enable_seqscan = off', v_function);
  end loop;
end $$;
