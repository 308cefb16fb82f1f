-- What the record forgets, and when. Events go per conversation, oldest first; the texts of an answer's parts go as
-- soon as its closing row has the whole; keys and slots go by age; what was said in a deleted conversation goes as soon
-- as nothing of it is active. Every function takes a bounded batch and answers how much it did; less than the bound
-- means that nothing is left for now. No batch waits for a row that somebody holds.

-- True for one of all the processes that ask within `p_every_ms`.
create function signalbox.begin_upkeep(p_every_ms bigint) returns boolean
language plpgsql as $$
begin
  insert into signalbox.upkeep default values on conflict do nothing;
  update signalbox.upkeep set next_at = signalbox.clock() + make_interval(secs => p_every_ms / 1000.0)
  where next_at <= signalbox.clock();
  return found;
end $$;

-- Empties the parts of items that a later row closed whole. The row stays: its sequence keeps its place, and a part
-- that says nothing from the beginning is harmless to every reader.
create function signalbox.empty_parts(p_limit integer) returns integer
language plpgsql as $$
declare
  v_run record;
  v_last bigint;
  v_count integer;
  v_done integer := 0;
begin
  for v_run in
    select r.id, r.conversation_id, r.cursor from signalbox.run r
    where r.log_kept = 'whole' and r.finished_at is not null
    order by r.finished_at limit p_limit
    for update skip locked
  loop
    select e.sequence into v_last from signalbox.event e where e.run_id = v_run.id and e.type = 'run.finished';
    with closed as materialized (
      select e.item_id, max(e.sequence) as sequence from signalbox.event e
      where e.conversation_id = v_run.conversation_id and e.sequence > v_run.cursor and e.sequence < v_last
        and e.run_id = v_run.id and e.type in ('text.completed', 'thinking.completed', 'text.retracted')
      group by e.item_id
    ), part as materialized (
      select e.sequence from signalbox.event e
      join closed on closed.item_id = e.item_id and closed.sequence > e.sequence
      where e.conversation_id = v_run.conversation_id and e.sequence > v_run.cursor and e.sequence < v_last
        and e.run_id = v_run.id and e.type in ('text.delta', 'thinking.delta')
        and e.data <> '{"offset":0,"text":""}'
      order by e.sequence limit p_limit - v_done
    )
    update signalbox.event e set data = '{"offset":0,"text":""}'
    from part where e.conversation_id = v_run.conversation_id and e.sequence = part.sequence;
    get diagnostics v_count = row_count;
    v_done := v_done + v_count;
    exit when v_done >= p_limit;
    update signalbox.run set log_kept = 'closed' where id = v_run.id;
    v_done := v_done + 1;
    exit when v_done >= p_limit;
  end loop;
  return v_done;
end $$;

-- Removes the events of runs that ended longer ago than `p_age_ms`, up to where the oldest run that is kept begins.
create function signalbox.expire_events(p_age_ms bigint, p_limit integer) returns integer
language plpgsql as $$
declare
  v_cutoff timestamptz := signalbox.clock() - make_interval(secs => p_age_ms / 1000.0);
  v_run record;
  v_place record;
  v_keep bigint;
  v_to bigint;
  v_count integer;
  v_done integer := 0;
