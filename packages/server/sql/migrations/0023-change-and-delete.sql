-- Agents that change, and conversations that are put away, found again and deleted.

alter table signalbox.agent add column disabled_at timestamptz;

-- `delete_requested_at`: takes no message any more. `deleted_at`: does not exist for requests. `erased_at`: nothing of
-- what was said is left.
alter table signalbox.conversation
  add column archived_at timestamptz,
  add column delete_requested_at timestamptz,
  add column deleted_at timestamptz,
  add column erased_at timestamptz,
  add constraint conversation_deleted check (
    (deleted_at is null or delete_requested_at is not null) and (erased_at is null or deleted_at is not null));
create index conversation_listed on signalbox.conversation (tenant_id, id) where archived_at is null;
create index conversation_archived on signalbox.conversation (tenant_id, id) where archived_at is not null;
create index conversation_by_agent on signalbox.conversation (tenant_id, agent_id, id);
create index conversation_leaving on signalbox.conversation (id)
  where delete_requested_at is not null and erased_at is null;

-- Whatever a request asks, a deleted conversation is not there, nor what is read through it.
create policy not_deleted on signalbox.conversation as restrictive for select to signalbox_app
  using (deleted_at is null);

grant update on signalbox.message to signalbox_run;
grant delete on signalbox.event to signalbox_run;

-- A run is let in by the table itself, whichever statement brings it. A message takes a conversation out of the archive.
create function signalbox.accept_run() returns trigger
language plpgsql as $$
declare
  v_deleting timestamptz;
  v_archived timestamptz;
begin
  select c.delete_requested_at, c.archived_at into v_deleting, v_archived
  from signalbox.conversation c where c.id = new.conversation_id;
  if v_deleting is not null then
    raise exception using errcode = 'SB001', message = 'conversation_deleting';
  end if;
  if exists (select from signalbox.agent a where a.id = new.agent_id and a.disabled_at is not null) then
    raise exception using errcode = 'SB001', message = 'agent_disabled';
  end if;
  if v_archived is not null then
    update signalbox.conversation set archived_at = null where id = new.conversation_id;
    perform signalbox.audit(new.tenant_id, 'conversation_changed', new.actor, new.conversation_id, new.id, null,
      '{"archived":false}');
  end if;
  return new;
end $$;
create trigger run_accepted before insert on signalbox.run for each row execute function signalbox.accept_run();

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

-- Makes the tombstone once nothing is active, nothing waits and no call is open. Called with the ownership row locked
-- exclusively. What a call that is still outside brings back has a row to land in until then.
create function signalbox.bury_conversation(p_conversation text) returns boolean
language plpgsql as $$
declare
  v_tenant text;
begin
  if exists (select from signalbox.run r
             where r.conversation_id = p_conversation
               and r.state in ('queued', 'admitted', 'running', 'suspended', 'finalizing'))
     or exists (select from signalbox.run r join signalbox.model_call m on m.run_id = r.id and m.state = 'executing'
                where r.conversation_id = p_conversation)
     or exists (select from signalbox.run r join signalbox.tool_call t on t.run_id = r.id and t.state = 'executing'
                where r.conversation_id = p_conversation) then
    return false;
  end if;
  update signalbox.conversation
  set deleted_at = signalbox.clock(), title = null, metadata = '{}', leaf_entry = null, leaf_digest = null
  where id = p_conversation and delete_requested_at is not null and deleted_at is null
  returning tenant_id into v_tenant;
  if found then
    perform signalbox.audit(v_tenant, 'conversation_deleted', null, p_conversation, null, null, '{}');
  end if;
  return true;
end $$;

-- A run that ended as the last one of a conversation that is being deleted. At the end of the transaction, when its last
-- event is written. Others than the run side leave it to the upkeep: they could not see what they write.
create function signalbox.follow_ending() returns trigger
language plpgsql as $$
begin
  if current_user = 'signalbox_run' and exists (
       select from signalbox.conversation c
       where c.id = new.conversation_id and c.delete_requested_at is not null and c.deleted_at is null) then
    perform signalbox.bury_conversation(new.conversation_id);
  end if;
  return null;
