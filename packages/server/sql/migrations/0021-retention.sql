-- What the record forgets, and when. Events go per conversation, oldest first; the texts of an answer's parts go as soon
-- as its closing row has the whole; keys and slots go by age. Every function takes a bounded batch and answers how much
-- it did; less than the bound means that nothing is left for now. No batch waits for a row that somebody holds.

-- The oldest cursor that still works: events before it are gone. The event of this sequence stands, as its anchor.
alter table signalbox.conversation add column kept_sequence bigint not null default 0;

-- What is left of a run's part of the log: everything; closing rows with the parts emptied; nothing to speak of.
alter table signalbox.run add column log_kept text not null default 'whole' check (log_kept in ('whole', 'closed', 'gone'));
create index run_log_whole on signalbox.run (finished_at) where log_kept = 'whole' and finished_at is not null;
create index run_log_kept on signalbox.run (finished_at) where log_kept <> 'gone' and finished_at is not null;
create index idempotency_age on signalbox.idempotency (created_at);
create index slot_age on signalbox.slot (created_at);

create table signalbox.upkeep (
  singleton boolean primary key default true check (singleton),
  next_at   timestamptz not null default signalbox.clock()
);
alter table signalbox.upkeep enable row level security;
alter table signalbox.upkeep force row level security;
create policy run_side on signalbox.upkeep to signalbox_run using (true) with check (true);

grant select, insert, update on signalbox.upkeep to signalbox_run;
grant delete, update (data) on signalbox.event to signalbox_run;
grant select, delete, update on signalbox.idempotency to signalbox_run;

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
