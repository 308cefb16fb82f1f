-- Webhooks: what a tenant's own systems are told of, as obligations. The row of a delivery is written in the transaction
-- of the event it tells of; whichever process has the role sends it, as often as it takes, and notes every attempt
-- before it is made and after.

create table signalbox.webhook (
  id                 text primary key,
  tenant_id          text not null check (tenant_id <> ''),
  url                text not null,
  description        text not null,
  events             text[] not null,
  -- Sealed by the platform's secret; `secret_key` says by which, so that whoever has another one leaves it alone.
  secret             bytea not null,
  secret_key         text not null,
  -- Signs beside the new one until then.
  previous_secret    bytea,
  previous_until     timestamptz,
  -- Since when nothing has arrived there.
  failing_since      timestamptz,
  disabled_at        timestamptz,
  disabled_cause     text check (disabled_cause in ('request', 'failing', 'gone')),
  created_at         timestamptz not null default signalbox.clock(),
  updated_at         timestamptz not null default signalbox.clock(),
  constraint webhook_disabled check ((disabled_at is null) = (disabled_cause is null)),
  constraint webhook_previous check ((previous_secret is null) = (previous_until is null))
);
create index webhook_tenant on signalbox.webhook (tenant_id, id);
-- Looked at by every event that may be told: empty where nobody wants to be told.
create index webhook_wants on signalbox.webhook (tenant_id) where disabled_at is null;

-- Without a foreign key to its webhook: the transactions of a busy tenant would all write to the webhook's row, and one
-- of them could fail because somebody removes a webhook. What a webhook leaves behind is removed by the upkeep.
create table signalbox.webhook_delivery (
  id              text primary key,
  tenant_id       text not null check (tenant_id <> ''),
  webhook_id      text not null,
  type            text not null,
  conversation_id text,
  run_id          text,
  -- Of the event in its conversation.
  sequence        bigint,
  -- The body as it is sent, the same on every attempt.
  payload         text not null,
  state           text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
  attempt_count   integer not null default 0,
  -- Attempts that do not count any more, since it was asked for again.
  attempt_base    integer not null default 0,
  -- When the next attempt is due, or the one that was begun is given up; null unless it is pending.
  next_at         timestamptz default signalbox.clock(),
  -- An attempt was begun and is not noted yet.
  begun           boolean not null default false,
  created_at      timestamptz not null default signalbox.clock(),
  finished_at     timestamptz,
  constraint webhook_delivery_due check ((state = 'pending') = (next_at is not null)),
  constraint webhook_delivery_finished check ((state = 'pending') = (finished_at is null))
);
create index webhook_delivery_due on signalbox.webhook_delivery (webhook_id, next_at) where next_at is not null;
create index webhook_delivery_listed on signalbox.webhook_delivery (webhook_id, id);
create index webhook_delivery_age on signalbox.webhook_delivery (finished_at) where finished_at is not null;
create index webhook_delivery_about on signalbox.webhook_delivery (conversation_id) where conversation_id is not null;

-- One row before each attempt, filled in after it; what stays empty is not known.
create table signalbox.webhook_attempt (
  delivery_id text not null references signalbox.webhook_delivery on delete cascade,
  number      integer not null,
  tenant_id   text not null check (tenant_id <> ''),
  started_at  timestamptz not null default signalbox.clock(),
  duration_ms integer,
  -- Of the answer; null when there was none.
  status      integer,
  -- Why it did not count as delivered.
  error_code  text,
  -- How the answer began.
  response    text,
  primary key (delivery_id, number)
);

do $$
declare
  v_table text;
