-- What readers see: the one place where events get their number, the items of a run as they are visible now, pages of
-- the log, and conversations that are found by their words. The feed over all conversations has its events in the order
-- of their transactions, read only below the oldest transaction that is still open, so that one that commits late is
-- never skipped. Its place is (position, conversation, sequence).

-- As the event language counts, in UTF-16 units.
create function signalbox.utf16_length(p_text text) returns integer
language sql immutable parallel safe
return char_length(p_text) + regexp_count(p_text, E'[\U00010000-\U0010FFFF]');

-- An id of ours for what the record itself makes.
create function signalbox.new_id(p_prefix text) returns text
language sql volatile parallel safe
return p_prefix || '_' || lpad(to_hex(signalbox.unix_ms(signalbox.clock())), 12, '0') || '7'
  || substr(replace(gen_random_uuid()::text, '-', ''), 14);

-- What follows from an event for whoever wants to be told of it; its tables come later, and a release that is at work
-- meanwhile must find it.
create function signalbox.owe_deliveries(p_event signalbox.event) returns void
language plpgsql as $$
begin
  return;
end $$;

create or replace function signalbox.write_event(p_run signalbox.run, p_generation bigint, p_step integer, p_item text,
                                                 p_type text, p_data json) returns bigint
language plpgsql as $$
declare
  v_sequence bigint;
  v_position xid8;
  v_event signalbox.event;
begin
  update signalbox.conversation set last_sequence = last_sequence + 1, updated_at = signalbox.clock(),
    last_position = greatest(last_position, pg_current_xact_id())
  where id = p_run.conversation_id
  returning last_sequence, last_position into strict v_sequence, v_position;
  insert into signalbox.event (tenant_id, conversation_id, sequence, item_id, revision, type, run_id, trace_id,
                               generation, data, at, position)
  values (p_run.tenant_id, p_run.conversation_id, v_sequence, p_item, signalbox.revision(p_generation, p_step), p_type,
          p_run.id, p_run.trace_id, p_generation, p_data, signalbox.clock(), v_position)
  returning * into v_event;
  -- What a tenant's own systems may be told of.
  if p_type in ('run.suspended', 'run.resumed', 'run.finished', 'hold.opened', 'hold.decided', 'hold.expired',
                'hold.withdrawn', 'tool.finished') then
    perform signalbox.owe_deliveries(v_event);
  end if;
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

-- What readers see of an item now, or null when it was taken back.
create function signalbox.visible_text(p_run signalbox.run, p_item text) returns text
language plpgsql as $$
declare
  v_row record;
  v_generation bigint;
  v_text text := '';
begin
  select e.type, e.revision, e.data into strict v_row from signalbox.event e
  where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.item_id = p_item
  order by e.revision desc, e.sequence desc limit 1;
  if v_row.type not like '%.delta' then
    return v_row.data::json ->> 'text';
  end if;
  v_generation := v_row.revision / 1048576;
  for v_row in
    select (e.data::json ->> 'offset')::integer as place, e.data::json ->> 'text' as part from signalbox.event e
    where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.item_id = p_item
      and e.type like '%.delta' and e.revision / 1048576 = v_generation
    order by e.revision, e.sequence
  loop
    -- A part that a lost reply brought in twice is seen once.
    if v_row.place = signalbox.utf16_length(v_text) then
      v_text := v_text || v_row.part;
    end if;
  end loop;
  return v_text;
end $$;

-- The items of a run that readers see: those that were not taken back, each with its newest row.
create function signalbox.visible_items(p_run signalbox.run)
returns table (item_id text, kind text, is_open boolean, data text, first_sequence bigint, last_sequence bigint)
language plpgsql as $$
begin
  return query
  select newest.item_id, split_part(newest.type, '.', 1), newest.type like '%.delta', newest.data,
         newest.first_sequence, newest.sequence
  from (select distinct on (e.item_id) e.item_id, e.type, e.data, e.sequence,
               min(e.sequence) over (partition by e.item_id) as first_sequence
        from signalbox.event e
        where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.run_id = p_run.id
          and e.type in ('text.delta', 'text.completed', 'text.retracted', 'thinking.delta', 'thinking.completed')
        order by e.item_id, e.revision desc, e.sequence desc) as newest
  where newest.type <> 'text.retracted';
