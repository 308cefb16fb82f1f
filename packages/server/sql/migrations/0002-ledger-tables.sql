-- Tables of the gates: every call has a row before it leaves and an outcome after; and of the transcript and the audit.

create table signalbox.model_call (
  id                 text primary key,
  tenant_id          text not null check (tenant_id <> ''),
  run_id             text not null,
  conversation_id    text not null,
  generation         bigint not null,
  process            integer not null,
  state              text not null check (state in ('executing', 'succeeded', 'failed', 'estimated')),
  wire               text not null,
  requested_model    text not null,
  served_model       text,
  input_tokens       bigint,
  output_tokens      bigint,
  cache_read_tokens  bigint,
  cache_write_tokens bigint,
  cost_micros        bigint,
  price_version      text,
  stop_reason        text,
  error_code         text,
  rules              text[] not null,
  request_bytes      bigint not null,
  proposals_accepted boolean,
  started_at         timestamptz not null,
  finished_at        timestamptz,
  constraint model_call_closed check ((state = 'executing') = (finished_at is null))
) with (fillfactor = 70);
create index model_call_run on signalbox.model_call (run_id, id);
create index model_call_open on signalbox.model_call (run_id) where state = 'executing';
create index model_call_process on signalbox.model_call (process) where state = 'executing';

-- One row per (run, tool-use id). The digest of the arguments is compared, never part of the key.
create table signalbox.tool_call (
  id               text primary key,
  tenant_id        text not null check (tenant_id <> ''),
  run_id           text not null,
  conversation_id  text not null,
  model_call_id    text not null,
  ordinal          integer not null,
  tool_use_id      text not null,
  name             text not null,
  server           text,
  tool             text,
  title            text not null,
  effect           text not null check (effect in ('read', 'egress_read', 'write', 'irreversible')),
  definition_hash  text,
  arguments        text not null,
  arguments_digest text not null,
  state            text not null check (state in ('proposed', 'awaiting_approval', 'authorized', 'executing',
                                                  'succeeded', 'failed', 'unknown', 'denied', 'withdrawn')),
  generation       bigint not null,
  process          integer,
  -- An earlier call of the run with the same effect, whose outcome this one was given instead of being executed.
  replay_of        text,
  result           text,
  result_summary   text,
  denial           text,
  error_code       text,
  proposed_at      timestamptz not null,
  started_at       timestamptz,
  finished_at      timestamptz,
  constraint tool_call_use unique (run_id, tool_use_id),
  constraint tool_call_place check (state = 'denied' or (server is not null and tool is not null)),
  constraint tool_call_executing check (state <> 'executing' or (process is not null and started_at is not null)),
  constraint tool_call_outcome check (state not in ('succeeded', 'failed') or result is not null)
) with (fillfactor = 70);
create index tool_call_process on signalbox.tool_call (process) where state = 'executing';

create table signalbox.tool (
  tenant_id       text not null check (tenant_id <> ''),
  server          text not null,
  tool            text not null,
  title           text not null,
  definition      jsonb not null,
  definition_hash text not null,
  effect          text not null check (effect in ('read', 'egress_read', 'write', 'irreversible')),
  listed_at       timestamptz not null default signalbox.clock(),
  primary key (tenant_id, server, tool)
);

-- What lets an agent continue. Visible to a generation: what is not cut and stands up to the leaf or is its own.
create table signalbox.transcript_entry (
  tenant_id       text not null check (tenant_id <> ''),
  conversation_id text not null,
  position        bigint not null,
  generation      bigint not null,
  stream          text not null,
  entry_id        text not null,
  kind            text not null check (kind in ('item', 'state')),
  body            bytea not null,
  -- SHA-256 of the body; the chain over these is what a leaf's digest proves.
  digest          bytea not null,
  cut             boolean not null default false,
  primary key (conversation_id, position),
  constraint transcript_entry_once unique (conversation_id, stream, entry_id, generation)
);
create index transcript_entry_state on signalbox.transcript_entry (conversation_id, stream, position)
  where kind = 'state';

-- One row in each transaction that changes a state. The bytes are canonical (RFC 8785) and never edited.
create table signalbox.audit_pending (
  id              bigint generated always as identity primary key,
  tenant_id       text not null check (tenant_id <> ''),
  action          text not null,
  actor           text,
  conversation_id text,
  run_id          text,
  generation      bigint,
  bytes           bytea not null,
  xid             xid8 not null default pg_current_xact_id(),
  at              timestamptz not null
);
create index audit_pending_order on signalbox.audit_pending (xid, id);

-- A string of a canonical entry.
create function signalbox.quoted(p_text text) returns text
language sql stable parallel safe
return coalesce(to_json(p_text)::text, 'null');

-- Inserts the entry; members stand in the order RFC 8785 demands. `p_actor` and `p_facts` are canonical already.
create function signalbox.audit(p_tenant text, p_action text, p_actor text, p_conversation text, p_run text,
                                p_generation bigint, p_facts text) returns void
language plpgsql as $$
declare
  v_at timestamptz := signalbox.clock();
begin
  insert into signalbox.audit_pending (tenant_id, action, actor, conversation_id, run_id, generation, at, bytes)
  values (p_tenant, p_action, p_actor, p_conversation, p_run, p_generation, v_at, convert_to(
    '{"action":' || signalbox.quoted(p_action)
    || ',"actor":' || coalesce(p_actor, 'null')
    || ',"at":"' || signalbox.rfc3339(v_at)
    || '","conversationId":' || signalbox.quoted(p_conversation)
    || ',"facts":' || p_facts
    || ',"generation":' || coalesce(p_generation::text, 'null')
    || ',"runId":' || signalbox.quoted(p_run)
    || ',"tenantId":' || signalbox.quoted(p_tenant)
    || ',"version":1}', 'UTF8'));
end $$;