begin
  foreach v_table in array array['webhook', 'webhook_delivery', 'webhook_attempt'] loop
    execute format('alter table signalbox.%I enable row level security', v_table);
    execute format('alter table signalbox.%I force row level security', v_table);
    execute format('create policy run_side on signalbox.%I to signalbox_run using (true) with check (true)', v_table);
    execute format(
      'create policy own_tenant on signalbox.%I to signalbox_app
         using (tenant_id = nullif(current_setting(''signalbox.tenant'', true), ''''))
         with check (tenant_id = nullif(current_setting(''signalbox.tenant'', true), ''''))', v_table);
  end loop;
end $$;
grant select, insert, update, delete on signalbox.webhook, signalbox.webhook_delivery to signalbox_app;
grant select on signalbox.webhook_attempt to signalbox_app;
grant select, update on signalbox.webhook to signalbox_run;
grant select, insert, update, delete on signalbox.webhook_delivery, signalbox.webhook_attempt to signalbox_run;

-- What is said to a receiver: what happened, and the event as the log has it. Put together as text, since nothing that
-- stands in an event may keep its transaction from committing.
create function signalbox.delivery_payload(p_delivery text, p_type text, p_event signalbox.event) returns text
language sql stable
return '{"id":' || signalbox.quoted(p_delivery)
  || ',"type":' || signalbox.quoted(p_type)
  || ',"timestamp":' || signalbox.quoted(signalbox.rfc3339(p_event.at))
  || ',"data":{"type":' || signalbox.quoted(p_event.type)
  || ',"itemId":' || signalbox.quoted(p_event.item_id)
  || ',"sequence":' || p_event.sequence
  || ',"revision":' || p_event.revision
  || ',"conversationId":' || signalbox.quoted(p_event.conversation_id)
  || ',"runId":' || signalbox.quoted(p_event.run_id)
  || ',"turnId":' || signalbox.quoted(p_event.turn_id)
  || ',"traceId":' || signalbox.quoted(p_event.trace_id)
  || ',"generation":' || p_event.generation
  || ',"at":' || signalbox.quoted(signalbox.rfc3339(p_event.at))
  || case when btrim(p_event.data, E' \n\t{}') = '' then '}' else ',' || substr(ltrim(p_event.data), 2) end || '}';

-- The obligations that follow from an event, in its transaction.
create or replace function signalbox.owe_deliveries(p_event signalbox.event) returns void
language plpgsql as $$
declare
  v_type text := case p_event.type when 'tool.finished' then 'tool.unknown' else p_event.type end;
  v_webhook text;
  v_delivery text;
begin
  for v_webhook in
    select w.id from signalbox.webhook w
    where w.tenant_id = p_event.tenant_id and w.disabled_at is null and v_type = any (w.events)
  loop
    exit when p_event.type = 'tool.finished' and p_event.data::json ->> 'state' <> 'unknown';
    v_delivery := signalbox.new_id('dlv');
    insert into signalbox.webhook_delivery (id, tenant_id, webhook_id, type, conversation_id, run_id, sequence, payload)
    values (v_delivery, p_event.tenant_id, v_webhook, v_type, p_event.conversation_id, p_event.run_id,
            p_event.sequence, signalbox.delivery_payload(v_delivery, v_type, p_event));
  end loop;
end $$;

-- Begins attempts that are due, of webhooks whose secret the caller can read: those that have waited longest first, a
-- few of each webhook and one of a webhook that fails, none of those the caller is busy with. An attempt that is not
-- noted until `p_patience_ms` is over may be made again.
create function signalbox.begin_deliveries(p_key text, p_busy text[], p_limit integer, p_each integer,
                                           p_patience_ms bigint)
returns table (delivery_id text, webhook_id text, number integer, effort integer, url text, secret bytea,
               previous_secret bytea, type text, payload text)
language plpgsql as $$
declare
  v_now timestamptz := signalbox.clock();
  v_webhook record;
  v_left integer := p_limit;
  v_count integer;
begin
  for v_webhook in
    -- From one webhook with something due to the next, so that a long line before one costs nothing.
    with recursive due as (
      (select d.webhook_id as id, d.next_at from signalbox.webhook_delivery d
       where d.next_at is not null order by d.webhook_id, d.next_at limit 1)
      union all
      select next.webhook_id, next.next_at from due cross join lateral (
        select d.webhook_id, d.next_at from signalbox.webhook_delivery d
        where d.next_at is not null and d.webhook_id > due.id order by d.webhook_id, d.next_at limit 1) as next
    )
    select w.*, due.next_at from due join signalbox.webhook w on w.id = due.id
    where due.next_at <= v_now and w.disabled_at is null and w.secret_key = p_key and w.id <> all (p_busy)
    order by due.next_at
  loop
    return query
      with taken as materialized (
        select d.id from signalbox.webhook_delivery d
        where d.webhook_id = v_webhook.id and d.next_at <= v_now
        order by d.next_at
        limit case when v_webhook.failing_since is null then least(p_each, v_left) else 1 end
        for update skip locked
      ), begun as (
        update signalbox.webhook_delivery d
        set attempt_count = d.attempt_count + 1, begun = true,
            next_at = v_now + make_interval(secs => p_patience_ms / 1000.0)
        from taken where d.id = taken.id
        returning d.id, d.tenant_id, d.attempt_count, d.attempt_count - d.attempt_base as effort, d.type, d.payload
      ), noted as (
        insert into signalbox.webhook_attempt (delivery_id, number, tenant_id, started_at)
        select b.id, b.attempt_count, b.tenant_id, v_now from begun b
      )
      select b.id, v_webhook.id, b.attempt_count, b.effort, v_webhook.url, v_webhook.secret,
             case when v_webhook.previous_until > v_now then v_webhook.previous_secret end, b.type, b.payload
      from begun b;
    get diagnostics v_count = row_count;
    v_left := v_left - v_count;
    exit when v_left <= 0;
  end loop;
end $$;

-- Whether somebody wants to be told of anything at all.
create function signalbox.has_webhooks() returns boolean
language sql stable
return exists (select from signalbox.webhook w where w.disabled_at is null);

-- Nobody is told there any more, until somebody says otherwise.
create function signalbox.disable_webhook(p_webhook text, p_cause text) returns void
language plpgsql as $$
declare
  v_tenant text;
begin
  update signalbox.webhook
  set disabled_at = signalbox.clock(), disabled_cause = p_cause, updated_at = signalbox.clock()
  where id = p_webhook and disabled_at is null
  returning tenant_id into v_tenant;
  if found then
    perform signalbox.audit(v_tenant, 'webhook_disabled', null, null, null, null,
      '{"cause":' || signalbox.quoted(p_cause) || ',"webhookId":' || signalbox.quoted(p_webhook) || '}');
  end if;
end $$;

-- Notes what an attempt came to: `delivered`, `failed`, `gone` (the receiver wants nothing any more) or `interrupted` (it
-- does not count). `p_retry_ms` null: it is not made again. An attempt that another one has overtaken is noted as well,
-- and says no more about the delivery than that it arrived. Answers whether it was the one that counts.
create function signalbox.settle_delivery(p_delivery text, p_number integer, p_verdict text, p_duration_ms integer,
                                          p_status integer, p_error text, p_response text, p_retry_ms bigint,
                                          p_failing_ms bigint) returns boolean
language plpgsql as $$
declare
  v_now timestamptz := signalbox.clock();
  v_delivery signalbox.webhook_delivery;
  v_failing_since timestamptz;
begin
  select d.* into v_delivery from signalbox.webhook_delivery d where d.id = p_delivery for update;
  if not found then
    return false;
  end if;
  update signalbox.webhook_attempt
  set duration_ms = p_duration_ms, status = p_status, error_code = p_error, response = p_response
  where delivery_id = p_delivery and number = p_number;
  if v_delivery.state <> 'pending' or (v_delivery.attempt_count <> p_number and p_verdict <> 'delivered') then
    return false;
  end if;
  update signalbox.webhook_delivery
  set begun = false,
      attempt_base = attempt_base + case p_verdict when 'interrupted' then 1 else 0 end,
      state = case when p_verdict = 'delivered' then 'delivered' when p_retry_ms is null then 'failed' else state end,
      next_at = case when p_verdict <> 'delivered' then v_now + make_interval(secs => p_retry_ms / 1000.0) end,
      finished_at = case when p_verdict = 'delivered' or p_retry_ms is null then v_now end
  where id = p_delivery;
  if p_verdict = 'delivered' then
    update signalbox.webhook set failing_since = null where id = v_delivery.webhook_id and failing_since is not null;
  elsif p_verdict <> 'interrupted' then
    -- Written only when it changes: many deliveries of one webhook end at once.
    update signalbox.webhook set failing_since = v_now where id = v_delivery.webhook_id and failing_since is null;
    select w.failing_since into v_failing_since from signalbox.webhook w where w.id = v_delivery.webhook_id;
    if p_verdict = 'gone' or (p_retry_ms is null
         and v_failing_since <= v_now - make_interval(secs => p_failing_ms / 1000.0)) then
      perform signalbox.disable_webhook(v_delivery.webhook_id, case p_verdict when 'gone' then 'gone' else 'failing' end);
    end if;
  end if;
  return true;
end $$;

-- Forgets deliveries that ended longer ago than `p_age_ms`, and what was owed to webhooks that are gone. Gives up what has
-- been due for as long: nobody made an attempt, so its webhook is disabled or its secret cannot be read, and nothing
-- else would ever end it.
create function signalbox.prune_deliveries(p_age_ms bigint, p_limit integer) returns integer
language plpgsql as $$
declare
  v_before timestamptz := signalbox.clock() - make_interval(secs => p_age_ms / 1000.0);
  v_count integer;
  v_done integer;
begin
  delete from signalbox.webhook_delivery d where d.id in (
    select o.id from signalbox.webhook_delivery o
    where o.finished_at < v_before
    order by o.finished_at limit p_limit
    for update skip locked);
  get diagnostics v_done = row_count;
  delete from signalbox.webhook_delivery d where d.id in (
    select o.id from signalbox.webhook_delivery o
    where o.next_at is not null and not exists (select from signalbox.webhook w where w.id = o.webhook_id)
    limit p_limit - v_done
    for update skip locked);
  get diagnostics v_count = row_count;
  v_done := v_done + v_count;
  update signalbox.webhook_delivery d
  set state = 'failed', next_at = null, begun = false, finished_at = signalbox.clock()
  where d.id in (
    select o.id from signalbox.webhook_delivery o
    where o.next_at < v_before
    limit p_limit - v_done
    for update skip locked);
  get diagnostics v_count = row_count;
  return v_done + v_count;
end $$;

-- Takes what was said in a conversation out of at most `p_limit` deliveries about it; what is still owed goes on without
-- it. Answers how many.
create function signalbox.erase_deliveries(p_conversation text, p_limit integer) returns integer
language plpgsql as $$
declare
  v_delivery record;
  v_done integer := 0;
begin
  for v_delivery in
    select d.id, d.type, d.sequence, d.run_id, d.payload from signalbox.webhook_delivery d
    where d.conversation_id = p_conversation and right(d.payload, 15) <> '"erased":true}}' limit p_limit
  loop
    update signalbox.webhook_delivery
    set payload = '{"id":' || signalbox.quoted(v_delivery.id) || ',"type":' || signalbox.quoted(v_delivery.type)
      || ',"timestamp":' || signalbox.quoted(signalbox.rfc3339(created_at))
      || ',"data":{"sequence":' || v_delivery.sequence || ',"conversationId":' || signalbox.quoted(p_conversation)
      || ',"runId":' || signalbox.quoted(v_delivery.run_id) || ',"erased":true}}'
    where id = v_delivery.id;
    update signalbox.webhook_attempt set response = null
    where delivery_id = v_delivery.id and response is not null;
    v_done := v_done + 1;
  end loop;
  return v_done;
end $$;
