-- What an engine has compacted it reads no more. The turn in which it did so leaves the rest behind when it becomes true,
-- so that a session which is opened later loads what its model reads.

-- On the entry that the engine began anew with: entries of the turns before that it still reads.
alter table signalbox.transcript_entry add column kept_entry_ids text[];

-- Of the main stream, what is kept of the turns before if this turn becomes true; null when everything is.
create function signalbox.kept_by_compaction(p_conversation text, p_generation bigint) returns text[]
language plpgsql as $$
declare
  v_leaf_position bigint;
begin
  -- Apart, so that it bounds the search: from the end, no further than the leaf.
  select c.leaf_position into strict v_leaf_position from signalbox.conversation c where c.id = p_conversation;
  return (
    select t.kept_entry_ids
    from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and t.position > v_leaf_position and t.generation = p_generation
      and t.stream = '' and t.kept_entry_ids is not null and not t.cut
    order by t.position desc limit 1);
end $$;

create function signalbox.append_compacted(
  p_token_hash text, p_behind text, p_entry text, p_kept text[], p_kinds text[], p_entries text[], p_streams text[],
  p_bodies bytea[]) returns json
language plpgsql as $$
declare
  v_answer json;
  v_run signalbox.run;
begin
  v_answer := case when p_behind is null
    then signalbox.append_transcript(p_token_hash, p_kinds, p_entries, p_streams, p_bodies)
    else signalbox.append_behind(p_token_hash, p_behind, p_kinds, p_entries, p_streams, p_bodies) end;
  if v_answer ->> 'code' is not null then
    return v_answer;
  end if;
  v_run := (signalbox.enter_gate(p_token_hash, null)).run;
  update signalbox.transcript_entry t set kept_entry_ids = p_kept
  from signalbox.conversation c
  where c.id = v_run.conversation_id and t.conversation_id = c.id and t.stream = '' and t.entry_id = p_entry
    and t.generation = v_run.generation and t.position > c.leaf_position and not t.cut;
  if not found then
    raise exception using errcode = 'SB001', message = 'transcript_corrupt';
  end if;
  return v_answer;
end $$;

-- As before; behind a compaction the chain begins with what is kept of the turns before, not with their digest.
create or replace function signalbox.transcript_tip(p_conversation text, p_generation bigint, p_rung text,
                                                    out leaf text, out digest bytea)
language plpgsql as $$
declare
  v_entry record;
  v_chain bytea;
  v_leaf_position bigint;
  v_own boolean := false;
  v_kept text[] := case when p_rung is distinct from 'rebuilt'
                        then signalbox.kept_by_compaction(p_conversation, p_generation) end;
begin
  select c.leaf_entry, c.leaf_digest, c.leaf_position into strict leaf, digest, v_leaf_position
  from signalbox.conversation c where c.id = p_conversation;
  v_chain := case when p_rung = 'rebuilt' or v_kept is not null then signalbox.chain_start()
                  else coalesce(digest, signalbox.chain_start()) end;
  if v_kept is not null then
    for v_entry in
      select t.entry_id, t.digest
      from signalbox.transcript_entry t
      where t.conversation_id = p_conversation and t.stream = '' and t.entry_id = any (v_kept) and t.kind = 'item'
        and t.position <= v_leaf_position and not t.cut
      order by t.position
    loop
      v_chain := sha256(v_chain || convert_to(v_entry.entry_id, 'UTF8') || v_entry.digest);
    end loop;
  end if;
  for v_entry in
    select t.entry_id, t.kind, t.digest
    from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and t.position > v_leaf_position and t.generation = p_generation
      and t.stream = '' and not t.cut
    order by t.position
  loop
    v_own := true;
    leaf := v_entry.entry_id;
    if v_entry.kind = 'item' then
      v_chain := sha256(v_chain || convert_to(v_entry.entry_id, 'UTF8') || v_entry.digest);
    end if;
  end loop;
  if v_own then
    digest := v_chain;
  end if;
end $$;

-- As before; what the engine no longer reads goes with the turn that compacted it.
create or replace function signalbox.settle_transcript(
  p_conversation text, p_generation bigint, p_continuity text, p_rung text, p_leaf text, p_digest bytea) returns void
language plpgsql as $$
declare
  v_leaf_position bigint;
  v_end bigint;
  v_kept text[] := case when p_continuity = 'moved' and p_rung is distinct from 'rebuilt'
                        then signalbox.kept_by_compaction(p_conversation, p_generation) end;
begin
  select c.leaf_position into strict v_leaf_position from signalbox.conversation c where c.id = p_conversation;
  select greatest(max(t.position), v_leaf_position) into v_end
  from signalbox.transcript_entry t where t.conversation_id = p_conversation;
  if p_continuity = 'broken' or (p_continuity = 'moved' and p_rung = 'rebuilt') then
    delete from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and (p_continuity = 'broken' or t.generation <> p_generation);
  else
    -- Only what stands behind the leaf is looked at, however long the transcript is; in its order, so that no plan takes
    -- another index for as cheap.
    delete from signalbox.transcript_entry d
    where d.ctid = any (array(
      select t.ctid from signalbox.transcript_entry t
      where t.conversation_id = p_conversation and t.position > v_leaf_position and
        (p_continuity = 'kept' or t.generation <> p_generation)
      order by t.position));
  end if;
  if v_kept is not null then
    delete from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and t.position <= v_leaf_position and t.stream = '' and t.kind = 'item'
      and t.entry_id <> all (v_kept);
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

-- What these functions were told of plans is not kept by their replacement.
do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select p.oid::regprocedure from pg_proc p
    where p.pronamespace = 'signalbox'::regnamespace
      and p.proname in ('kept_by_compaction', 'append_compacted', 'transcript_tip', 'settle_transcript')
  loop
    execute format('alter function %s set enable_bitmapscan = off', v_function);
    execute format('alter function %s set enable_seqscan = off', v_function);
  end loop;
end $$;
