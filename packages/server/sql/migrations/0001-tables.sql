-- Tables of the record. Every table but `process` belongs to tenants; row-level security follows in 0002.
-- Ids are given by the platform and unique on their own; a key that a client may choose is unique per tenant.

-- The only clock. Milliseconds, so that a column and the text made from it never disagree.
create function signalbox.clock() returns timestamptz
language sql volatile parallel safe
return date_trunc('milliseconds', clock_timestamp());

create function signalbox.rfc3339(p_at timestamptz) returns text
language sql stable parallel safe
return to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');

-- An incarnation is also the key of an advisory lock of two 32-bit numbers; it is never used again.
create sequence signalbox.incarnation as integer no cycle;

create table signalbox.process (
  incarnation  integer primary key default nextval('signalbox.incarnation'),
  roles        text[] not null,
  started_at   timestamptz not null default signalbox.clock(),
  heartbeat_at timestamptz not null default signalbox.clock(),
  lease_until  timestamptz not null,
  dead_at      timestamptz
) with (fillfactor = 70);
create index process_dead on signalbox.process (incarnation) where dead_at is not null;

create table signalbox.api_key (
  id         text primary key,
  tenant_id  text not null check (tenant_id <> ''),
  name       text not null,
  prefix     text not null,
  hash       bytea not null constraint api_key_hash unique,
  rights     text[] not null,
  created_at timestamptz not null default signalbox.clock(),
  revoked_at timestamptz
);
create index api_key_tenant on signalbox.api_key (tenant_id, id);

create table signalbox.agent (
  id         text primary key,
  tenant_id  text not null check (tenant_id <> ''),
  name       text not null,
  revision   integer not null check (revision > 0),
  created_at timestamptz not null default signalbox.clock(),
  constraint agent_name_taken unique (tenant_id, name),
  constraint agent_of_tenant unique (tenant_id, id)
);

create table signalbox.agent_revision (
  tenant_id  text not null check (tenant_id <> ''),
  agent_id   text not null,
  revision   integer not null check (revision > 0),
  runtime    text not null,
  definition jsonb not null,
  created_at timestamptz not null default signalbox.clock(),
  primary key (agent_id, revision),
  constraint agent_revision_agent foreign key (tenant_id, agent_id) references signalbox.agent (tenant_id, id)
);

create table signalbox.snapshot (
  tenant_id  text not null check (tenant_id <> ''),
  hash       text not null,
  -- The bytes that were hashed, and the defaults that hashing leaves out.
  body       text not null,
  created_at timestamptz not null default signalbox.clock(),
  primary key (tenant_id, hash)
);

-- `last_sequence` changes with every event: it has no index, so that its updates stay within the page.
create table signalbox.conversation (
  id            text primary key,
  tenant_id     text not null check (tenant_id <> ''),
  agent_id      text not null,
  title         text,
  created_by    text not null,
  participant   text,
  metadata      jsonb not null default '{}',
  last_sequence bigint not null default 0,
  leaf_entry    text,
  leaf_position bigint not null default 0,
  leaf_digest   bytea,
  created_at    timestamptz not null default signalbox.clock(),
  updated_at    timestamptz not null default signalbox.clock(),
  constraint conversation_of_tenant unique (tenant_id, id),
  constraint conversation_agent foreign key (tenant_id, agent_id) references signalbox.agent (tenant_id, id),
  constraint conversation_leaf check ((leaf_entry is null) = (leaf_digest is null))
) with (fillfactor = 70);
create index conversation_participant on signalbox.conversation (tenant_id, participant, id)
  where participant is not null;

-- Who may drive a conversation. Its generation is the fence: it grows at every claim, takeover, change of worker and
-- release. `runtime` is the one the active run needs; `ready_at` is set while that run waits for a supervisor.
create table signalbox.ownership (
  conversation_id text primary key,
  tenant_id       text not null check (tenant_id <> ''),
  generation      bigint not null default 0 check (generation >= 0),
  owner           integer,
  runtime         text,
  ready_at        timestamptz,
  cancel_at       timestamptz,
  constraint ownership_conversation foreign key (tenant_id, conversation_id)
    references signalbox.conversation (tenant_id, id),
  constraint ownership_ready check (ready_at is null or (owner is null and runtime is not null))
) with (fillfactor = 70);
create index ownership_ready on signalbox.ownership (runtime, ready_at) where ready_at is not null;
create index ownership_owner on signalbox.ownership (owner) where owner is not null;

-- A run's question stands at twice the run's position, its answer right behind.
create table signalbox.message (
  tenant_id       text not null check (tenant_id <> ''),
  id              text not null,
  conversation_id text not null,
  run_id          text not null,
  role            text not null check (role in ('user', 'assistant')),
  text            text not null,
  metadata        jsonb not null default '{}',
  partial         boolean not null default false,
  position        bigint not null,
  created_at      timestamptz not null default signalbox.clock(),
  constraint message_id primary key (tenant_id, id),
  constraint message_position unique (conversation_id, position),
  constraint message_conversation foreign key (tenant_id, conversation_id)
    references signalbox.conversation (tenant_id, id)
);

