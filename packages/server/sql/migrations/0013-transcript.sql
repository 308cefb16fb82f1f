-- Transcript entries, through the record gate.

-- Appends under the bound generation; an id that its reader can see already changes nothing. A cancelled run may still
-- write down how it was interrupted; after the seal nothing is appended.
create function signalbox.append_transcript(p_token_hash text, p_kinds text[], p_entries text[], p_streams text[],
                                            p_bodies bytea[]) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
  v_leaf text;
  v_leaf_position bigint;
  v_last bigint;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  select c.leaf_entry, c.leaf_position into strict v_leaf, v_leaf_position
  from signalbox.conversation c where c.id = v_run.conversation_id for no key update;
  select greatest(coalesce(max(t.position), 0), v_leaf_position) into v_last
  from signalbox.transcript_entry t where t.conversation_id = v_run.conversation_id;
  insert into signalbox.transcript_entry (tenant_id, conversation_id, position, generation, stream, entry_id, kind, body,
                                          digest)
  select v_run.tenant_id, v_run.conversation_id, v_last + n.place, v_run.generation, n.stream, n.entry, n.kind, n.body,
         sha256(n.body)
  from unnest(p_kinds, p_entries, p_streams, p_bodies) with ordinality as n(kind, entry, stream, body, place)
  -- Asked for each entry by its id, never by reading what is there: the transcript may be long.
  where (select true from signalbox.transcript_entry t
         where t.conversation_id = v_run.conversation_id and t.stream = n.stream and t.entry_id = n.entry and not t.cut
           and t.position + 0 <= v_leaf_position
         limit 1) is null
  on conflict do nothing;
  select t.entry_id into v_leaf from signalbox.transcript_entry t
  where t.conversation_id = v_run.conversation_id and t.position > v_leaf_position
    and t.generation = v_run.generation and t.stream = ''
  order by t.position desc limit 1;
  if not found then
    select c.leaf_entry into v_leaf from signalbox.conversation c where c.id = v_run.conversation_id;
  end if;
  return json_build_object('leaf', v_leaf);
end $$;

-- Where the readable transcript ends, for the owner the slot is bound to.
create function signalbox.transcript_head(p_token_hash text) returns json
language plpgsql as $$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  return (select json_build_object('conversationId', c.id, 'generation', v_run.generation,
                                   'leafPosition', c.leaf_position, 'leafDigest', encode(c.leaf_digest, 'hex'))
          from signalbox.conversation c where c.id = v_run.conversation_id);
end $$;

-- One page of what a generation may continue from. At least one entry, then as many as fit.
create function signalbox.load_transcript(p_conversation text, p_generation bigint, p_after bigint, p_page_bytes bigint)
returns table ("position" bigint, kind text, entry_id text, stream text, body bytea, digest bytea)
language plpgsql as $$
begin
  return query
    select page.position, page.kind, page.entry_id, page.stream, page.body, page.digest
    from (
      select t.position, t.kind, t.entry_id, t.stream, t.body, t.digest,
             sum(octet_length(t.body)) over (order by t.position) - octet_length(t.body) as before_bytes
      from (
        select e.position, e.kind, e.entry_id, e.stream, e.body, e.digest
        from signalbox.transcript_entry e join signalbox.conversation c on c.id = e.conversation_id
        where e.conversation_id = p_conversation and e.position > p_after and not e.cut
          and (e.position <= c.leaf_position or e.generation = p_generation)
        order by e.position
        limit 256) as t) as page
    where page.before_bytes < p_page_bytes
    order by page.position;
end $$;