end $$;

-- Closes what an unowned run still shows as open, and answers the text that was written last.
create function signalbox.close_items(p_run signalbox.run, p_generation bigint) returns text
language plpgsql as $$
declare
  v_item record;
  v_text text;
  v_answer text;
begin
  for v_item in select i.* from signalbox.visible_items(p_run) i order by i.first_sequence loop
    v_text := signalbox.visible_text(p_run, v_item.item_id);
    if v_item.is_open then
      perform signalbox.write_event(p_run, p_generation, 1048575, v_item.item_id, v_item.kind || '.completed',
        json_build_object('text', v_text));
    end if;
    if v_item.kind = 'text' then
      v_answer := v_text;
    end if;
  end loop;
  return case when btrim(v_answer) = '' then null else v_answer end;
end $$;

-- Items of this run that were said to their end and are still visible.
create function signalbox.closed_items(p_run signalbox.run) returns json
language plpgsql as $$
begin
  return (
    select coalesce(json_agg(json_build_object('itemId', i.item_id, 'kind', i.kind,
                                               'text', i.data::json ->> 'text') order by i.last_sequence), '[]')
    from signalbox.visible_items(p_run) i where not i.is_open);
end $$;

-- Takes back what readers still see of a run that ends without an answer.
create function signalbox.retract_items(p_run signalbox.run, p_generation bigint, p_cause text) returns void
language plpgsql as $$
begin
  perform signalbox.write_event(p_run, p_generation, 1048575, i.item_id, 'text.retracted',
                                json_build_object('cause', p_cause))
  from signalbox.visible_items(p_run) i;
end $$;

-- Where the log of a conversation begins and ends, and whether an era was opened since the conversation began, so that
-- places of it may have been lost. No row when the viewer may not see it.
create function signalbox.event_place(p_tenant text, p_user text, p_conversation text)
returns table (last_sequence bigint, kept_sequence bigint, replaced boolean)
language plpgsql as $$
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  return query
    select c.last_sequence, c.kept_sequence,
           exists (select from signalbox.era e where e.opened_at >= c.created_at)
    from signalbox.conversation c
    where c.id = p_conversation and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
end $$;

-- The log after a cursor, up to a number of rows and about a number of bytes: a reader that is slow holds a page. The
-- last row says whether there may be more.
create function signalbox.read_page(p_tenant text, p_user text, p_conversation text, p_after bigint, p_limit integer,
                                    p_bytes integer)
returns table (sequence bigint, item_id text, revision bigint, type text, run_id text, turn_id text, trace_id text,
               generation bigint, data text, at timestamptz, more boolean)
language plpgsql as $$
declare
  v_count integer := 0;
  v_bytes integer := 0;
begin
  if signalbox.event_head(p_tenant, p_user, p_conversation) is null then
    return;
  end if;
  for sequence, item_id, revision, type, run_id, turn_id, trace_id, generation, data, at in
    select e.sequence, e.item_id, e.revision, e.type, e.run_id, e.turn_id, e.trace_id, e.generation, e.data, e.at
    from signalbox.event e
    where e.conversation_id = p_conversation and e.tenant_id = p_tenant and e.sequence > p_after
    order by e.sequence
    limit p_limit
  loop
    v_count := v_count + 1;
    v_bytes := v_bytes + octet_length(data);
    more := v_count = p_limit or v_bytes >= p_bytes;
    return next;
    exit when more;
  end loop;
end $$;

-- The feed of a tenant after a place, up to a number of rows and about a number of bytes, without what the viewer or the
-- agent that is asked for leaves out: such a row comes without its event, as the place to go on from. The last row says
-- whether there may be more. A place that a later era has given out anew is lost, and one that retention has passed is
-- expired; `p_era` null begins with the oldest event that is kept, whatever was before it.
create function signalbox.read_feed(p_tenant text, p_user text, p_agent text, p_era integer, p_position xid8,
                                    p_after text, p_sequence bigint, p_limit integer, p_bytes integer)
returns table (place text, conversation_id text, sequence bigint, item_id text, revision bigint, type text, run_id text,
               turn_id text, trace_id text, generation bigint, data text, at timestamptz, shown boolean, more boolean)