create table signalbox.run (
  id                  text primary key,
  tenant_id           text not null check (tenant_id <> ''),
  conversation_id     text not null,
  message_id          text not null,
  answer_message_id   text,
  agent_id            text not null,
  agent_revision      integer not null,
  snapshot_hash       text not null,
  runtime             text not null,
  state               text not null check (state in ('queued', 'admitted', 'running', 'suspended', 'finalizing',
                                                     'completed', 'cancelled', 'failed', 'rolled_back')),
  reason              text,
  generation          bigint,
  owner               integer,
  position            bigint not null,
  -- Sequence just before the first event of the run.
  cursor              bigint not null,
  attempt             integer not null default 0,
  actor               text not null,
  requested           jsonb not null,
  granted             jsonb not null,
  rung                text check (rung in ('fresh', 'native', 'repaired', 'rebuilt')),
  served_model        text,
  trace_id            text not null,
  input_tokens        bigint not null default 0,
  output_tokens       bigint not null default 0,
  cache_read_tokens   bigint not null default 0,
  cache_write_tokens  bigint not null default 0,
  cost_micros         bigint,
  model_call_count    integer not null default 0,
  tool_call_count     integer not null default 0,
  model_call_limit    integer not null,
  tool_call_limit     integer not null,
  wall_clock_ms       bigint not null,
  -- How the turn ended, kept with the seal until the run has ended.
  conclusion          jsonb,
  error               jsonb,
  cancel_requested_at timestamptz,
  accepted_at         timestamptz not null,
  started_at          timestamptz,
  finished_at         timestamptz,
  constraint run_position unique (conversation_id, position),
  constraint run_conversation foreign key (tenant_id, conversation_id)
    references signalbox.conversation (tenant_id, id),
  constraint run_owned check (state not in ('running', 'finalizing') or (generation is not null and owner is not null)),
  constraint run_ended check (
    (state in ('completed', 'cancelled', 'failed', 'rolled_back')) = (reason is not null and finished_at is not null)),
  constraint run_sealed check (state <> 'finalizing' or conclusion is not null)
) with (fillfactor = 80);
create unique index run_one_active on signalbox.run (conversation_id)
  where state in ('admitted', 'running', 'suspended', 'finalizing');
create index run_queue on signalbox.run (conversation_id, position) where state = 'queued';
create index run_tenant on signalbox.run (tenant_id, id);

create function signalbox.keep_ending() returns trigger
language plpgsql as $$
begin
  raise exception 'run % has ended as % and does not become %', old.id, old.state, new.state;
end $$;
create trigger run_ending before update of state on signalbox.run for each row
  when (old.state in ('completed', 'cancelled', 'failed', 'rolled_back') and new.state is distinct from old.state)
  execute function signalbox.keep_ending();

-- Answers to requests that must have one effect. A message's row names its run; other routes keep the response.
create table signalbox.idempotency (
  tenant_id       text not null check (tenant_id <> ''),
  key             text not null,
  route           text not null,
  body_hash       text not null,
  status          integer,
  body            text,
  conversation_id text,
  run_id          text,
  message_id      text,
  accepted        text check (accepted in ('started', 'queued')),
  position        integer,
  cursor          bigint,
  created_at      timestamptz not null default signalbox.clock(),
  primary key (tenant_id, key)
);

-- The log. Its key is what makes a sequence unique; `conversation.last_sequence` is what makes it gapless.
create table signalbox.event (
  tenant_id       text not null check (tenant_id <> ''),
  conversation_id text not null,
  sequence        bigint not null check (sequence > 0),
  item_id         text not null,
  revision        bigint not null,
  type            text not null,
  run_id          text,
  turn_id         text,
  trace_id        text,
  generation      bigint not null,
  data            text not null,
  at              timestamptz not null,
  primary key (conversation_id, sequence)
);
create unique index event_one_ending on signalbox.event (run_id) where type = 'run.finished';

-- What an engine's token may do: bound to a run and its generation during a step, to nothing between steps.
create table signalbox.slot (
  token_hash      text primary key,
  tenant_id       text not null check (tenant_id <> ''),
  conversation_id text not null,
  snapshot_hash   text not null,
  worker_id       text not null,
  run_id          text,
  generation      bigint,
  actor           text not null,
  bound_at        timestamptz,
  created_at      timestamptz not null default signalbox.clock(),
  constraint slot_bound check ((run_id is null) = (generation is null))
) with (fillfactor = 70);
create index slot_conversation on signalbox.slot (conversation_id);
