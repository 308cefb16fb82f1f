-- What the tables hold for the life of a message beyond its first answer: why and how a run ends, what it waits for, who
-- stopped it, what is kept and for how long, and which store this is. Functions follow by subject in the files after
-- this one, each defined once.

alter table signalbox.agent add column disabled_at timestamptz;

alter table signalbox.conversation
  add column forked_from text,
  -- The oldest cursor that still works: events before it are gone. The event of this sequence stands, as its anchor.
  add column kept_sequence bigint not null default 0,
  -- The transaction that wrote the newest event; see `event.position`.
  add column last_position xid8 not null default '0',
  add column archived_at timestamptz,
  -- Takes no message any more.
  add column delete_requested_at timestamptz,
  -- Does not exist for requests.
  add column deleted_at timestamptz,
  -- Nothing of what was said is left.
  add column erased_at timestamptz,
  -- Null: written before an agent's runtime could change, so by the runtime the conversation still has.
  add column leaf_runtime text,
  -- Place in the line of the last run whose turn the transcript has. Null: it is that of the last answer.
  add column leaf_turn bigint,
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

alter table signalbox.run
  add column cancel_cause   text check (cancel_cause in ('user_cancel', 'superseded', 'operator_stop')),
  -- The turn is to be struck: a rollback was asked for.
  add column cancel_strikes boolean not null default false,
  -- The run that is offered this one's message, and when its engine took it into its context.
  add column steer_into     text,
  add column consumed_at    timestamptz,
  add column suspended_at   timestamptz,
  -- What the run has spent waiting; its wall clock stood meanwhile.
  add column suspended_ms   bigint not null default 0,
  -- When the gates closed for it.
  add column sealed_at      timestamptz,
  -- What is left of the run's part of the log: everything; closing rows with the parts emptied; nothing to speak of.
  add column log_kept       text not null default 'whole' check (log_kept in ('whole', 'closed', 'gone'));
create index run_open on signalbox.run (tenant_id) where state in ('queued', 'admitted', 'running', 'finalizing');
-- Obligations to answer that are still open.
create index run_unfinished on signalbox.run (tenant_id, id) where finished_at is null;
create index run_log_whole on signalbox.run (finished_at) where log_kept = 'whole' and finished_at is not null;
create index run_log_kept on signalbox.run (finished_at) where log_kept <> 'gone' and finished_at is not null;

alter table signalbox.message
  add column struck boolean not null default false,
  -- What a fork began with was said in no run of its own.
  alter column run_id drop not null;

alter table signalbox.ownership add column paced_until timestamptz;

alter table signalbox.idempotency
  drop constraint idempotency_accepted_check,
  add constraint idempotency_accepted_check check (accepted in ('started', 'queued', 'steered'));
create index idempotency_age on signalbox.idempotency (created_at);
create index slot_age on signalbox.slot (created_at);

-- The transaction that wrote the event; never before the event's predecessor in its conversation, also where that was
-- written by a transaction with a higher number. Parts of items stand in no feed: their closing row says the whole.
alter table signalbox.event add column position xid8 not null default pg_current_xact_id();
create index event_feed on signalbox.event (tenant_id, position, conversation_id, sequence)
  where type not in ('text.delta', 'thinking.delta');

-- The last place of each tenant's feed that retention has removed an event from: a reader who stands before it has
-- missed something.
create table signalbox.feed_horizon (
  tenant_id       text primary key check (tenant_id <> ''),
  position        xid8 not null,
  conversation_id text not null,
  sequence        bigint not null
);

-- What a release without this migration, or this one before its upkeep ran, marked as cut.
create index transcript_entry_cut on signalbox.transcript_entry (conversation_id, position) where cut;

-- Holds: the one thing a run waits for.
create table signalbox.hold (
  id              text primary key,
  tenant_id       text not null check (tenant_id <> ''),
  conversation_id text not null,
  run_id          text not null,
  kind            text not null check (kind in ('approval', 'input', 'client_tool', 'account', 'budget', 'job',
                                                'operator', 'newer_worker')),
  -- What is asked, for whoever decides it.
  subject         jsonb not null,
  digest          text,
  state           text not null default 'open' check (state in ('open', 'decided', 'expired', 'withdrawn')),
  decision        text,
  response        jsonb,
  decided_by      text,
  opened_at       timestamptz not null default signalbox.clock(),
  expires_at      timestamptz,
  decided_at      timestamptz,
  constraint hold_conversation foreign key (tenant_id, conversation_id)
    references signalbox.conversation (tenant_id, id),
  constraint hold_run foreign key (run_id) references signalbox.run (id),
  constraint hold_closed check ((state = 'open') = (decided_at is null)),
  constraint hold_decided check ((state = 'decided') = (decision is not null))
);
create index hold_run_open on signalbox.hold (run_id) where state = 'open';
create index hold_due on signalbox.hold (expires_at) where state = 'open' and expires_at is not null;
create index hold_by_conversation on signalbox.hold (conversation_id);
create index hold_tenant on signalbox.hold (tenant_id, id);
create index hold_paused on signalbox.hold (id) where state = 'open' and kind = 'operator';