begin
  -- Two at once would take the horizons of their tenants in different orders; whoever is second has nothing to do.
  if not pg_try_advisory_xact_lock(signalbox.presence_space(), -2) then
    return 0;
  end if;
  for v_run in
    select r.id, r.conversation_id from signalbox.run r
    where r.log_kept <> 'gone' and r.finished_at < v_cutoff
    order by r.finished_at limit p_limit
    for update skip locked
  loop
    select c.kept_sequence, c.last_sequence into v_place from signalbox.conversation c
    where c.id = v_run.conversation_id
    for update skip locked;
    continue when not found;
    select coalesce(min(r.cursor), v_place.last_sequence) into v_keep from signalbox.run r
    where r.conversation_id = v_run.conversation_id and (r.finished_at is null or r.finished_at >= v_cutoff);
    v_to := least(v_keep, v_place.kept_sequence + p_limit - v_done);
    if v_to > v_place.kept_sequence then
      update signalbox.conversation set kept_sequence = v_to where id = v_run.conversation_id;
      insert into signalbox.feed_horizon as h (tenant_id, position, conversation_id, sequence)
      select e.tenant_id, e.position, e.conversation_id, e.sequence from signalbox.event e
      where e.conversation_id = v_run.conversation_id and e.sequence < v_to
        and e.type not in ('text.delta', 'thinking.delta')
      order by e.sequence desc limit 1
      on conflict (tenant_id) do update
      set position = excluded.position, conversation_id = excluded.conversation_id, sequence = excluded.sequence
      where (h.position, h.conversation_id, h.sequence)
          < (excluded.position, excluded.conversation_id, excluded.sequence);
      delete from signalbox.event e where e.conversation_id = v_run.conversation_id and e.sequence < v_to;
      get diagnostics v_count = row_count;
      v_done := v_done + v_count;
    end if;
    if v_to < v_keep then
      return p_limit;
    end if;
    update signalbox.run set log_kept = 'gone' where id = v_run.id;
    v_done := v_done + 1;
    exit when v_done >= p_limit;
  end loop;
  return v_done;
end $$;

create function signalbox.prune_keys(p_age_ms bigint, p_limit integer) returns integer
language plpgsql as $$
declare
  v_count integer;
begin
  delete from signalbox.idempotency i
  using (
    select k.tenant_id, k.key from signalbox.idempotency k
    where k.created_at < signalbox.clock() - make_interval(secs => p_age_ms / 1000.0)
    order by k.created_at limit p_limit
    for update skip locked) as old
  where i.tenant_id = old.tenant_id and i.key = old.key;
  get diagnostics v_count = row_count;
  return v_count;
end $$;

-- A slot that is bound to nothing says nothing; when its engine is used again, binding makes it anew.
create function signalbox.prune_slots(p_age_ms bigint, p_limit integer) returns integer
language plpgsql as $$
declare
  v_cutoff timestamptz := signalbox.clock() - make_interval(secs => p_age_ms / 1000.0);
  v_count integer;
begin
  delete from signalbox.slot s
  using (
    select u.token_hash from signalbox.slot u
    where u.created_at < v_cutoff and u.run_id is null and (u.bound_at is null or u.bound_at < v_cutoff)
    order by u.created_at limit p_limit
    for update skip locked) as unused
  where s.token_hash = unused.token_hash;
  get diagnostics v_count = row_count;
  return v_count;
end $$;

-- Whether nothing of a conversation is active, nothing waits and no call is open. What a call that is still outside
-- brings back has a row to land in until then.
create function signalbox.is_at_rest(p_conversation text) returns boolean
language plpgsql as $$
begin
  return not exists (select from signalbox.run r
                     where r.conversation_id = p_conversation
                       and r.state in ('queued', 'admitted', 'running', 'suspended', 'finalizing'))
    and not exists (select from signalbox.run r join signalbox.model_call m on m.run_id = r.id and m.state = 'executing'
                    where r.conversation_id = p_conversation)
    and not exists (select from signalbox.run r join signalbox.tool_call t on t.run_id = r.id and t.state = 'executing'
                    where r.conversation_id = p_conversation);
end $$;

-- Makes the tombstone of a conversation at rest. Called with the ownership row locked exclusively.
create function signalbox.bury_conversation(p_conversation text) returns boolean
language plpgsql as $$
declare
  v_tenant text;
begin
  if not signalbox.is_at_rest(p_conversation) then
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
  -- Runs before their conversation, as everywhere.
  perform from signalbox.run r
  where r.conversation_id = p_conversation and r.state in ('queued', 'admitted', 'running', 'suspended')
  order by r.position for update;
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