end $$;
create constraint trigger run_followed after update of state on signalbox.run deferrable initially deferred for each row
  when (new.state in ('completed', 'cancelled', 'failed', 'rolled_back') and old.state is distinct from new.state)
  execute function signalbox.follow_ending();

-- Cancels whatever is active or waits, lets no message in any more, and makes the tombstone as soon as that can be.
-- Deleting again changes nothing.
create function signalbox.delete_conversation(p_tenant text, p_user text, p_conversation text, p_actor text)
returns json
language plpgsql as $$
declare
  v_conversation signalbox.conversation;
  v_run text;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  perform from signalbox.ownership o
  where o.conversation_id = p_conversation and o.tenant_id = p_tenant for update;
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  select c.* into v_conversation from signalbox.conversation c
  where c.id = p_conversation and (p_user is null or c.participant = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  if v_conversation.deleted_at is not null then
    return json_build_object('kind', 'deleted', 'sequence', v_conversation.last_sequence);
  end if;
  if v_conversation.delete_requested_at is null then
    update signalbox.conversation set delete_requested_at = signalbox.clock() where id = p_conversation;
    perform signalbox.audit(p_tenant, 'conversation_delete_requested', p_actor, p_conversation, null, null, '{}');
  end if;
  -- Those that wait come first, so that the end of the active one lets none of them in.
  for v_run in
    select r.id from signalbox.run r
    where r.conversation_id = p_conversation and r.state in ('queued', 'admitted', 'running', 'suspended')
    order by r.state <> 'queued', r.position desc
  loop
    perform signalbox.request_cancel(p_tenant, p_user, v_run, p_actor);
  end loop;
  return json_build_object(
    'kind', case when signalbox.bury_conversation(p_conversation) then 'deleted' else 'requested' end,
    'sequence', signalbox.newest(p_conversation));
end $$;

-- Goes on with deletions: tombstones that had to wait, and at most `p_limit` rows of what was said. Who asked, what ran,
-- what it cost and the digests of what was called stay. Returns how many rows went; less than the limit: nothing is left
-- that can go.
create function signalbox.erase_deleted(p_limit integer) returns integer
language plpgsql as $$
declare
  v_leaving record;
  v_left integer := p_limit;
  v_gone integer;
begin
  for v_leaving in
    select c.id from signalbox.conversation c
    where c.delete_requested_at is not null and c.erased_at is null
    order by c.id limit 100
  loop
    perform from signalbox.ownership o where o.conversation_id = v_leaving.id for update skip locked;
    continue when not found or not signalbox.bury_conversation(v_leaving.id);
    delete from signalbox.event e where e.conversation_id = v_leaving.id and e.sequence in (
      select n.sequence from signalbox.event n where n.conversation_id = v_leaving.id limit v_left);
    get diagnostics v_gone = row_count;
    v_left := v_left - v_gone;
    delete from signalbox.transcript_entry t where t.conversation_id = v_leaving.id and t.position in (
      select n.position from signalbox.transcript_entry n where n.conversation_id = v_leaving.id
      limit v_left);
    get diagnostics v_gone = row_count;
    v_left := v_left - v_gone;
    exit when v_left <= 0;
    update signalbox.message set text = '', metadata = '{}' where conversation_id = v_leaving.id;
    update signalbox.run set requested = '{}', granted = '{}' where conversation_id = v_leaving.id;
    update signalbox.tool_call t
    set arguments = '{}', result = case when t.result is null then null else '' end, result_summary = null
    from signalbox.run r where r.conversation_id = v_leaving.id and t.run_id = r.id;
    update signalbox.hold set subject = '{}', response = null where conversation_id = v_leaving.id;
    update signalbox.conversation set erased_at = signalbox.clock() where id = v_leaving.id;
  end loop;
  return p_limit - v_left;
end $$;