-- Pauses and stops of operators.
create table signalbox.stop (
  id         text primary key,
  tenant_id  text not null check (tenant_id <> ''),
  kind       text not null check (kind in ('pause', 'stop')),
  scope      text not null check (scope in ('run', 'conversation', 'agent', 'tenant')),
  -- Id of what it is about; of a tenant, its name.
  subject    text not null,
  reason     text,
  created_by text not null,
  created_at timestamptz not null default signalbox.clock(),
  lifted_by  text,
  lifted_at  timestamptz,
  constraint stop_lifted check ((lifted_at is null) = (lifted_by is null))
);
-- Looked at by every intent: nearly always empty.
create unique index stop_standing on signalbox.stop (tenant_id, scope, subject, kind) where lifted_at is null;
create index stop_tenant on signalbox.stop (tenant_id, id);
alter type signalbox.gate_entry add attribute stop_id text;

-- When the record forgets next.
create table signalbox.upkeep (
  singleton boolean primary key default true check (singleton),
  next_at   timestamptz not null default signalbox.clock()
);

-- What the workers of each supervisor can run, and which providers its gates reach.
create table signalbox.process_offer (
  incarnation integer primary key references signalbox.process on delete cascade,
  runtimes    jsonb not null,
  providers   jsonb not null,
  told_at     timestamptz not null default signalbox.clock()
) with (fillfactor = 70);

-- Incarnations of the store. What the store was when it was last opened stands in one row; when it is found to be
-- something else (a promoted standby, a restored or copied one), or somebody says so, a new era opens before anything is
-- claimed or decided: no earlier process, token or number is valid in it.
create table signalbox.store_identity (
  singleton         boolean primary key default true check (singleton),
  system_identifier text,
  timeline          integer not null,
  -- Of the embedded store: host, device and inode of its directory.
  place             text,
  era               integer not null default 1
);
create table signalbox.era (
  number    integer primary key,
  cause     text not null,
  -- The last sign of life before: what happened between the two is not known.
  since     timestamptz not null,
  opened_at timestamptz not null default signalbox.clock(),
  -- Places of the feed from here on were given out anew.
  position  xid8 not null default pg_current_xact_id()
);

alter table signalbox.hold enable row level security;
alter table signalbox.hold force row level security;
alter table signalbox.stop enable row level security;
alter table signalbox.stop force row level security;
alter table signalbox.feed_horizon enable row level security;
alter table signalbox.feed_horizon force row level security;
alter table signalbox.upkeep enable row level security;
alter table signalbox.upkeep force row level security;
alter table signalbox.process_offer enable row level security;
alter table signalbox.process_offer force row level security;
alter table signalbox.store_identity enable row level security;
alter table signalbox.store_identity force row level security;
alter table signalbox.era enable row level security;
alter table signalbox.era force row level security;

create policy run_side on signalbox.hold to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.hold to signalbox_app
  using (tenant_id = nullif(current_setting('signalbox.tenant', true), ''))
  with check (tenant_id = nullif(current_setting('signalbox.tenant', true), ''));
create policy run_side on signalbox.stop to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.stop to signalbox_app
  using (tenant_id = nullif(current_setting('signalbox.tenant', true), ''))
  with check (tenant_id = nullif(current_setting('signalbox.tenant', true), ''));
create policy run_side on signalbox.feed_horizon to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.feed_horizon for select to signalbox_app
  using (tenant_id = nullif(current_setting('signalbox.tenant', true), ''));
create policy run_side on signalbox.upkeep to signalbox_run using (true) with check (true);
create policy run_side on signalbox.process_offer to signalbox_run using (true) with check (true);
create policy run_side on signalbox.store_identity to signalbox_run using (true) with check (true);
create policy everybody on signalbox.store_identity for select to signalbox_app using (true);
create policy run_side on signalbox.era to signalbox_run using (true) with check (true);
create policy everybody on signalbox.era for select to signalbox_app using (true);

grant select, insert, update on signalbox.hold, signalbox.stop to signalbox_app, signalbox_run;
-- A run that nobody owns is ended on the request side, with everything an owner's finalization does.
grant update on signalbox.message, signalbox.model_call, signalbox.tool_call to signalbox_app;
grant select, update, delete on signalbox.transcript_entry to signalbox_app;
-- What is forgotten and erased.
grant update on signalbox.message to signalbox_run;
grant delete, update (data) on signalbox.event to signalbox_run;
grant select, delete, update on signalbox.idempotency to signalbox_run;
grant select, insert, update on signalbox.upkeep to signalbox_run;
grant select, insert, update, delete on signalbox.process_offer to signalbox_run;
grant select, insert, update on signalbox.store_identity, signalbox.era to signalbox_run;
grant select on signalbox.store_identity, signalbox.era to signalbox_app;
grant select, insert, update on signalbox.feed_horizon to signalbox_run;
grant select on signalbox.feed_horizon to signalbox_app;
grant update on sequence signalbox.incarnation to signalbox_run;