-- Removes at most `p_limit` rows of what was said in a conversation, or empties them where who asked, what ran, what it
-- cost and the digests of what was called are to stay. Answers how many; less than the limit: nothing is left.
create function signalbox.erase_conversation(p_conversation text, p_limit integer) returns integer
language plpgsql as $$
declare
  v_left integer := p_limit;
  v_gone integer;
begin
  delete from signalbox.event e where e.conversation_id = p_conversation and e.sequence in (
    select n.sequence from signalbox.event n where n.conversation_id = p_conversation limit v_left);
  get diagnostics v_gone = row_count;
  v_left := v_left - v_gone;
  delete from signalbox.transcript_entry t where t.conversation_id = p_conversation and t.position in (
    select n.position from signalbox.transcript_entry n where n.conversation_id = p_conversation limit v_left);
  get diagnostics v_gone = row_count;
  v_left := v_left - v_gone;
  update signalbox.message m set text = '', metadata = '{}'
  where m.conversation_id = p_conversation and m.position in (
    select n.position from signalbox.message n
    where n.conversation_id = p_conversation and (n.text <> '' or n.metadata <> '{}') limit v_left);
  get diagnostics v_gone = row_count;
  v_left := v_left - v_gone;
  update signalbox.tool_call t
  set arguments = '{}', result = case when t.result is null then null else '' end, result_summary = null,
      edited_arguments = null, judgement = null, reconciliation_note = null
  where t.id in (
    select n.id from signalbox.run r join signalbox.tool_call n on n.run_id = r.id
    where r.conversation_id = p_conversation
      and (n.arguments <> '{}' or n.result <> '' or n.result_summary is not null or n.edited_arguments is not null
           or n.judgement is not null or n.reconciliation_note is not null) limit v_left);
  get diagnostics v_gone = row_count;
  v_left := v_left - v_gone;
  update signalbox.hold h set subject = '{}', response = null
  where h.id in (
    select n.id from signalbox.hold n
    where n.conversation_id = p_conversation and (n.subject <> '{}' or n.response is not null) limit v_left);
  get diagnostics v_gone = row_count;
  v_left := v_left - v_gone;
  update signalbox.run u set requested = '{}', granted = '{}'
  where u.id in (
    select r.id from signalbox.run r
    where r.conversation_id = p_conversation and (r.requested <> '{}' or r.granted <> '{}') limit v_left);
  get diagnostics v_gone = row_count;
  v_left := v_left - v_gone;
  v_left := v_left - signalbox.erase_deliveries(p_conversation, v_left);
  return p_limit - v_left;
end $$;

-- Goes on with deletions: tombstones that had to wait, and at most `p_limit` rows of what was said. Conversations that
-- cannot go yet keep no others waiting. Returns how much was done; less than the limit: nothing is left that can go.
create function signalbox.erase_deleted(p_limit integer) returns integer
language plpgsql as $$
declare
  v_leaving text;
  v_left integer := p_limit;
begin
  for v_leaving in
    select c.id from signalbox.conversation c
    where c.delete_requested_at is not null and c.erased_at is null and signalbox.is_at_rest(c.id)
    order by c.id limit p_limit
  loop
    perform from signalbox.ownership o where o.conversation_id = v_leaving for update skip locked;
    continue when not found or not signalbox.bury_conversation(v_leaving);
    -- Before its events, as whoever expires them does; a conversation that is being tidied is left for the next time.
    perform from signalbox.conversation c where c.id = v_leaving for update skip locked;
    continue when not found;
    v_left := v_left - signalbox.erase_conversation(v_leaving, v_left);
    exit when v_left <= 0;
    update signalbox.conversation set erased_at = signalbox.clock() where id = v_leaving;
    v_left := v_left - 1;
    exit when v_left <= 0;
  end loop;
  return p_limit - v_left;
end $$;