language plpgsql as $$
declare
  v_event signalbox.event;
  v_era integer;
  v_count integer := 0;
  v_bytes integer := 0;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  if exists (select from signalbox.era a where a.number > p_era and a.position <= p_position) then
    raise exception using errcode = 'SB001', message = 'cursor_lost';
  end if;
  v_era := coalesce((select s.era from signalbox.store_identity s), 1);
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
    place := v_era || '.' || v_event.position || '.' || v_event.conversation_id || '.' || v_event.sequence;
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
  -- Not before the rows were read: what went meanwhile is missing among them.
  if p_era is not null and exists (
       select from signalbox.feed_horizon h
       where h.tenant_id = p_tenant
         and (h.position, h.conversation_id, h.sequence) > (p_position, p_after, p_sequence))
  then
    raise exception using errcode = 'SB001', message = 'cursor_expired';
  end if;
end $$;

-- What is searched: the words of a text and the tenant as a word of its own, which no text can hold, so that one index
-- leads to the matches of one tenant without passing those of others.
create function signalbox.search_vector(p_tenant text, p_text text) returns tsvector
language sql immutable parallel safe
return to_tsvector('simple'::regconfig, left(p_text, 100000)) || array_to_tsvector(array[chr(1) || p_tenant]);
create index message_search on signalbox.message using gin (signalbox.search_vector(tenant_id, text));
create index conversation_search on signalbox.conversation using gin (signalbox.search_vector(tenant_id, title))
  where title is not null;

-- Every word of the text as the beginning of a word; null when it has none.
create function signalbox.search_query(p_tenant text, p_text text) returns tsquery
language sql stable parallel safe
return (
  select (string_agg('''' || replace(replace(word.lexeme, '\', '\\'), '''', '''''') || ''':*', ' & ')
          || ' & ''' || chr(1) || replace(replace(p_tenant, '\', '\\'), '''', '''''') || '''')::tsquery
  from unnest(to_tsvector('simple'::regconfig, p_text)) as word);

-- A page of conversations whose title or messages have all these words. Few matches are looked up and sorted; of many,
-- the next conversations are tried one by one, which is quick because many match. The caller bounds the statement.
-- Called as `signalbox_run`: under a tenant's policy the index could not be used, so the tenant stands in each condition.
create function signalbox.find_conversations(
  p_tenant text, p_user text, p_archived boolean, p_agent text, p_text text, p_after text, p_descending boolean,
  p_limit integer) returns text[]
language plpgsql stable as $$
declare
  v_few constant integer := 5000;
  v_query tsquery := signalbox.search_query(p_tenant, p_text);
  v_few_ids text[];
  v_found text[] := '{}';
  v_id text;
begin
  if v_query is null then
    return v_found;
  end if;
  v_few_ids := array(
    (select m.conversation_id from signalbox.message m
     where m.tenant_id = p_tenant and signalbox.search_vector(m.tenant_id, m.text) @@ v_query limit v_few)
    union all
    (select c.id from signalbox.conversation c
     where c.tenant_id = p_tenant and c.title is not null
       and signalbox.search_vector(c.tenant_id, c.title) @@ v_query limit v_few));
  -- Planned anew for what is asked, in the direction of an index.
  for v_id in execute format(
    'select c.id from signalbox.conversation c
     where c.tenant_id = $1 and c.deleted_at is null
       and ($2 is null or c.participant = $2)
       and ($3 is null or (c.archived_at is not null) = $3)
       and ($4 is null or c.agent_id = $4)
       and ($5 is null or c.id %s $5)
       and ($6 or c.id = any ($7))
     order by c.id %s', case when p_descending then '<' else '>' end, case when p_descending then 'desc' else 'asc' end)
    using p_tenant, p_user, p_archived, p_agent, p_after, cardinality(v_few_ids) >= v_few, v_few_ids
  loop
    if cardinality(v_few_ids) < v_few
       or exists (select from signalbox.conversation c
                  where c.id = v_id and signalbox.search_vector(c.tenant_id, c.title) @@ v_query)
       or exists (select from signalbox.message m
                  where m.conversation_id = v_id and signalbox.search_vector(m.tenant_id, m.text) @@ v_query) then
      v_found := v_found || v_id;
      exit when cardinality(v_found) >= p_limit;
    end if;
  end loop;
  return v_found;
end $$;
