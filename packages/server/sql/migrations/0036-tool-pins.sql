-- Whether a tool may be used as its server lists it, what the operator says of it, and how it came to that; and where
-- servers stand. Rows of the release before count as approved: it knew no other state, and adopt the address they are
-- first listed from.

alter table signalbox.tool
  add column state            text not null default 'approved'
    check (state in ('new', 'quarantined', 'approved', 'drifted')),
  -- The address of its server in words, and a hash of all of it.
  add column origin           text,
  add column origin_hash      text,
  -- What was listed last, where that is not what is pinned.
  add column seen_definition  jsonb,
  add column seen_hash        text,
  add column seen_origin      text,
  add column seen_origin_hash text,
  add column seen_at          timestamptz,
  -- False: its server lists it no more.
  add column offered          boolean not null default true,
  -- Of what was listed last.
  add column lints            jsonb not null default '[]',
  add column approved_at      timestamptz,
  -- Who, in the words of the audit; null: the first use under the posture `dev`.
  add column approved_by      text,
  -- Whose classification counts: the file's or an operator's. Null: nobody has classified it.
  add column classified_by    text check (classified_by in ('file', 'operator')),
  -- What the file said when it was last taken over. It is taken over again when it says something else.
  add column file_settings    jsonb,
  add column approve          text not null default 'policy' check (approve in ('policy', 'always', 'never')),
  add column trusted          boolean not null default false,
  add column timeout_ms       integer check (timeout_ms between 100 and 3600000),
  add constraint tool_seen check ((seen_definition is null) = (seen_hash is null));

-- One row for each thing that became of a pin: who approved which definition, and when.
create table signalbox.tool_pin (
  id              bigint generated always as identity primary key,
  tenant_id       text not null check (tenant_id <> ''),
  server          text not null,
  tool            text not null,
  event           text not null check (event in ('trust', 'hold', 'approve', 'drift', 'restore', 'move')),
  definition      jsonb not null,
  definition_hash text not null,
  origin          text,
  lints           jsonb not null default '[]',
  -- Null: nobody, it was listed so.
  actor           text,
  at              timestamptz not null default signalbox.clock()
);
create index tool_pin_of on signalbox.tool_pin (tenant_id, server, tool, id);

-- How each server was when a gate last looked.
create table signalbox.mcp_server (
  tenant_id    text not null check (tenant_id <> ''),
  server       text not null,
  transport    text not null check (transport in ('stdio', 'http', 'functions')),
  origin       text not null,
  -- Null: never.
  listed_at    timestamptz,
  -- Since when it could not be listed; null: it was, the last time.
  failing_since timestamptz,
  problem      text,
  -- What it lists that no model can be offered: name and reason.
  left_out     jsonb not null default '[]',
  seen_at      timestamptz not null default signalbox.clock(),
  primary key (tenant_id, server)
);

alter table signalbox.tool_pin enable row level security;
alter table signalbox.tool_pin force row level security;
create policy own_tenant on signalbox.tool_pin for all to signalbox_app
  using (tenant_id = nullif(current_setting('signalbox.tenant', true), ''))
  with check (tenant_id = nullif(current_setting('signalbox.tenant', true), ''));
grant select, insert, delete on signalbox.tool_pin to signalbox_app;

alter table signalbox.mcp_server enable row level security;
alter table signalbox.mcp_server force row level security;
create policy own_tenant on signalbox.mcp_server for all to signalbox_app
  using (tenant_id = nullif(current_setting('signalbox.tenant', true), ''))
  with check (tenant_id = nullif(current_setting('signalbox.tenant', true), ''));
grant select, insert, update on signalbox.mcp_server to signalbox_app;
