-- Written from the catalog of a migrated database by tests/integration/store/migrations.test.ts.

create sequence signalbox.incarnation as integer;

create table signalbox.agent (
  id text not null,
  tenant_id text not null,
  name text not null,
  revision integer not null,
  created_at timestamp with time zone not null default signalbox.clock(),
  disabled_at timestamp with time zone
);
create table signalbox.agent_revision (
  tenant_id text not null,
  agent_id text not null,
  revision integer not null,
  runtime text not null,
  definition jsonb not null,
  created_at timestamp with time zone not null default signalbox.clock()
);
create table signalbox.api_key (
  id text not null,
  tenant_id text not null,
  name text not null,
  prefix text not null,
  hash bytea not null,
  rights text[] not null,
  created_at timestamp with time zone not null default signalbox.clock(),
  revoked_at timestamp with time zone
);
create table signalbox.audit_pending (
  id bigint not null generated always as identity,
  tenant_id text not null,
  action text not null,
  actor text,
  conversation_id text,
  run_id text,
  generation bigint,
  bytes bytea not null,
  xid xid8 not null default pg_current_xact_id(),
  at timestamp with time zone not null
);
create table signalbox.conversation (
  id text not null,
  tenant_id text not null,
  agent_id text not null,
  title text,
  created_by text not null,
  participant text,
  metadata jsonb not null default '{}'::jsonb,
  last_sequence bigint not null default 0,
  leaf_entry text,
  leaf_position bigint not null default 0,
  leaf_digest bytea,
  created_at timestamp with time zone not null default signalbox.clock(),
  updated_at timestamp with time zone not null default signalbox.clock(),
  forked_from text,
  kept_sequence bigint not null default 0,
  last_position xid8 not null default '0'::xid8,
  archived_at timestamp with time zone,
  delete_requested_at timestamp with time zone,
  deleted_at timestamp with time zone,
  erased_at timestamp with time zone,
  leaf_runtime text,
  leaf_turn bigint
) with (fillfactor=70);
create unlogged table signalbox.database_start (
  singleton boolean not null default true,
  at timestamp with time zone not null default signalbox.clock()
);
create table signalbox.era (
  number integer not null,
  cause text not null,
  since timestamp with time zone not null,
  opened_at timestamp with time zone not null default signalbox.clock(),
  position xid8 not null default pg_current_xact_id()
);
create table signalbox.event (
  tenant_id text not null,
  conversation_id text not null,
  sequence bigint not null,
  item_id text not null,
  revision bigint not null,
  type text not null,
  run_id text,
  turn_id text,
  trace_id text,
  generation bigint not null,
  data text not null,
  at timestamp with time zone not null,
  position xid8 not null default pg_current_xact_id()
);
create table signalbox.feed_horizon (
  tenant_id text not null,
  position xid8 not null,
  conversation_id text not null,
  sequence bigint not null
);
create table signalbox.gateway_call (
  id text not null,
  tenant_id text not null,
  actor text not null,
  principal text not null,
  endpoint text not null,
  server text not null,
  tool text not null,
  effect text not null,
  definition_hash text,
  arguments text not null,
  arguments_digest text not null,
  state text not null,
  process integer,
  denial text,
  error_code text,
  result text,
  result_summary text,
  late_result text,
  trace_id text,
  verdict text,
  policy_version text,
  judgement jsonb,
  call_digest text,
  hold_id text,
  edited_arguments text,
  told boolean not null default false,
  continued boolean not null default false,
  started_at timestamp with time zone not null,
  finished_at timestamp with time zone
) with (fillfactor=70);
create table signalbox.hold (
  id text not null,
  tenant_id text not null,
  conversation_id text,
  run_id text,
  kind text not null,
  subject jsonb not null,
  digest text,
  state text not null default 'open'::text,
  decision text,
  response jsonb,
  decided_by text,
  opened_at timestamp with time zone not null default signalbox.clock(),
  expires_at timestamp with time zone,
  decided_at timestamp with time zone,
  gateway_call_id text
);
create table signalbox.idempotency (
  tenant_id text not null,
  key text not null,
  route text not null,
  body_hash text not null,
  status integer,
  body text,
  conversation_id text,
  run_id text,
  message_id text,
  accepted text,
  position integer,
  cursor bigint,
  created_at timestamp with time zone not null default signalbox.clock()
);
create table signalbox.mcp_server (
  tenant_id text not null,
  server text not null,
  transport text not null,
  origin text not null,
  listed_at timestamp with time zone,
  failing_since timestamp with time zone,
  problem text,
  left_out jsonb not null default '[]'::jsonb,
  seen_at timestamp with time zone not null default signalbox.clock()
);
create table signalbox.message (
  tenant_id text not null,
  id text not null,
  conversation_id text not null,
  run_id text,
  role text not null,
  text text not null,
  metadata jsonb not null default '{}'::jsonb,
  partial boolean not null default false,
  position bigint not null,
  created_at timestamp with time zone not null default signalbox.clock(),
  struck boolean not null default false
);
create table signalbox.migration (
  number integer not null,
  name text not null,
  digest text not null,
  applied_at timestamp with time zone not null default clock_timestamp()
);
create table signalbox.model_call (
  id text not null,
  tenant_id text not null,
  run_id text not null,
  conversation_id text not null,
  generation bigint not null,
  process integer not null,
  state text not null,
  wire text not null,
  requested_model text not null,
  served_model text,
  input_tokens bigint,
  output_tokens bigint,
  cache_read_tokens bigint,
  cache_write_tokens bigint,
  cost_micros bigint,
  price_version text,
  stop_reason text,
  error_code text,
  rules text[] not null,
  request_bytes bigint not null,
  proposals_accepted boolean,
  started_at timestamp with time zone not null,
  finished_at timestamp with time zone
) with (fillfactor=70);
create table signalbox.ownership (
  conversation_id text not null,
  tenant_id text not null,
  generation bigint not null default 0,
  owner integer,
  runtime text,
  ready_at timestamp with time zone,
  cancel_at timestamp with time zone,
  paced_until timestamp with time zone
) with (fillfactor=70);
create table signalbox.policy (
  id text not null,
  tenant_id text not null,
  hash text not null,
  document text not null,
  created_by text not null,
  created_at timestamp with time zone not null default signalbox.clock(),
  active boolean not null default false,
  activated_at timestamp with time zone,
  activated_by text
);
create table signalbox.process (
  incarnation integer not null default nextval('signalbox.incarnation'::regclass),
  roles text[] not null,
  started_at timestamp with time zone not null default signalbox.clock(),
  heartbeat_at timestamp with time zone not null default signalbox.clock(),
  lease_until timestamp with time zone not null,
  dead_at timestamp with time zone
) with (fillfactor=70);
create table signalbox.process_offer (
  incarnation integer not null,
  runtimes jsonb not null,
  providers jsonb not null,
  told_at timestamp with time zone not null default signalbox.clock()
) with (fillfactor=70);
create table signalbox.run (
  id text not null,
  tenant_id text not null,
  conversation_id text not null,
  message_id text not null,
  answer_message_id text,
  agent_id text not null,
  agent_revision integer not null,
  snapshot_hash text not null,
  runtime text not null,
  state text not null,
  reason text,
  generation bigint,
  owner integer,
  position bigint not null,
  cursor bigint not null,
  attempt integer not null default 0,
  actor text not null,
  requested jsonb not null,
  granted jsonb not null,
  rung text,
  served_model text,
  trace_id text not null,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cache_read_tokens bigint not null default 0,
  cache_write_tokens bigint not null default 0,
  cost_micros bigint,
  model_call_count integer not null default 0,
  tool_call_count integer not null default 0,
  model_call_limit integer not null,
  tool_call_limit integer not null,
  wall_clock_ms bigint not null,
  conclusion jsonb,
  error jsonb,
  cancel_requested_at timestamp with time zone,
  accepted_at timestamp with time zone not null,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  cancel_cause text,
  cancel_strikes boolean not null default false,
  steer_into text,
  consumed_at timestamp with time zone,
  suspended_at timestamp with time zone,
  suspended_ms bigint not null default 0,
  sealed_at timestamp with time zone,
  log_kept text not null default 'whole'::text
) with (fillfactor=80);
create table signalbox.slot (
  token_hash text not null,
  tenant_id text not null,
  conversation_id text not null,
  snapshot_hash text not null,
  worker_id text not null,
  run_id text,
  generation bigint,
  actor text not null,
  bound_at timestamp with time zone,
  created_at timestamp with time zone not null default signalbox.clock()
) with (fillfactor=70);
create table signalbox.snapshot (
  tenant_id text not null,
  hash text not null,
  body text not null,
  created_at timestamp with time zone not null default signalbox.clock()
);
create table signalbox.stop (
  id text not null,
  tenant_id text not null,
  kind text not null,
  scope text not null,
  subject text not null,
  reason text,
  created_by text not null,
  created_at timestamp with time zone not null default signalbox.clock(),
  lifted_by text,
  lifted_at timestamp with time zone
);
create table signalbox.store_identity (
  singleton boolean not null default true,
  system_identifier text,
  timeline integer not null,
  place text,
  era integer not null default 1
);
create table signalbox.tool (
  tenant_id text not null,
  server text not null,
  tool text not null,
  title text not null,
  definition jsonb not null,
  definition_hash text not null,
  effect text not null,
  listed_at timestamp with time zone not null default signalbox.clock(),
  state text not null default 'approved'::text,
  origin text,
  origin_hash text,
  seen_definition jsonb,
  seen_hash text,
  seen_origin text,
  seen_origin_hash text,
  seen_at timestamp with time zone,
  offered boolean not null default true,
  lints jsonb not null default '[]'::jsonb,
  approved_at timestamp with time zone,
  approved_by text,
  classified_by text,
  file_settings jsonb,
  approve text not null default 'policy'::text,
  trusted boolean not null default false,
  timeout_ms integer
);
create table signalbox.tool_call (
  id text not null,
  tenant_id text not null,
  run_id text not null,
  conversation_id text not null,
  model_call_id text not null,
  ordinal integer not null,
  tool_use_id text not null,
  name text not null,
  server text,
  tool text,
  title text not null,
  effect text not null,
  definition_hash text,
  arguments text not null,
  arguments_digest text not null,
  state text not null,
  generation bigint not null,
  process integer,
  replay_of text,
  result text,
  result_summary text,
  denial text,
  error_code text,
  proposed_at timestamp with time zone not null,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  attempt integer not null default 1,
  verdict text,
  policy_version text,
  judgement jsonb,
  call_digest text,
  hold_id text,
  edited_arguments text,
  reconciled_by text,
  reconciled_at timestamp with time zone,
  reconciliation_note text
) with (fillfactor=70);
create table signalbox.tool_pin (
  id bigint not null generated always as identity,
  tenant_id text not null,
  server text not null,
  tool text not null,
  event text not null,
  definition jsonb not null,
  definition_hash text not null,
  origin text,
  lints jsonb not null default '[]'::jsonb,
  actor text,
  at timestamp with time zone not null default signalbox.clock()
);
create table signalbox.transcript_entry (
  tenant_id text not null,
  conversation_id text not null,
  position bigint not null,
  generation bigint not null,
  stream text not null,
  entry_id text not null,
  kind text not null,
  body bytea not null,
  digest bytea not null,
  cut boolean not null default false,
  kept_entry_ids text[]
);
create table signalbox.upkeep (
  singleton boolean not null default true,
  next_at timestamp with time zone not null default signalbox.clock()
);
create table signalbox.webhook (
  id text not null,
  tenant_id text not null,
  url text not null,
  description text not null,
  events text[] not null,
  secret bytea not null,
  secret_key text not null,
  previous_secret bytea,
  previous_until timestamp with time zone,
  failing_since timestamp with time zone,
  disabled_at timestamp with time zone,
  disabled_cause text,
  created_at timestamp with time zone not null default signalbox.clock(),
  updated_at timestamp with time zone not null default signalbox.clock()
);
create table signalbox.webhook_attempt (
  delivery_id text not null,
  number integer not null,
  tenant_id text not null,
  started_at timestamp with time zone not null default signalbox.clock(),
  duration_ms integer,
  status integer,
  error_code text,
  response text
);
create table signalbox.webhook_delivery (
  id text not null,
  tenant_id text not null,
  webhook_id text not null,
  type text not null,
  conversation_id text,
  run_id text,
  sequence bigint,
  payload text not null,
  state text not null default 'pending'::text,
  attempt_count integer not null default 0,
  attempt_base integer not null default 0,
  next_at timestamp with time zone default signalbox.clock(),
  begun boolean not null default false,
  created_at timestamp with time zone not null default signalbox.clock(),
  finished_at timestamp with time zone
);

alter table signalbox.agent add constraint agent_name_taken UNIQUE (tenant_id, name);
alter table signalbox.agent add constraint agent_of_tenant UNIQUE (tenant_id, id);
alter table signalbox.agent add constraint agent_pkey PRIMARY KEY (id);
alter table signalbox.agent add constraint agent_revision_check CHECK ((revision > 0));
alter table signalbox.agent add constraint agent_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.agent_revision add constraint agent_revision_agent FOREIGN KEY (tenant_id, agent_id) REFERENCES signalbox.agent(tenant_id, id);
alter table signalbox.agent_revision add constraint agent_revision_pkey PRIMARY KEY (agent_id, revision);
alter table signalbox.agent_revision add constraint agent_revision_revision_check CHECK ((revision > 0));
alter table signalbox.agent_revision add constraint agent_revision_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.api_key add constraint api_key_hash UNIQUE (hash);
alter table signalbox.api_key add constraint api_key_pkey PRIMARY KEY (id);
alter table signalbox.api_key add constraint api_key_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.audit_pending add constraint audit_pending_pkey PRIMARY KEY (id);
alter table signalbox.audit_pending add constraint audit_pending_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.conversation add constraint conversation_agent FOREIGN KEY (tenant_id, agent_id) REFERENCES signalbox.agent(tenant_id, id);
alter table signalbox.conversation add constraint conversation_deleted CHECK ((((deleted_at IS NULL) OR (delete_requested_at IS NOT NULL)) AND ((erased_at IS NULL) OR (deleted_at IS NOT NULL))));
alter table signalbox.conversation add constraint conversation_leaf CHECK (((leaf_entry IS NULL) = (leaf_digest IS NULL)));
alter table signalbox.conversation add constraint conversation_of_tenant UNIQUE (tenant_id, id);
alter table signalbox.conversation add constraint conversation_pkey PRIMARY KEY (id);
alter table signalbox.conversation add constraint conversation_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.database_start add constraint database_start_pkey PRIMARY KEY (singleton);
alter table signalbox.database_start add constraint database_start_singleton_check CHECK (singleton);
alter table signalbox.era add constraint era_pkey PRIMARY KEY (number);
alter table signalbox.event add constraint event_pkey PRIMARY KEY (conversation_id, sequence);
alter table signalbox.event add constraint event_sequence_check CHECK ((sequence > 0));
alter table signalbox.event add constraint event_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.feed_horizon add constraint feed_horizon_pkey PRIMARY KEY (tenant_id);
alter table signalbox.feed_horizon add constraint feed_horizon_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.gateway_call add constraint gateway_call_closed CHECK (((state = ANY (ARRAY['awaiting_approval'::text, 'authorized'::text, 'executing'::text])) = (finished_at IS NULL)));
alter table signalbox.gateway_call add constraint gateway_call_effect_check CHECK ((effect = ANY (ARRAY['read'::text, 'egress_read'::text, 'write'::text, 'irreversible'::text])));
alter table signalbox.gateway_call add constraint gateway_call_executing CHECK (((state <> 'executing'::text) OR (process IS NOT NULL)));
alter table signalbox.gateway_call add constraint gateway_call_pkey PRIMARY KEY (id);
alter table signalbox.gateway_call add constraint gateway_call_state_check CHECK ((state = ANY (ARRAY['awaiting_approval'::text, 'authorized'::text, 'executing'::text, 'succeeded'::text, 'failed'::text, 'unknown'::text, 'denied'::text, 'withdrawn'::text])));
alter table signalbox.gateway_call add constraint gateway_call_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.gateway_call add constraint gateway_call_verdict_check CHECK ((verdict = ANY (ARRAY['allow'::text, 'deny'::text, 'ask'::text])));
alter table signalbox.hold add constraint hold_closed CHECK (((state = 'open'::text) = (decided_at IS NULL)));
alter table signalbox.hold add constraint hold_conversation FOREIGN KEY (tenant_id, conversation_id) REFERENCES signalbox.conversation(tenant_id, id);
alter table signalbox.hold add constraint hold_decided CHECK (((state = 'decided'::text) = (decision IS NOT NULL)));
alter table signalbox.hold add constraint hold_kind_check CHECK ((kind = ANY (ARRAY['approval'::text, 'input'::text, 'client_tool'::text, 'account'::text, 'budget'::text, 'job'::text, 'operator'::text, 'newer_worker'::text])));
alter table signalbox.hold add constraint hold_of_one CHECK ((((run_id IS NULL) = (conversation_id IS NULL)) AND ((run_id IS NULL) = (gateway_call_id IS NOT NULL))));
alter table signalbox.hold add constraint hold_pkey PRIMARY KEY (id);
alter table signalbox.hold add constraint hold_run FOREIGN KEY (run_id) REFERENCES signalbox.run(id);
alter table signalbox.hold add constraint hold_state_check CHECK ((state = ANY (ARRAY['open'::text, 'decided'::text, 'expired'::text, 'withdrawn'::text])));
alter table signalbox.hold add constraint hold_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.idempotency add constraint idempotency_accepted_check CHECK ((accepted = ANY (ARRAY['started'::text, 'queued'::text, 'steered'::text])));
alter table signalbox.idempotency add constraint idempotency_pkey PRIMARY KEY (tenant_id, key);
alter table signalbox.idempotency add constraint idempotency_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.mcp_server add constraint mcp_server_pkey PRIMARY KEY (tenant_id, server);
alter table signalbox.mcp_server add constraint mcp_server_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.mcp_server add constraint mcp_server_transport_check CHECK ((transport = ANY (ARRAY['stdio'::text, 'http'::text, 'functions'::text])));
alter table signalbox.message add constraint message_conversation FOREIGN KEY (tenant_id, conversation_id) REFERENCES signalbox.conversation(tenant_id, id);
alter table signalbox.message add constraint message_id PRIMARY KEY (tenant_id, id);
alter table signalbox.message add constraint message_position UNIQUE (conversation_id, "position");
alter table signalbox.message add constraint message_role_check CHECK ((role = ANY (ARRAY['user'::text, 'assistant'::text])));
alter table signalbox.message add constraint message_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.migration add constraint migration_pkey PRIMARY KEY (number);
alter table signalbox.model_call add constraint model_call_closed CHECK (((state = 'executing'::text) = (finished_at IS NULL)));
alter table signalbox.model_call add constraint model_call_pkey PRIMARY KEY (id);
alter table signalbox.model_call add constraint model_call_state_check CHECK ((state = ANY (ARRAY['executing'::text, 'succeeded'::text, 'failed'::text, 'estimated'::text])));
alter table signalbox.model_call add constraint model_call_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.ownership add constraint ownership_conversation FOREIGN KEY (tenant_id, conversation_id) REFERENCES signalbox.conversation(tenant_id, id);
alter table signalbox.ownership add constraint ownership_generation_check CHECK ((generation >= 0));
alter table signalbox.ownership add constraint ownership_pkey PRIMARY KEY (conversation_id);
alter table signalbox.ownership add constraint ownership_ready CHECK (((ready_at IS NULL) OR ((owner IS NULL) AND (runtime IS NOT NULL))));
alter table signalbox.ownership add constraint ownership_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.policy add constraint policy_activated CHECK (((activated_at IS NULL) = (activated_by IS NULL)));
alter table signalbox.policy add constraint policy_id_check CHECK ((id ~~ 'pol\_%'::text));
alter table signalbox.policy add constraint policy_pkey PRIMARY KEY (id);
alter table signalbox.policy add constraint policy_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.policy add constraint policy_was_activated CHECK (((NOT active) OR (activated_at IS NOT NULL)));
alter table signalbox.process add constraint process_pkey PRIMARY KEY (incarnation);
alter table signalbox.process_offer add constraint process_offer_incarnation_fkey FOREIGN KEY (incarnation) REFERENCES signalbox.process(incarnation) ON DELETE CASCADE;
alter table signalbox.process_offer add constraint process_offer_pkey PRIMARY KEY (incarnation);
alter table signalbox.run add constraint run_cancel_cause_check CHECK ((cancel_cause = ANY (ARRAY['user_cancel'::text, 'superseded'::text, 'operator_stop'::text])));
alter table signalbox.run add constraint run_conversation FOREIGN KEY (tenant_id, conversation_id) REFERENCES signalbox.conversation(tenant_id, id);
alter table signalbox.run add constraint run_ended CHECK (((state = ANY (ARRAY['completed'::text, 'cancelled'::text, 'failed'::text, 'rolled_back'::text])) = ((reason IS NOT NULL) AND (finished_at IS NOT NULL))));
alter table signalbox.run add constraint run_log_kept_check CHECK ((log_kept = ANY (ARRAY['whole'::text, 'closed'::text, 'gone'::text])));
alter table signalbox.run add constraint run_owned CHECK (((state <> ALL (ARRAY['running'::text, 'finalizing'::text])) OR ((generation IS NOT NULL) AND (owner IS NOT NULL))));
alter table signalbox.run add constraint run_pkey PRIMARY KEY (id);
alter table signalbox.run add constraint run_position UNIQUE (conversation_id, "position");
alter table signalbox.run add constraint run_rung_check CHECK ((rung = ANY (ARRAY['fresh'::text, 'native'::text, 'repaired'::text, 'rebuilt'::text])));
alter table signalbox.run add constraint run_sealed CHECK (((state <> 'finalizing'::text) OR (conclusion IS NOT NULL)));
alter table signalbox.run add constraint run_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'admitted'::text, 'running'::text, 'suspended'::text, 'finalizing'::text, 'completed'::text, 'cancelled'::text, 'failed'::text, 'rolled_back'::text])));
alter table signalbox.run add constraint run_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.slot add constraint slot_bound CHECK (((run_id IS NULL) = (generation IS NULL)));
alter table signalbox.slot add constraint slot_pkey PRIMARY KEY (token_hash);
alter table signalbox.slot add constraint slot_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.snapshot add constraint snapshot_pkey PRIMARY KEY (tenant_id, hash);
alter table signalbox.snapshot add constraint snapshot_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.stop add constraint stop_kind_check CHECK ((kind = ANY (ARRAY['pause'::text, 'stop'::text])));
alter table signalbox.stop add constraint stop_lifted CHECK (((lifted_at IS NULL) = (lifted_by IS NULL)));
alter table signalbox.stop add constraint stop_pkey PRIMARY KEY (id);
alter table signalbox.stop add constraint stop_scope_check CHECK ((scope = ANY (ARRAY['run'::text, 'conversation'::text, 'agent'::text, 'tenant'::text])));
alter table signalbox.stop add constraint stop_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.store_identity add constraint store_identity_pkey PRIMARY KEY (singleton);
alter table signalbox.store_identity add constraint store_identity_singleton_check CHECK (singleton);
alter table signalbox.tool add constraint tool_approve_check CHECK ((approve = ANY (ARRAY['policy'::text, 'always'::text, 'never'::text])));
alter table signalbox.tool add constraint tool_classified_by_check CHECK ((classified_by = ANY (ARRAY['file'::text, 'operator'::text])));
alter table signalbox.tool add constraint tool_effect_check CHECK ((effect = ANY (ARRAY['read'::text, 'egress_read'::text, 'write'::text, 'irreversible'::text])));
alter table signalbox.tool add constraint tool_pkey PRIMARY KEY (tenant_id, server, tool);
alter table signalbox.tool add constraint tool_seen CHECK (((seen_definition IS NULL) = (seen_hash IS NULL)));
alter table signalbox.tool add constraint tool_state_check CHECK ((state = ANY (ARRAY['new'::text, 'quarantined'::text, 'approved'::text, 'drifted'::text])));
alter table signalbox.tool add constraint tool_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.tool add constraint tool_timeout_ms_check CHECK (((timeout_ms >= 100) AND (timeout_ms <= 3600000)));
alter table signalbox.tool_call add constraint tool_call_effect_check CHECK ((effect = ANY (ARRAY['read'::text, 'egress_read'::text, 'write'::text, 'irreversible'::text])));
alter table signalbox.tool_call add constraint tool_call_executing CHECK (((state <> 'executing'::text) OR ((process IS NOT NULL) AND (started_at IS NOT NULL))));
alter table signalbox.tool_call add constraint tool_call_outcome CHECK (((state <> ALL (ARRAY['succeeded'::text, 'failed'::text])) OR (result IS NOT NULL)));
alter table signalbox.tool_call add constraint tool_call_pkey PRIMARY KEY (id);
alter table signalbox.tool_call add constraint tool_call_place CHECK (((state = 'denied'::text) OR ((server IS NOT NULL) AND (tool IS NOT NULL))));
alter table signalbox.tool_call add constraint tool_call_state_check CHECK ((state = ANY (ARRAY['proposed'::text, 'awaiting_approval'::text, 'authorized'::text, 'executing'::text, 'succeeded'::text, 'failed'::text, 'unknown'::text, 'denied'::text, 'withdrawn'::text])));
alter table signalbox.tool_call add constraint tool_call_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.tool_call add constraint tool_call_use UNIQUE (run_id, tool_use_id);
alter table signalbox.tool_call add constraint tool_call_verdict_check CHECK ((verdict = ANY (ARRAY['allow'::text, 'deny'::text, 'ask'::text])));
alter table signalbox.tool_pin add constraint tool_pin_event_check CHECK ((event = ANY (ARRAY['trust'::text, 'hold'::text, 'approve'::text, 'drift'::text, 'restore'::text, 'move'::text])));
alter table signalbox.tool_pin add constraint tool_pin_pkey PRIMARY KEY (id);
alter table signalbox.tool_pin add constraint tool_pin_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.transcript_entry add constraint transcript_entry_kind_check CHECK ((kind = ANY (ARRAY['item'::text, 'state'::text])));
alter table signalbox.transcript_entry add constraint transcript_entry_once UNIQUE (conversation_id, stream, entry_id, generation);
alter table signalbox.transcript_entry add constraint transcript_entry_pkey PRIMARY KEY (conversation_id, "position");
alter table signalbox.transcript_entry add constraint transcript_entry_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.upkeep add constraint upkeep_pkey PRIMARY KEY (singleton);
alter table signalbox.upkeep add constraint upkeep_singleton_check CHECK (singleton);
alter table signalbox.webhook add constraint webhook_disabled CHECK (((disabled_at IS NULL) = (disabled_cause IS NULL)));
alter table signalbox.webhook add constraint webhook_disabled_cause_check CHECK ((disabled_cause = ANY (ARRAY['request'::text, 'failing'::text, 'gone'::text])));
alter table signalbox.webhook add constraint webhook_pkey PRIMARY KEY (id);
alter table signalbox.webhook add constraint webhook_previous CHECK (((previous_secret IS NULL) = (previous_until IS NULL)));
alter table signalbox.webhook add constraint webhook_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.webhook_attempt add constraint webhook_attempt_delivery_id_fkey FOREIGN KEY (delivery_id) REFERENCES signalbox.webhook_delivery(id) ON DELETE CASCADE;
alter table signalbox.webhook_attempt add constraint webhook_attempt_pkey PRIMARY KEY (delivery_id, number);
alter table signalbox.webhook_attempt add constraint webhook_attempt_tenant_id_check CHECK ((tenant_id <> ''::text));
alter table signalbox.webhook_delivery add constraint webhook_delivery_due CHECK (((state = 'pending'::text) = (next_at IS NOT NULL)));
alter table signalbox.webhook_delivery add constraint webhook_delivery_finished CHECK (((state = 'pending'::text) = (finished_at IS NULL)));
alter table signalbox.webhook_delivery add constraint webhook_delivery_pkey PRIMARY KEY (id);
alter table signalbox.webhook_delivery add constraint webhook_delivery_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text])));
alter table signalbox.webhook_delivery add constraint webhook_delivery_tenant_id_check CHECK ((tenant_id <> ''::text));

CREATE INDEX api_key_tenant ON signalbox.api_key USING btree (tenant_id, id);
CREATE INDEX audit_pending_order ON signalbox.audit_pending USING btree (xid, id);
CREATE INDEX conversation_archived ON signalbox.conversation USING btree (tenant_id, id) WHERE (archived_at IS NOT NULL);
CREATE INDEX conversation_by_agent ON signalbox.conversation USING btree (tenant_id, agent_id, id);
CREATE INDEX conversation_leaving ON signalbox.conversation USING btree (id) WHERE ((delete_requested_at IS NOT NULL) AND (erased_at IS NULL));
CREATE INDEX conversation_listed ON signalbox.conversation USING btree (tenant_id, id) WHERE (archived_at IS NULL);
CREATE INDEX conversation_participant ON signalbox.conversation USING btree (tenant_id, participant, id) WHERE (participant IS NOT NULL);
CREATE INDEX conversation_search ON signalbox.conversation USING gin (signalbox.search_vector(tenant_id, title)) WHERE (title IS NOT NULL);
CREATE INDEX event_feed ON signalbox.event USING btree (tenant_id, "position", conversation_id, sequence) WHERE (type <> ALL (ARRAY['text.delta'::text, 'thinking.delta'::text]));
CREATE UNIQUE INDEX event_one_ending ON signalbox.event USING btree (run_id) WHERE (type = 'run.finished'::text);
CREATE INDEX gateway_call_age ON signalbox.gateway_call USING btree (finished_at);
CREATE UNIQUE INDEX gateway_call_asked ON signalbox.gateway_call USING btree (principal, call_digest) WHERE (state = ANY (ARRAY['awaiting_approval'::text, 'authorized'::text]));
CREATE INDEX gateway_call_principal ON signalbox.gateway_call USING btree (principal, started_at);
CREATE INDEX gateway_call_process ON signalbox.gateway_call USING btree (process) WHERE (state = 'executing'::text);
CREATE INDEX gateway_call_tenant ON signalbox.gateway_call USING btree (tenant_id, id);
CREATE INDEX hold_by_conversation ON signalbox.hold USING btree (conversation_id);
CREATE INDEX hold_due ON signalbox.hold USING btree (expires_at) WHERE ((state = 'open'::text) AND (expires_at IS NOT NULL));
CREATE INDEX hold_gateway ON signalbox.hold USING btree (gateway_call_id) WHERE (gateway_call_id IS NOT NULL);
CREATE INDEX hold_paused ON signalbox.hold USING btree (id) WHERE ((state = 'open'::text) AND (kind = 'operator'::text));
CREATE INDEX hold_run_open ON signalbox.hold USING btree (run_id) WHERE (state = 'open'::text);
CREATE INDEX hold_tenant ON signalbox.hold USING btree (tenant_id, id);
CREATE INDEX idempotency_age ON signalbox.idempotency USING btree (created_at);
CREATE INDEX message_search ON signalbox.message USING gin (signalbox.search_vector(tenant_id, text));
CREATE INDEX model_call_open ON signalbox.model_call USING btree (run_id) WHERE (state = 'executing'::text);
CREATE INDEX model_call_process ON signalbox.model_call USING btree (process) WHERE (state = 'executing'::text);
CREATE INDEX model_call_run ON signalbox.model_call USING btree (run_id, id);
CREATE INDEX ownership_owner ON signalbox.ownership USING btree (owner) WHERE (owner IS NOT NULL);
CREATE INDEX ownership_ready ON signalbox.ownership USING btree (runtime, ready_at) WHERE (ready_at IS NOT NULL);
CREATE UNIQUE INDEX policy_active ON signalbox.policy USING btree (tenant_id) WHERE active;
CREATE INDEX policy_of_tenant ON signalbox.policy USING btree (tenant_id, id);
CREATE INDEX process_dead ON signalbox.process USING btree (incarnation) WHERE (dead_at IS NOT NULL);
CREATE INDEX run_log_kept ON signalbox.run USING btree (finished_at) WHERE ((log_kept <> 'gone'::text) AND (finished_at IS NOT NULL));
CREATE INDEX run_log_whole ON signalbox.run USING btree (finished_at) WHERE ((log_kept = 'whole'::text) AND (finished_at IS NOT NULL));
CREATE UNIQUE INDEX run_one_active ON signalbox.run USING btree (conversation_id) WHERE (state = ANY (ARRAY['admitted'::text, 'running'::text, 'suspended'::text, 'finalizing'::text]));
CREATE INDEX run_open ON signalbox.run USING btree (tenant_id) WHERE (state = ANY (ARRAY['queued'::text, 'admitted'::text, 'running'::text, 'finalizing'::text]));
CREATE INDEX run_queue ON signalbox.run USING btree (conversation_id, "position") WHERE (state = 'queued'::text);
CREATE INDEX run_tenant ON signalbox.run USING btree (tenant_id, id);
CREATE INDEX run_unfinished ON signalbox.run USING btree (tenant_id, id) WHERE (finished_at IS NULL);
CREATE INDEX slot_age ON signalbox.slot USING btree (created_at);
CREATE INDEX slot_conversation ON signalbox.slot USING btree (conversation_id);
CREATE UNIQUE INDEX stop_standing ON signalbox.stop USING btree (tenant_id, scope, subject, kind) WHERE (lifted_at IS NULL);
CREATE INDEX stop_tenant ON signalbox.stop USING btree (tenant_id, id);
CREATE INDEX tool_call_answered ON signalbox.tool_call USING btree (conversation_id, finished_at) WHERE ((result IS NOT NULL) AND (replay_of IS NULL));
CREATE INDEX tool_call_hold ON signalbox.tool_call USING btree (hold_id) WHERE (hold_id IS NOT NULL);
CREATE INDEX tool_call_message ON signalbox.tool_call USING btree (model_call_id, ordinal);
CREATE INDEX tool_call_process ON signalbox.tool_call USING btree (process) WHERE (state = 'executing'::text);
CREATE INDEX tool_pin_of ON signalbox.tool_pin USING btree (tenant_id, server, tool, id);
CREATE INDEX transcript_entry_cut ON signalbox.transcript_entry USING btree (conversation_id, "position") WHERE cut;
CREATE INDEX transcript_entry_state ON signalbox.transcript_entry USING btree (conversation_id, stream, "position") WHERE (kind = 'state'::text);
CREATE INDEX webhook_delivery_about ON signalbox.webhook_delivery USING btree (conversation_id) WHERE (conversation_id IS NOT NULL);
CREATE INDEX webhook_delivery_age ON signalbox.webhook_delivery USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX webhook_delivery_due ON signalbox.webhook_delivery USING btree (webhook_id, next_at) WHERE (next_at IS NOT NULL);
CREATE INDEX webhook_delivery_listed ON signalbox.webhook_delivery USING btree (webhook_id, id);
CREATE INDEX webhook_tenant ON signalbox.webhook USING btree (tenant_id, id);
CREATE INDEX webhook_wants ON signalbox.webhook USING btree (tenant_id) WHERE (disabled_at IS NULL);

create type signalbox.gate_entry as (code text, slot signalbox.slot, run signalbox.run, stop_id text);

alter table signalbox.agent enable row level security;
alter table signalbox.agent force row level security;
alter table signalbox.agent_revision enable row level security;
alter table signalbox.agent_revision force row level security;
alter table signalbox.api_key enable row level security;
alter table signalbox.api_key force row level security;
alter table signalbox.audit_pending enable row level security;
alter table signalbox.audit_pending force row level security;
alter table signalbox.conversation enable row level security;
alter table signalbox.conversation force row level security;
alter table signalbox.database_start enable row level security;
alter table signalbox.database_start force row level security;
alter table signalbox.era enable row level security;
alter table signalbox.era force row level security;
alter table signalbox.event enable row level security;
alter table signalbox.event force row level security;
alter table signalbox.feed_horizon enable row level security;
alter table signalbox.feed_horizon force row level security;
alter table signalbox.gateway_call enable row level security;
alter table signalbox.gateway_call force row level security;
alter table signalbox.hold enable row level security;
alter table signalbox.hold force row level security;
alter table signalbox.idempotency enable row level security;
alter table signalbox.idempotency force row level security;
alter table signalbox.mcp_server enable row level security;
alter table signalbox.mcp_server force row level security;
alter table signalbox.message enable row level security;
alter table signalbox.message force row level security;
alter table signalbox.migration enable row level security;
alter table signalbox.migration force row level security;
alter table signalbox.model_call enable row level security;
alter table signalbox.model_call force row level security;
alter table signalbox.ownership enable row level security;
alter table signalbox.ownership force row level security;
alter table signalbox.policy enable row level security;
alter table signalbox.policy force row level security;
alter table signalbox.process enable row level security;
alter table signalbox.process force row level security;
alter table signalbox.process_offer enable row level security;
alter table signalbox.process_offer force row level security;
alter table signalbox.run enable row level security;
alter table signalbox.run force row level security;
alter table signalbox.slot enable row level security;
alter table signalbox.slot force row level security;
alter table signalbox.snapshot enable row level security;
alter table signalbox.snapshot force row level security;
alter table signalbox.stop enable row level security;
alter table signalbox.stop force row level security;
alter table signalbox.store_identity enable row level security;
alter table signalbox.store_identity force row level security;
alter table signalbox.tool enable row level security;
alter table signalbox.tool force row level security;
alter table signalbox.tool_call enable row level security;
alter table signalbox.tool_call force row level security;
alter table signalbox.tool_pin enable row level security;
alter table signalbox.tool_pin force row level security;
alter table signalbox.transcript_entry enable row level security;
alter table signalbox.transcript_entry force row level security;
alter table signalbox.upkeep enable row level security;
alter table signalbox.upkeep force row level security;
alter table signalbox.webhook enable row level security;
alter table signalbox.webhook force row level security;
alter table signalbox.webhook_attempt enable row level security;
alter table signalbox.webhook_attempt force row level security;
alter table signalbox.webhook_delivery enable row level security;
alter table signalbox.webhook_delivery force row level security;

create policy own_tenant on signalbox.agent for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.agent for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.agent_revision for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.agent_revision for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.api_key for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.api_key for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.audit_pending for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.audit_pending for all to signalbox_run using (true) with check (true);
create policy not_deleted on signalbox.conversation for select to signalbox_app using ((deleted_at IS NULL));
create policy own_tenant on signalbox.conversation for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.conversation for all to signalbox_run using (true) with check (true);
create policy run_side on signalbox.database_start for all to signalbox_run using (true) with check (true);
create policy everybody on signalbox.era for select to signalbox_app using (true);
create policy run_side on signalbox.era for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.event for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.event for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.feed_horizon for select to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.feed_horizon for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.gateway_call for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.gateway_call for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.hold for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.hold for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.idempotency for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.idempotency for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.mcp_server for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy own_tenant on signalbox.message for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.message for all to signalbox_run using (true) with check (true);
create policy migrations on signalbox.migration for all to signalbox_owner using (true) with check (true);
create policy own_tenant on signalbox.model_call for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.model_call for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.ownership for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.ownership for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.policy for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.policy for select to signalbox_run using (true);
create policy presence on signalbox.process for select to signalbox_app using (true);
create policy run_side on signalbox.process for all to signalbox_run using (true) with check (true);
create policy run_side on signalbox.process_offer for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.run for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.run for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.slot for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.slot for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.snapshot for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.snapshot for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.stop for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.stop for all to signalbox_run using (true) with check (true);
create policy everybody on signalbox.store_identity for select to signalbox_app using (true);
create policy run_side on signalbox.store_identity for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.tool for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.tool for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.tool_call for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.tool_call for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.tool_pin for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy own_tenant on signalbox.transcript_entry for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.transcript_entry for all to signalbox_run using (true) with check (true);
create policy run_side on signalbox.upkeep for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.webhook for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.webhook for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.webhook_attempt for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.webhook_attempt for all to signalbox_run using (true) with check (true);
create policy own_tenant on signalbox.webhook_delivery for all to signalbox_app using ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text))) with check ((tenant_id = NULLIF(current_setting('signalbox.tenant'::text, true), ''::text)));
create policy run_side on signalbox.webhook_delivery for all to signalbox_run using (true) with check (true);

grant insert, select, update on signalbox.agent to signalbox_app;
grant select on signalbox.agent to signalbox_run;
grant insert, select on signalbox.agent_revision to signalbox_app;
grant insert, select, update on signalbox.api_key to signalbox_app;
grant select on signalbox.api_key to signalbox_run;
grant insert on signalbox.audit_pending to signalbox_app;
grant insert on signalbox.audit_pending to signalbox_run;
grant insert, select, update on signalbox.conversation to signalbox_app;
grant select, update on signalbox.conversation to signalbox_run;
grant insert, select on signalbox.database_start to signalbox_run;
grant select on signalbox.era to signalbox_app;
grant insert, select, update on signalbox.era to signalbox_run;
grant insert, select on signalbox.event to signalbox_app;
grant delete, insert, select on signalbox.event to signalbox_run;
grant select on signalbox.feed_horizon to signalbox_app;
grant insert, select, update on signalbox.feed_horizon to signalbox_run;
grant select, update on signalbox.gateway_call to signalbox_app;
grant delete, insert, select, update on signalbox.gateway_call to signalbox_run;
grant insert, select, update on signalbox.hold to signalbox_app;
grant delete, insert, select, update on signalbox.hold to signalbox_run;
grant insert, select, update on signalbox.idempotency to signalbox_app;
grant delete, select, update on signalbox.idempotency to signalbox_run;
grant insert, select, update on signalbox.mcp_server to signalbox_app;
grant insert, select, update on signalbox.message to signalbox_app;
grant insert, select, update on signalbox.message to signalbox_run;
grant select, update on signalbox.model_call to signalbox_app;
grant insert, select, update on signalbox.model_call to signalbox_run;
grant insert, select, update on signalbox.ownership to signalbox_app;
grant select, update on signalbox.ownership to signalbox_run;
grant insert, select on signalbox.policy to signalbox_app;
grant select on signalbox.policy to signalbox_run;
grant select on signalbox.process to signalbox_app;
grant delete, insert, select, update on signalbox.process to signalbox_run;
grant delete, insert, select, update on signalbox.process_offer to signalbox_run;
grant insert, select, update on signalbox.run to signalbox_app;
grant select, update on signalbox.run to signalbox_run;
grant delete, insert, select, update on signalbox.slot to signalbox_app;
grant delete, insert, select, update on signalbox.slot to signalbox_run;
grant insert, select on signalbox.snapshot to signalbox_app;
grant select on signalbox.snapshot to signalbox_run;
grant insert, select, update on signalbox.stop to signalbox_app;
grant insert, select, update on signalbox.stop to signalbox_run;
grant select on signalbox.store_identity to signalbox_app;
grant insert, select, update on signalbox.store_identity to signalbox_run;
grant insert, select, update on signalbox.tool to signalbox_app;
grant select on signalbox.tool to signalbox_run;
grant select, update on signalbox.tool_call to signalbox_app;
grant insert, select, update on signalbox.tool_call to signalbox_run;
grant delete, insert, select on signalbox.tool_pin to signalbox_app;
grant delete, select, update on signalbox.transcript_entry to signalbox_app;
grant delete, insert, select, update on signalbox.transcript_entry to signalbox_run;
grant insert, select, update on signalbox.upkeep to signalbox_run;
grant delete, insert, select, update on signalbox.webhook to signalbox_app;
grant select, update on signalbox.webhook to signalbox_run;
grant select on signalbox.webhook_attempt to signalbox_app;
grant delete, insert, select, update on signalbox.webhook_attempt to signalbox_run;
grant delete, insert, select, update on signalbox.webhook_delivery to signalbox_app;
grant delete, insert, select, update on signalbox.webhook_delivery to signalbox_run;

CREATE TRIGGER run_accepted BEFORE INSERT ON signalbox.run FOR EACH ROW EXECUTE FUNCTION signalbox.accept_run();
CREATE TRIGGER run_ending BEFORE UPDATE OF state ON signalbox.run FOR EACH ROW WHEN (((old.state = ANY (ARRAY['completed'::text, 'cancelled'::text, 'failed'::text, 'rolled_back'::text])) AND (new.state IS DISTINCT FROM old.state))) EXECUTE FUNCTION signalbox.keep_ending();
CREATE CONSTRAINT TRIGGER run_followed AFTER UPDATE OF state ON signalbox.run DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.state = ANY (ARRAY['completed'::text, 'cancelled'::text, 'failed'::text, 'rolled_back'::text])) AND (old.state IS DISTINCT FROM new.state))) EXECUTE FUNCTION signalbox.follow_ending();
CREATE TRIGGER run_not_stopped BEFORE INSERT ON signalbox.run FOR EACH ROW EXECUTE FUNCTION signalbox.refuse_stopped();

CREATE OR REPLACE FUNCTION signalbox.accept_run()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.admit(p_tenant text, p_conversation text, p_message text, p_run text, p_actor text, p_user text, p_text text, p_metadata jsonb, p_when_busy text, p_agent text, p_agent_revision integer, p_runtime text, p_snapshot_hash text, p_snapshot_body text, p_model_call_limit integer, p_tool_call_limit integer, p_wall_clock_ms bigint, p_requested jsonb, p_granted jsonb, p_trace text, p_key text, p_body_hash text, p_queue_limit integer, p_claim_for integer, p_slot_hash text, p_worker text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_generation bigint;
  v_known signalbox.idempotency;
  v_active text;
  v_queued integer;
  v_before integer;
  v_at timestamptz;
  v_cursor bigint;
  v_run signalbox.run;
  v_claim json;
  v_bound boolean := false;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  -- The order in which this lock is given is the order of acknowledgement.
  select o.generation into v_generation from signalbox.ownership o
  where o.conversation_id = p_conversation and o.tenant_id = p_tenant for update;
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  select c.last_sequence into v_cursor from signalbox.conversation c
  where c.id = p_conversation and (p_user is null or c.participant = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  end if;

  if p_key is not null then
    select i.* into v_known from signalbox.idempotency i where i.tenant_id = p_tenant and i.key = p_key;
    if found then
      return signalbox.admitted_before(v_known, p_conversation, p_body_hash);
    end if;
  end if;

  select r.id into v_active from signalbox.run r
  where r.conversation_id = p_conversation and r.state in ('admitted', 'running', 'suspended', 'finalizing');
  select count(*) into v_queued from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'queued' and r.consumed_at is null;
  v_before := v_queued + case when v_active is null then 0 else 1 end;
  if v_before > 0 and p_when_busy = 'reject' then
    return json_build_object('code', 'conversation_busy', 'activeRunId', v_active);
  end if;
  if v_before > 0 and v_queued >= p_queue_limit then
    return json_build_object('code', 'queue_full');
  end if;

  if p_snapshot_body is not null then
    insert into signalbox.snapshot (tenant_id, hash, body) values (p_tenant, p_snapshot_hash, p_snapshot_body)
    on conflict do nothing;
  elsif not exists (select from signalbox.snapshot s where s.tenant_id = p_tenant and s.hash = p_snapshot_hash) then
    return json_build_object('missing', true);
  end if;

  v_at := signalbox.clock();
  if p_key is not null then
    insert into signalbox.idempotency (tenant_id, key, route, body_hash, conversation_id, run_id, message_id, accepted,
                                       position, cursor)
    values (p_tenant, p_key, 'message', p_body_hash, p_conversation, p_run, p_message,
            case when v_before = 0 then 'started' else 'queued' end, v_before, v_cursor)
    on conflict do nothing;
    if not found then
      -- Another conversation used the key while we waited for its transaction.
      select i.* into strict v_known from signalbox.idempotency i where i.tenant_id = p_tenant and i.key = p_key;
      return signalbox.admitted_before(v_known, p_conversation, p_body_hash);
    end if;
  end if;

  insert into signalbox.run (id, tenant_id, conversation_id, message_id, agent_id, agent_revision, snapshot_hash,
                             runtime, state, position, cursor, actor, requested, granted, trace_id, model_call_limit,
                             tool_call_limit, wall_clock_ms, accepted_at)
  values (p_run, p_tenant, p_conversation, p_message, p_agent, p_agent_revision, p_snapshot_hash, p_runtime,
          case when v_before = 0 then 'admitted' else 'queued' end,
          1 + coalesce((select max(r.position) from signalbox.run r where r.conversation_id = p_conversation), 0),
          v_cursor, p_actor, p_requested, p_granted, p_trace, p_model_call_limit, p_tool_call_limit, p_wall_clock_ms,
          v_at)
  returning * into v_run;
  insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, metadata, position, created_at)
  values (p_message, p_tenant, p_conversation, p_run, 'user', p_text, p_metadata, v_run.position * 2, v_at);
  perform signalbox.audit(p_tenant, 'message_received', p_actor, p_conversation, p_run, null,
    '{"messageId":' || signalbox.quoted(p_message)
    || ',"textDigest":"' || encode(sha256(convert_to(p_text, 'UTF8')), 'hex') || '"}');

  if v_before > 0 then
    perform signalbox.write_event(v_run, v_generation, 1048575 - v_before, p_message, 'queue.moved',
      json_build_object('messageId', p_message, 'position', v_before));
  else
    perform signalbox.note_admitted(v_run, v_generation);
    if p_claim_for is not null and signalbox.process_lives(p_claim_for) then
      v_claim := signalbox.take(p_conversation, p_claim_for, 'ready');
      if v_claim is not null and p_slot_hash is not null then
        select r.* into strict v_run from signalbox.run r where r.id = p_run;
        v_bound := signalbox.put_slot(v_run, p_slot_hash, p_worker);
      end if;
    else
      update signalbox.ownership set runtime = p_runtime, ready_at = v_at where conversation_id = p_conversation;
    end if;
  end if;
  return json_build_object('kind', 'admitted', 'messageId', p_message, 'runId', p_run,
    'accepted', case when v_before = 0 then 'started' else 'queued' end, 'position', v_before, 'cursor', v_cursor,
    'claim', v_claim, 'bound', v_bound, 'sequence', signalbox.newest(p_conversation),
    'events', (select json_agg(e order by e.sequence) from signalbox.event e
               where e.conversation_id = p_conversation and e.sequence > v_cursor));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.admit_message(p_tenant text, p_conversation text, p_message text, p_run text, p_actor text, p_user text, p_text text, p_metadata jsonb, p_when_busy text, p_agent text, p_agent_revision integer, p_runtime text, p_snapshot_hash text, p_snapshot_body text, p_model_call_limit integer, p_tool_call_limit integer, p_wall_clock_ms bigint, p_requested jsonb, p_granted jsonb, p_trace text, p_key text, p_body_hash text, p_queue_limit integer, p_claim_for integer, p_slot_hash text, p_worker text, p_minute_limit integer, p_tenant_limit integer, p_steerable text[])
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_generation bigint;
  v_known signalbox.idempotency;
  v_active signalbox.run;
  v_queued integer;
  v_before integer;
  v_steer text;
  v_at timestamptz;
  v_cursor bigint;
  v_run signalbox.run;
  v_accepted text;
  v_why text;
  v_refusal json;
  v_claim json;
  v_bound boolean := false;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  -- The order in which this lock is given is the order of acknowledgement.
  select o.generation into v_generation from signalbox.ownership o
  where o.conversation_id = p_conversation and o.tenant_id = p_tenant for update;
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  -- Not before the lock: who waited longer for it was acknowledged later.
  v_at := signalbox.clock();
  select c.last_sequence into v_cursor from signalbox.conversation c
  where c.id = p_conversation and (p_user is null or c.participant = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  if p_key is not null then
    select i.* into v_known from signalbox.idempotency i where i.tenant_id = p_tenant and i.key = p_key;
    if found then
      return signalbox.admitted_before(v_known, p_conversation, p_body_hash);
    end if;
  end if;
  if p_requested ? 'retryOf' then
    v_why := signalbox.refused_retry(p_tenant, p_requested ->> 'retryOf', p_requested ? 'retryForced');
    if v_why is not null then
      return signalbox.refused(v_why);
    end if;
  end if;

  select r.* into v_active from signalbox.run r
  where r.conversation_id = p_conversation and r.state in ('admitted', 'running', 'suspended', 'finalizing');
  select count(*), case when v_active.state = 'running' and v_active.cancel_requested_at is null
                          and v_active.runtime = any (p_steerable)
                          and count(*) = count(*) filter (where r.steer_into = v_active.id) then v_active.id end
  into v_queued, v_steer
  from signalbox.run r where r.conversation_id = p_conversation and r.state = 'queued' and r.consumed_at is null;
  v_steer := case when p_when_busy = 'steer' then v_steer end;
  v_before := v_queued + case when v_active.id is null then 0 else 1 end;
  if v_before > 0 and p_when_busy = 'reject' then
    return json_strip_nulls(json_build_object('code', 'conversation_busy', 'activeRunId', v_active.id,
      'waitingFor', case when v_active.state = 'suspended' then signalbox.waiting_for(v_active.id) end));
  elsif v_before > 0 and v_queued >= p_queue_limit then
    return json_build_object('code', 'queue_full', 'limit', p_queue_limit);
  end if;
  if p_snapshot_body is not null then
    insert into signalbox.snapshot (tenant_id, hash, body) values (p_tenant, p_snapshot_hash, p_snapshot_body)
    on conflict do nothing;
  elsif not exists (select from signalbox.snapshot s where s.tenant_id = p_tenant and s.hash = p_snapshot_hash) then
    return json_build_object('missing', true);
  end if;
  v_refusal := signalbox.over_limit(p_tenant, p_conversation, p_minute_limit, p_tenant_limit);
  if v_refusal is not null then
    return v_refusal;
  end if;
  v_accepted := case when v_before = 0 then 'started' when v_steer is null then 'queued' else 'steered' end;
  if p_key is not null then
    insert into signalbox.idempotency (tenant_id, key, route, body_hash, conversation_id, run_id, message_id, accepted,
                                       position, cursor)
    values (p_tenant, p_key, 'message', p_body_hash, p_conversation, p_run, p_message, v_accepted, v_before, v_cursor)
    on conflict do nothing;
    if not found then
      -- Another conversation used the key while we waited for its transaction.
      select i.* into strict v_known from signalbox.idempotency i where i.tenant_id = p_tenant and i.key = p_key;
      return signalbox.admitted_before(v_known, p_conversation, p_body_hash);
    end if;
  end if;

  insert into signalbox.run (id, tenant_id, conversation_id, message_id, agent_id, agent_revision, snapshot_hash,
                             runtime, state, position, cursor, actor, requested, granted, trace_id, model_call_limit,
                             tool_call_limit, wall_clock_ms, accepted_at, steer_into)
  values (p_run, p_tenant, p_conversation, p_message, p_agent, p_agent_revision, p_snapshot_hash, p_runtime,
          case when v_before = 0 then 'admitted' else 'queued' end,
          1 + coalesce((select max(r.position) from signalbox.run r where r.conversation_id = p_conversation), 0),
          v_cursor, p_actor, p_requested, p_granted, p_trace, p_model_call_limit, p_tool_call_limit, p_wall_clock_ms,
          v_at, v_steer)
  returning * into v_run;
  insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, metadata, position, created_at)
  values (p_message, p_tenant, p_conversation, p_run, 'user', p_text, p_metadata, v_run.position * 2, v_at);
  perform signalbox.audit(p_tenant, 'message_received', p_actor, p_conversation, p_run, null,
    '{"messageId":' || signalbox.quoted(p_message)
    || ',"textDigest":"' || encode(sha256(convert_to(p_text, 'UTF8')), 'hex') || '"}');
  if p_requested ? 'retryOf' then
    perform signalbox.audit(p_tenant, 'run_retried', p_actor, p_conversation, p_requested ->> 'retryOf', null,
      '{"force":' || coalesce(p_requested ->> 'retryForced', 'false') || ',"newRunId":' || signalbox.quoted(p_run) || '}');
  end if;

  if v_before = 0 then
    perform signalbox.note_admitted(v_run, v_generation);
    update signalbox.ownership set runtime = p_runtime, ready_at = v_at where conversation_id = p_conversation;
  elsif p_when_busy in ('interrupt', 'rollback')
      and signalbox.end_from_outside(v_active, v_generation, 'superseded', p_when_busy = 'rollback', p_actor) = 'ended' then
    -- The line has moved on already, this message with it.
    v_before := v_before - 1;
    v_accepted := case when v_before = 0 then 'started' else 'queued' end;
    update signalbox.idempotency set accepted = v_accepted, position = v_before where tenant_id = p_tenant and key = p_key;
  else
    perform signalbox.write_event(v_run, v_generation, 1048575 - v_before, p_message, 'queue.moved',
      json_build_object('messageId', p_message, 'position', v_before));
  end if;
  if v_before = 0 and p_claim_for is not null and signalbox.process_lives(p_claim_for) then
    v_claim := signalbox.take(p_conversation, p_claim_for, 'ready');
    if v_claim is not null and p_slot_hash is not null then
      select r.* into strict v_run from signalbox.run r where r.id = p_run;
      v_bound := signalbox.put_slot(v_run, p_slot_hash, p_worker);
    end if;
  end if;
  return json_build_object('kind', 'admitted', 'messageId', p_message, 'runId', p_run, 'accepted', v_accepted,
    'position', v_before, 'cursor', v_cursor, 'claim', v_claim, 'bound', v_bound,
    'sequence', signalbox.newest(p_conversation),
    'events', (select json_agg(e order by e.sequence) from signalbox.event e
               where e.conversation_id = p_conversation and e.sequence > v_cursor));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.admitted_before(p_known signalbox.idempotency, p_conversation text, p_body_hash text)
 RETURNS json
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (((p_known).conversation_id = p_conversation) AND ((p_known).body_hash = p_body_hash) AND ((p_known).run_id IS NOT NULL)) THEN json_build_object('kind', 'replayed', 'messageId', (p_known).message_id, 'runId', (p_known).run_id, 'accepted', (p_known).accepted, 'position', (p_known)."position", 'cursor', (p_known).cursor, 'claim', NULL::unknown) ELSE json_build_object('code', 'idempotency_key_reused') END
;
CREATE OR REPLACE FUNCTION signalbox.adopt_transcript(p_run signalbox.run, p_generation bigint)
 RETURNS text
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_position bigint;
  v_from bigint := signalbox.orphaned_generation(p_run.conversation_id, p_generation);
  v_leaf text;
  v_count bigint;
begin
  select c.leaf_position into strict v_position from signalbox.conversation c
  where c.id = p_run.conversation_id for no key update;
  if v_from is not null and not exists (
       select from signalbox.transcript_entry t
       where t.conversation_id = p_run.conversation_id and t.position > v_position and t.generation = p_generation)
  then
    update signalbox.transcript_entry t set generation = p_generation
    where t.conversation_id = p_run.conversation_id and t.position > v_position and t.generation = v_from
      and not t.cut;
    get diagnostics v_count = row_count;
    perform signalbox.audit(p_run.tenant_id, 'transcript_adopted', p_run.actor, p_run.conversation_id, p_run.id,
      p_generation, '{"entryCount":' || v_count || ',"fromGeneration":' || v_from || '}');
  end if;
  select t.entry_id into v_leaf from signalbox.transcript_entry t
  where t.conversation_id = p_run.conversation_id and t.position > v_position and t.generation = p_generation
    and t.stream = '' and not t.cut
  order by t.position desc limit 1;
  return v_leaf;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.answer_position(p_run signalbox.run)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
begin
  return 1 + 2 * greatest(p_run.position, (
    select max(r.position) from signalbox.run r
    where r.conversation_id = p_run.conversation_id and r.state = 'queued' and r.steer_into = p_run.id
      and r.consumed_at is not null));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.answering(p_tenant text, p_user text, p_conversation text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  return (
    select json_build_object('agentId', a.id, 'name', a.name, 'revision', r.revision, 'runtime', r.runtime,
      'definition', r.definition, 'createdAtMs', signalbox.unix_ms(a.created_at), 'participant', c.participant,
      'pins', coalesce((
        select json_agg(json_build_object('server', t.server, 'tool', t.tool, 'title', t.title, 'effect', t.effect,
                                          'definition', t.definition, 'definitionHash', t.definition_hash))
        from jsonb_array_elements_text(r.definition -> 'tools') as named(reference)
        join signalbox.tool t on t.tenant_id = p_tenant
          and t.server = split_part(named.reference, '/', 1)
          and t.tool = substr(named.reference, strpos(named.reference, '/') + 1)), '[]'::json))
    from signalbox.conversation c
    join signalbox.agent a on a.id = c.agent_id and a.tenant_id = p_tenant
    join signalbox.agent_revision r on r.agent_id = a.id and r.revision = a.revision
    where c.id = p_conversation and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.append_behind(p_token_hash text, p_behind text, p_kinds text[], p_entries text[], p_streams text[], p_bodies bytea[])
 RETURNS json
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
  v_position bigint;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  perform from signalbox.conversation c where c.id = v_run.conversation_id for no key update;
  select t.position into v_position
  from signalbox.conversation c join signalbox.transcript_entry t on t.conversation_id = c.id
  where c.id = v_run.conversation_id and t.stream = '' and t.entry_id = p_behind and not t.cut
    and ((t.position > c.leaf_position and t.generation = v_run.generation)
         or (t.position <= c.leaf_position and t.entry_id = c.leaf_entry))
  order by t.position desc limit 1;
  if not found then
    return json_build_object('code', 'transcript_corrupt');
  end if;
  delete from signalbox.transcript_entry t
  where t.conversation_id = v_run.conversation_id and t.position > v_position and t.generation = v_run.generation;
  return signalbox.append_transcript(p_token_hash, p_kinds, p_entries, p_streams, p_bodies);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.append_compacted(p_token_hash text, p_behind text, p_entry text, p_kept text[], p_kinds text[], p_entries text[], p_streams text[], p_bodies bytea[])
 RETURNS json
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_answer json;
  v_run signalbox.run;
begin
  v_answer := case when p_behind is null
    then signalbox.append_transcript(p_token_hash, p_kinds, p_entries, p_streams, p_bodies)
    else signalbox.append_behind(p_token_hash, p_behind, p_kinds, p_entries, p_streams, p_bodies) end;
  if v_answer ->> 'code' is not null then
    return v_answer;
  end if;
  v_run := (signalbox.enter_gate(p_token_hash, null)).run;
  update signalbox.transcript_entry t set kept_entry_ids = p_kept
  from signalbox.conversation c
  where c.id = v_run.conversation_id and t.conversation_id = c.id and t.stream = '' and t.entry_id = p_entry
    and t.generation = v_run.generation and t.position > c.leaf_position and not t.cut;
  if not found then
    raise exception using errcode = 'SB001', message = 'transcript_corrupt';
  end if;
  return v_answer;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.append_events(p_conversations text[], p_runs text[], p_generations bigint[], p_counts integer[], p_items text[], p_revisions bigint[], p_types text[], p_turns text[], p_data text[])
 RETURNS TABLE(conversation_id text, last_sequence bigint)
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.append_few(p_conversations text[], p_runs text[], p_generations bigint[], p_counts integer[], p_items text[], p_revisions bigint[], p_types text[], p_turns text[], p_data text[])
 RETURNS TABLE(conversation_id text, last_sequence bigint)
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
AS $function$
begin
  return query select e.conversation_id, e.last_sequence
    from signalbox.append_events(p_conversations, p_runs, p_generations, p_counts, p_items, p_revisions, p_types,
                                 p_turns, p_data) e;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.append_group(p_conversations text[], p_runs text[], p_generations bigint[], p_counts integer[], p_items text[], p_revisions bigint[], p_types text[], p_turns text[], p_data text[])
 RETURNS TABLE(conversation_id text, last_sequence bigint)
 LANGUAGE plpgsql
 SET enable_nestloop TO 'off'
 SET plan_cache_mode TO 'force_custom_plan'
 SET jit TO 'off'
AS $function$
begin
  return query select e.conversation_id, e.last_sequence
    from signalbox.append_events(p_conversations, p_runs, p_generations, p_counts, p_items, p_revisions, p_types,
                                 p_turns, p_data) e;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.append_transcript(p_token_hash text, p_kinds text[], p_entries text[], p_streams text[], p_bodies bytea[])
 RETURNS json
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.ask_again()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_hold signalbox.hold;
  v_run signalbox.run;
  v_generation bigint;
  v_asked text[] := '{}';
begin
  for v_hold in
    select h.* from signalbox.hold h join signalbox.run r on r.id = h.run_id
    where h.state = 'decided' and h.kind = 'approval' and r.state in ('admitted', 'running', 'suspended')
      and r.cancel_requested_at is null
      and not exists (select from signalbox.tool_call t
                      where t.hold_id = h.id and t.state not in ('proposed', 'authorized'))
    order by h.conversation_id, h.id
  loop
    select o.generation into strict v_generation from signalbox.ownership o
    where o.conversation_id = v_hold.conversation_id;
    select r.* into strict v_run from signalbox.run r where r.id = v_hold.run_id for update;
    update signalbox.hold
    set state = 'open', decision = null, response = null, decided_by = null, decided_at = null,
        opened_at = signalbox.clock(), expires_at = signalbox.clock() + (expires_at - opened_at)
    where id = v_hold.id
    returning * into strict v_hold;
    update signalbox.tool_call set state = 'awaiting_approval' where hold_id = v_hold.id;
    perform signalbox.note_hold_opened(v_run, v_hold, v_generation);
    v_asked := v_asked || v_run.id;
  end loop;
  for v_run in
    select r.* from signalbox.run r
    where r.id = any (v_asked) and r.state in ('admitted', 'running')
    order by r.conversation_id for update
  loop
    perform signalbox.put_to_wait(v_run);
  end loop;
  perform signalbox.ask_clients_again();
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.ask_clients_again()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
  v_title text;
begin
  for v_call in select g.* from signalbox.gateway_call g where g.state = 'authorized' order by g.id for update loop
    select h.subject ->> 'title' into v_title from signalbox.hold h where h.id = v_call.hold_id;
    update signalbox.gateway_call
    set state = 'awaiting_approval', hold_id = signalbox.new_id('hld'), edited_arguments = null
    where id = v_call.id
    returning * into strict v_call;
    perform signalbox.put_client_hold(v_call, v_title);
  end loop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.ask_gateway_call(p_call text, p_tenant text, p_actor text, p_principal text, p_process integer, p_endpoint text, p_server text, p_tool text, p_effect text, p_definition_hash text, p_arguments text, p_digest text, p_trace text, p_policy text, p_judgement jsonb, p_call_digest text, p_title text, p_open_max integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
  v_refusal json := signalbox.client_refusal(p_tenant, p_process);
begin
  if v_refusal is not null then
    return v_refusal;
  end if;
  perform signalbox.lock_client(p_principal);
  select g.* into v_call from signalbox.gateway_call g
  where g.principal = p_principal and g.call_digest = p_call_digest
    and (g.state in ('awaiting_approval', 'authorized') or (g.state = 'denied' and not g.told))
  order by g.finished_at is not null, g.started_at desc limit 1;
  if found then
    return signalbox.look_at_asked(v_call);
  end if;
  if (select count(*) from signalbox.gateway_call g
      where g.principal = p_principal and g.state in ('awaiting_approval', 'authorized')) >= p_open_max
  then
    return json_build_object('code', 'queue_full', 'detail', 'Too many calls of this client wait for a person.');
  end if;
  insert into signalbox.gateway_call (id, tenant_id, actor, principal, endpoint, server, tool, effect, definition_hash,
                                      arguments, arguments_digest, state, trace_id, verdict, policy_version, judgement,
                                      call_digest, hold_id, started_at)
  values (p_call, p_tenant, p_actor, p_principal, p_endpoint, p_server, p_tool, p_effect, p_definition_hash, p_arguments,
          p_digest, 'awaiting_approval', p_trace, 'ask', p_policy, p_judgement, p_call_digest, signalbox.new_id('hld'),
          signalbox.clock())
  returning * into strict v_call;
  perform signalbox.put_client_hold(v_call, p_title);
  return signalbox.asked_call(v_call);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.asked_call(p_call signalbox.gateway_call)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_hold signalbox.hold;
begin
  select h.* into v_hold from signalbox.hold h where h.id = p_call.hold_id;
  if p_call.finished_at is not null and not p_call.told then
    update signalbox.gateway_call set told = true where id = p_call.id;
  end if;
  return json_build_object('kind', 'asked', 'callId', p_call.id, 'holdId', p_call.hold_id, 'state', p_call.state,
    'argumentsJson', coalesce(p_call.edited_arguments, p_call.arguments),
    'isEdited', p_call.edited_arguments is not null, 'expiresAtMs', signalbox.unix_ms(v_hold.expires_at),
    'errorCode', p_call.error_code, 'detail', p_call.denial, 'resultJson', p_call.result);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.asked_for(p_asked text, p_actor text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_asked json := coalesce((select r.actor::json from signalbox.run r where r.id = p_asked),
                           (select g.actor::json from signalbox.gateway_call g where g.id = p_asked));
  v_decides json := p_actor::json;
begin
  return coalesce(v_decides ->> 'user' = v_asked ->> 'user', false)
    or (v_decides ->> 'keyId' = v_asked ->> 'keyId'
        and (v_decides ->> 'user' is null or v_asked ->> 'user' is null));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.asked_gateway_call(p_call text, p_principal text, p_call_digest text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
begin
  select g.* into v_call from signalbox.gateway_call g
  where g.id = p_call and g.principal = p_principal and g.call_digest = p_call_digest;
  if not found then
    return json_build_object('kind', 'none');
  end if;
  return signalbox.look_at_asked(v_call);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.audit(p_tenant text, p_action text, p_actor text, p_conversation text, p_run text, p_generation bigint, p_facts text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.begin_again(p_run signalbox.run, p_tool_use text, p_name text, p_digest text)
 RETURNS signalbox.tool_call
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
begin
  update signalbox.tool_call t
  set generation = p_run.generation
  where t.run_id = p_run.id and t.generation < p_run.generation
    and t.state in ('proposed', 'awaiting_approval', 'authorized')
    and t.model_call_id = (select n.model_call_id from signalbox.tool_call n
      where n.run_id = p_run.id and n.tool_use_id = p_tool_use and n.name = p_name and n.arguments_digest = p_digest);
  select t.* into v_call from signalbox.tool_call t
  where t.run_id = p_run.id and t.tool_use_id = p_tool_use and t.name = p_name and t.arguments_digest = p_digest
    and (t.generation = p_run.generation or t.state = 'denied');
  if found then
    return v_call;
  end if;
  update signalbox.tool_call t
  set state = 'proposed', generation = p_run.generation, attempt = t.attempt + 1, process = null, started_at = null,
      finished_at = null, result = null, result_summary = null, error_code = null
  where t.run_id = p_run.id and t.tool_use_id = p_tool_use and t.name = p_name and t.arguments_digest = p_digest
    and t.generation < p_run.generation and t.state = 'unknown' and t.effect in ('read', 'egress_read')
  returning t.* into v_call;
  return v_call;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.begin_asked_call(p_call text, p_process integer, p_digest text, p_policy text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
  v_hold signalbox.hold;
  v_refusal json;
  v_why text;
begin
  select g.* into v_call from signalbox.gateway_call g where g.id = p_call for update;
  if not found then
    return json_build_object('kind', 'none');
  end if;
  v_refusal := signalbox.client_refusal(v_call.tenant_id, p_process);
  if v_refusal is not null then
    return v_refusal;
  end if;
  select h.* into v_hold from signalbox.hold h where h.id = v_call.hold_id;
  if v_call.state <> 'authorized' or v_hold.expires_at <= signalbox.clock() then
    return signalbox.look_at_asked(v_call);
  end if;
  v_why := case
    when v_hold.state is distinct from 'decided' or v_hold.decision not in ('approve', 'edit') then 'not approved'
    when p_digest is distinct from case v_hold.decision when 'edit' then v_hold.response ->> 'digest'
                                                        else v_hold.digest end then 'another call'
    when not signalbox.may_still_decide(v_hold.decided_by, v_call.tenant_id) then 'approver may not any more'
    end;
  if v_why is not null then
    perform signalbox.audit(v_call.tenant_id, 'approval_void', v_call.actor, null, null, null,
      '{"gatewayCallId":' || signalbox.quoted(v_call.id)
      || ',"holdId":' || signalbox.quoted(v_hold.id)
      || ',"why":' || signalbox.quoted(v_why) || '}');
    update signalbox.gateway_call
    set state = 'awaiting_approval', hold_id = signalbox.new_id('hld'), edited_arguments = null where id = v_call.id
    returning * into strict v_call;
    perform signalbox.put_client_hold(v_call, v_hold.subject ->> 'title');
    return signalbox.asked_call(v_call);
  end if;
  update signalbox.gateway_call
  set state = 'executing', process = p_process, policy_version = p_policy, started_at = signalbox.clock()
  where id = v_call.id
  returning * into strict v_call;
  perform signalbox.note_gateway_called(v_call);
  return json_build_object('kind', 'begun');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.begin_deliveries(p_key text, p_busy text[], p_limit integer, p_each integer, p_patience_ms bigint)
 RETURNS TABLE(delivery_id text, webhook_id text, number integer, effort integer, url text, secret bytea, previous_secret bytea, type text, payload text)
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.begin_gateway_call(p_call text, p_tenant text, p_actor text, p_principal text, p_process integer, p_endpoint text, p_server text, p_tool text, p_effect text, p_definition_hash text, p_arguments text, p_digest text, p_trace text, p_policy text, p_judgement jsonb, p_counted boolean, p_as_of timestamp with time zone)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
  v_refusal json := signalbox.client_refusal(p_tenant, p_process);
begin
  if v_refusal is not null then
    return v_refusal;
  end if;
  if p_counted then
    perform signalbox.lock_client(p_principal);
    if exists (select from signalbox.gateway_call g where g.principal = p_principal and g.started_at > p_as_of
               and g.state not in ('denied', 'withdrawn'))
    then
      return json_build_object('kind', 'judge');
    end if;
  end if;
  insert into signalbox.gateway_call (id, tenant_id, actor, principal, endpoint, server, tool, effect, definition_hash,
                                      arguments, arguments_digest, state, process, trace_id, verdict, policy_version,
                                      judgement, started_at)
  values (p_call, p_tenant, p_actor, p_principal, p_endpoint, p_server, p_tool, p_effect, p_definition_hash, p_arguments,
          p_digest, 'executing', p_process, p_trace, 'allow', p_policy, p_judgement, signalbox.clock())
  returning * into strict v_call;
  perform signalbox.note_gateway_called(v_call);
  return json_build_object('kind', 'begun');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.begin_model_call(p_token_hash text, p_call text, p_process integer, p_wire text, p_model text, p_request_bytes bigint, p_rules text[])
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
begin
  if v_entry.code is not null then
    return signalbox.not_entered(v_entry);
  end if;
  update signalbox.run set model_call_count = model_call_count + 1
  where id = v_run.id and model_call_count < model_call_limit;
  if not found then
    return json_build_object('code', 'run_timeout', 'detail', 'The run has used up its model calls.');
  end if;
  insert into signalbox.model_call (id, tenant_id, run_id, conversation_id, generation, process, state, wire,
                                    requested_model, rules, request_bytes, started_at)
  values (p_call, v_run.tenant_id, v_run.id, v_run.conversation_id, v_run.generation, p_process, 'executing', p_wire,
          p_model, p_rules, p_request_bytes, signalbox.clock());
  perform signalbox.audit(v_run.tenant_id, 'model_called', v_run.actor, v_run.conversation_id, v_run.id,
    v_run.generation,
    '{"model":' || signalbox.quoted(p_model) || ',"modelCallId":' || signalbox.quoted(p_call) || '}');
  return signalbox.slot_view(p_token_hash);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.begin_pending(p_run signalbox.run, p_call signalbox.tool_call, p_process integer, p_policy text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call := p_call;
  v_open text;
begin
  if p_policy is not null and exists (
       select from signalbox.tool_call t
       where t.run_id = p_run.id and t.model_call_id = p_call.model_call_id and signalbox.is_pending(t.state)
         and t.server is not null and (t.verdict is null or t.policy_version is distinct from p_policy))
  then
    return json_build_object('kind', 'judge', 'toolCallId', p_call.id, 'modelCallId', p_call.model_call_id,
                             'calls', signalbox.message_calls(p_run.id, p_call.model_call_id));
  end if;
  perform signalbox.open_asked(p_run, p_call.model_call_id);
  if v_call.state <> 'awaiting_approval' and v_call.hold_id is not null then
    v_call := signalbox.use_approval(p_run, v_call);
  end if;
  select h.id into v_open
  from signalbox.tool_call t join signalbox.hold h on h.id = t.hold_id
  where t.run_id = p_run.id and t.model_call_id = p_call.model_call_id and h.state = 'open'
  order by t.ordinal limit 1;
  if found then
    return json_build_object('code', 'run_suspended', 'holdId', v_open, 'conversationId', p_run.conversation_id,
                             'generation', p_run.generation, 'sequence', signalbox.newest(p_run.conversation_id));
  elsif v_call.state = 'denied' then
    return signalbox.replay_of(v_call);
  end if;
  if v_call.server = '@client' and (signalbox.same_effect(v_call)).id is null then
    return signalbox.hand_to_client(p_run, v_call);
  end if;
  return signalbox.start_tool_call(p_run, v_call, p_process);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.begin_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text, p_digest text, p_policy text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_call signalbox.tool_call;
begin
  if v_entry.code is not null then
    return signalbox.not_entered(v_entry);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  v_call := signalbox.find_call(v_run, p_tool_use, p_name, p_digest);
  case
    when v_call.id is null or v_call.state = 'withdrawn' then
      perform signalbox.note_denied(v_run, v_call.id, p_name, 'tool_not_proposed', 'The model did not propose this call.');
      return json_build_object('code', 'tool_not_proposed');
    when v_call.server is null then
      return json_build_object('code', 'tool_not_allowed', 'detail', v_call.denial);
    when v_call.state in ('succeeded', 'failed', 'denied') then
      return signalbox.replay_of(v_call);
    when v_call.state in ('executing', 'unknown') then
      return json_build_object('code', 'tool_outcome_unknown');
    else
      return signalbox.begin_pending(v_run, v_call, p_process, p_policy);
  end case;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.begin_upkeep(p_every_ms bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  insert into signalbox.upkeep default values on conflict do nothing;
  update signalbox.upkeep set next_at = signalbox.clock() + make_interval(secs => p_every_ms / 1000.0)
  where next_at <= signalbox.clock();
  return found;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.bind_slot(p_conversation text, p_generation bigint, p_token_hash text, p_worker text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
begin
  if not signalbox.hold_shared(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'bind_slot');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  if not signalbox.put_slot(v_run, p_token_hash, p_worker) then
    return json_build_object('code', 'slot_unknown');
  end if;
  -- Nobody waits for the disk: a database that dies and forgets this binding denies the slot, and every commit of what
  -- the slot then does is durable and brings the binding with it.
  perform set_config('synchronous_commit', 'off', true);
  return json_build_object('kind', 'bound');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.bury_conversation(p_conversation text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.bury_processes(p_by integer, p_lease_ms integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_lease interval := make_interval(secs => p_lease_ms / 1000.0);
  v_judges boolean;
  v_process integer;
  v_buried integer := 0;
begin
  if not signalbox.process_lives(p_by) then
    return -1;
  end if;
  insert into signalbox.database_start default values on conflict do nothing;
  select greatest(d.at, pg_postmaster_start_time()) + v_lease < signalbox.clock() into strict v_judges
  from signalbox.database_start d;
  for v_process in
    select p.incarnation from signalbox.process p
    where p.dead_at is null and p.incarnation <> p_by
      and (p.lease_until < signalbox.clock()
           or (v_judges and pg_try_advisory_xact_lock(signalbox.presence_space(), p.incarnation)))
    order by p.incarnation
  loop
    update signalbox.process set dead_at = signalbox.clock()
    where incarnation = v_process and dead_at is null
      and (lease_until < signalbox.clock()
           or (v_judges and pg_try_advisory_xact_lock(signalbox.presence_space(), incarnation)));
    v_buried := v_buried + case when found then 1 else 0 end;
  end loop;
  return v_buried;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.call_outcomes(p_token_hash text, p_tool_uses text[])
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  return json_build_object('outcomes', (
    select coalesce(json_agg(json_build_object('toolUseId', t.tool_use_id, 'state', t.state, 'resultJson', t.result)
                             order by t.proposed_at, t.ordinal), '[]')
    from signalbox.tool_call t
    where t.run_id = v_run.id and t.tool_use_id = any (p_tool_uses)));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.calls_told(p_run text)
 RETURNS json
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT json_agg(json_build_object('name', told.name, 'argumentsJson', "left"(told.arguments, 500), 'state', told.state, 'resultSummary', "left"(told.result_summary, 500)) ORDER BY told.started_at, told.id) AS json_agg
    FROM ( SELECT t.id,
             t.name,
             t.arguments,
             t.state,
             t.result_summary,
             t.started_at
            FROM (signalbox.tool_call t
              JOIN signalbox.run r ON ((r.id = t.run_id)))
           WHERE ((t.run_id = calls_told.p_run) AND (t.started_at IS NOT NULL) AND (t.replay_of IS NULL) AND ((t.effect = ANY (ARRAY['write'::text, 'irreversible'::text])) OR (r.state <> 'completed'::text)))
           ORDER BY t.started_at DESC, t.id DESC
          LIMIT 20) told;
END
;
CREATE OR REPLACE FUNCTION signalbox.can_strike(p_run signalbox.run)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return p_run.cancel_strikes
    and not exists (
      select from signalbox.tool_call t
      where t.run_id = p_run.id and t.effect in ('write', 'irreversible') and t.started_at is not null)
    and not exists (
      select from signalbox.event e
      where e.conversation_id = p_run.conversation_id and e.sequence > p_run.cursor and e.run_id = p_run.id
        and e.type = 'run.phase' and e.data::json ->> 'phase' = 'compacting');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.chain_start()
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN decode(repeat('00'::text, 32), 'hex'::text)
;
CREATE OR REPLACE FUNCTION signalbox.change_worker(p_conversation text, p_generation bigint, p_attempt_limit integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'change_worker');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation for update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  if v_run.attempt >= p_attempt_limit then
    return json_build_object('code', 'retries_exhausted');
  end if;
  perform signalbox.unbind_slots(p_conversation);
  return json_build_object('claim', signalbox.take(p_conversation, v_run.owner, 'worker_lost'));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.check_store(p_place text, p_mark bigint)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_known signalbox.store_identity;
  v_identifier text := signalbox.system_identifier();
  v_timeline integer := signalbox.store_timeline();
begin
  perform pg_advisory_xact_lock(signalbox.presence_space(), -1);
  select s.* into v_known from signalbox.store_identity s;
  if not found then
    insert into signalbox.store_identity (system_identifier, timeline, place) values (v_identifier, v_timeline, p_place);
    return 1;
  elsif v_known.system_identifier <> v_identifier then
    return signalbox.open_era('store_replaced', p_place);
  elsif v_known.timeline <> v_timeline then
    return signalbox.open_era('failover', p_place);
  elsif signalbox.store_mark() < p_mark then
    return signalbox.open_era('store_restored', p_place);
  elsif v_known.place <> p_place then
    return signalbox.open_era('store_copied', p_place);
  elsif v_known.place is null and p_place is not null then
    update signalbox.store_identity set place = p_place;
  end if;
  return v_known.era;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.claim(p_process integer, p_room jsonb, p_limit integer)
 RETURNS SETOF json
 LANGUAGE plpgsql
AS $function$
declare
  v_room jsonb := p_room;
  v_left integer := p_limit;
  v_runtime text;
  v_conversation text;
  v_claim json;
begin
  if not signalbox.process_lives(p_process) then
    return next json_build_object('code', 'stale_generation');
    return;
  end if;
  for v_conversation, v_runtime in
    select o.conversation_id, o.runtime
    from signalbox.process p join signalbox.ownership o on o.owner = p.incarnation
    where p.dead_at is not null and coalesce((p_room ->> o.runtime)::integer, 0) > 0
    limit p_limit
    for update of o skip locked
  loop
    continue when (v_room ->> v_runtime)::integer <= 0;
    v_claim := signalbox.take(v_conversation, p_process, 'owner_lost');
    if v_claim is null then
      perform signalbox.hand_over(v_conversation);
      continue;
    end if;
    v_room := jsonb_set(v_room, array[v_runtime], to_jsonb((v_room ->> v_runtime)::integer - 1));
    v_left := v_left - 1;
    return next v_claim;
  end loop;
  for v_runtime in select jsonb_object_keys(v_room) loop
    for v_conversation in
      select o.conversation_id from signalbox.ownership o
      where o.ready_at is not null and o.runtime = v_runtime
      order by o.ready_at
      limit greatest(least(v_left, (v_room ->> v_runtime)::integer), 0)
      for update skip locked
    loop
      v_claim := signalbox.take(v_conversation, p_process, 'ready');
      v_left := v_left - 1;
      return next v_claim;
    end loop;
  end loop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.claim_facts(p_run signalbox.run, p_cause text, p_again boolean)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_at timestamptz := signalbox.clock();
  v_message signalbox.message;
  v_before signalbox.message;
  v_leaf text;
  v_sequence bigint;
  v_history boolean;
  v_visible json := '[]';
  v_unknown boolean := false;
begin
  select m.* into strict v_message from signalbox.message m
  where m.conversation_id = p_run.conversation_id and m.position = p_run.position * 2;
  select m.* into v_before from signalbox.message m
  where m.conversation_id = p_run.conversation_id and m.position < p_run.position * 2 and m.role = 'user'
    and not m.struck
  order by m.position desc limit 1;
  v_history := signalbox.has_history(p_run);
  select c.leaf_entry, c.last_sequence into strict v_leaf, v_sequence from signalbox.conversation c where c.id = p_run.conversation_id;
  if signalbox.leaf_is_foreign(p_run) then
    v_leaf := null;
    v_history := true;
  end if;
  if p_again then
    select coalesce(json_agg(json_build_object('itemId', i.item_id, 'kind', i.kind) order by i.item_id), '[]')
    into v_visible
    from signalbox.visible_items(p_run) i;
    v_unknown := exists (select from signalbox.tool_call t
      where t.run_id = p_run.id and t.effect in ('write', 'irreversible') and t.state in ('executing', 'unknown'));
  end if;
  return json_build_object(
    'tenantId', p_run.tenant_id, 'conversationId', p_run.conversation_id, 'runId', p_run.id,
    'messageId', p_run.message_id, 'generation', p_run.generation, 'attempt', p_run.attempt, 'cause', p_cause,
    'actor', p_run.actor::json, 'snapshotHash', p_run.snapshot_hash, 'traceId', p_run.trace_id,
    'text', v_message.text, 'metadata', v_message.metadata,
    'acceptedAtMs', signalbox.unix_ms(p_run.accepted_at), 'nowMs', signalbox.unix_ms(v_at),
    'startedAtMs', signalbox.unix_ms(p_run.started_at),
    'lastUserMessageAgeMs', signalbox.unix_ms(v_message.created_at) - signalbox.unix_ms(v_before.created_at),
    'lastUserSnippet', left(v_before.text, 400),
    'leaf', v_leaf, 'hasHistory', v_history, 'cancelRequested', p_run.cancel_requested_at is not null,
    'missed', case when v_leaf is null then '[]' else signalbox.missed_turns(p_run) end,
    'ownedBefore', p_again, 'visibleItems', v_visible, 'takenIn', signalbox.taken_in(p_run),
    'outcomeUnknown', v_unknown, 'sealed', p_run.conclusion, 'sequence', v_sequence);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.client_history(p_principal text, p_besides text, p_window_ms bigint, p_limit integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_now timestamptz;
  v_history json;
  v_count integer;
begin
  perform signalbox.lock_client(p_principal);
  v_now := signalbox.clock();
  select coalesce(json_agg(json_build_object(
           'server', c.server, 'tool', c.tool, 'effect', c.effect, 'state', c.state,
           'arguments', coalesce(c.edited_arguments, c.arguments)::json, 'atMs', signalbox.unix_ms(c.started_at))
         order by c.started_at), '[]'), count(*)
  into v_history, v_count
  from (select * from signalbox.gateway_call g
        where g.principal = p_principal and g.id is distinct from p_besides
          and g.started_at > v_now - make_interval(secs => p_window_ms / 1000.0)
        order by g.started_at desc limit p_limit + 1) c;
  return json_build_object('history', v_history, 'isCut', v_count > p_limit, 'nowMs', signalbox.unix_ms(v_now),
                           'asOf', v_now::text);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.client_hold(p_tenant text, p_user text, p_call text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  return (
    select h.id from signalbox.tool_call t
    join signalbox.hold h on h.id = t.hold_id and h.kind = 'client_tool'
    join signalbox.conversation c on c.id = h.conversation_id
    where t.id = p_call and t.tenant_id = p_tenant and (p_user is null or c.participant = p_user));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.client_patience(p_run signalbox.run, p_name text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
begin
  return (
    select (t ->> 'patienceMs')::bigint
    from signalbox.snapshot s cross join lateral json_array_elements(s.body::json -> 'tools') as t
    where s.tenant_id = p_run.tenant_id and s.hash = p_run.snapshot_hash and t ->> 'name' = p_name);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.client_refusal(p_tenant text, p_process integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_stop signalbox.stop := signalbox.stop_over(p_tenant, null, null, null);
begin
  if not signalbox.process_lives(p_process) then
    return json_build_object('code', 'database_unavailable', 'detail', 'This gate has lost its presence in the record.');
  elsif v_stop.id is not null then
    return json_build_object('code', 'operator_stopped');
  end if;
  return null;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.clock()
 RETURNS timestamp with time zone
 LANGUAGE sql
 PARALLEL SAFE
RETURN date_trunc('milliseconds'::text, clock_timestamp())
;
CREATE OR REPLACE FUNCTION signalbox.close_hold(p_hold text, p_state text, p_decision text, p_response jsonb, p_actor text)
 RETURNS signalbox.hold
 LANGUAGE plpgsql
AS $function$
declare
  v_hold signalbox.hold;
  v_run signalbox.run;
  v_generation bigint;
begin
  update signalbox.hold
  set state = p_state, decision = p_decision, response = p_response, decided_by = p_actor,
      decided_at = signalbox.clock()
  where id = p_hold and state = 'open'
  returning * into strict v_hold;
  if v_hold.gateway_call_id is not null then
    perform signalbox.note_client_hold_closed(v_hold);
    return v_hold;
  end if;
  select r.* into strict v_run from signalbox.run r where r.id = v_hold.run_id;
  select o.generation into strict v_generation from signalbox.ownership o
  where o.conversation_id = v_hold.conversation_id;
  perform signalbox.write_event(v_run, v_generation, 1, v_hold.id, 'hold.' || p_state,
    case p_state when 'decided'
      then json_build_object('holdId', v_hold.id, 'kind', v_hold.kind, 'decision', p_decision)
      else json_build_object('holdId', v_hold.id, 'kind', v_hold.kind) end);
  perform signalbox.audit(v_hold.tenant_id, 'hold_' || p_state, p_actor, v_hold.conversation_id, v_hold.run_id,
    v_generation,
    '{"decision":' || signalbox.quoted(p_decision)
    || ',"digest":' || signalbox.quoted(v_hold.digest)
    || ',"holdId":' || signalbox.quoted(v_hold.id)
    || ',"kind":' || signalbox.quoted(v_hold.kind) || '}');
  if v_hold.kind = 'approval' then
    perform signalbox.move_asked_call(v_run, v_hold);
  elsif v_hold.kind in ('client_tool', 'input') then
    perform signalbox.move_client_call(v_run, v_hold);
  end if;
  return v_hold;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.close_items(p_run signalbox.run, p_generation bigint)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.close_lost_calls(p_run signalbox.run)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.lose_model_call(m.id) from signalbox.model_call m
  where m.run_id = p_run.id and m.state = 'executing' and not signalbox.process_lives(m.process);
  perform signalbox.lose_tool_call(t.id) from signalbox.tool_call t
  where t.run_id = p_run.id and t.state = 'executing' and not signalbox.process_lives(t.process);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.closed_items(p_run signalbox.run)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
begin
  return (
    select coalesce(json_agg(json_build_object('itemId', i.item_id, 'kind', i.kind,
                                               'text', i.data::json ->> 'text') order by i.last_sequence), '[]')
    from signalbox.visible_items(p_run) i where not i.is_open);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.continue_asked_call(p_call text, p_process integer, p_continues text, p_principal text, p_digest text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_before signalbox.gateway_call;
  v_call signalbox.gateway_call;
  v_hold signalbox.hold;
  v_refusal json;
begin
  select g.* into v_before from signalbox.gateway_call g
  where g.id = p_continues and g.principal = p_principal and g.call_digest = p_digest and g.state = 'succeeded'
    and not g.continued and g.result::json ->> 'resultType' = 'input_required' for update;
  if not found then
    return json_build_object('kind', 'none');
  end if;
  v_refusal := signalbox.client_refusal(v_before.tenant_id, p_process);
  if v_refusal is not null then
    return v_refusal;
  end if;
  select h.* into strict v_hold from signalbox.hold h where h.id = v_before.hold_id;
  if v_hold.expires_at <= signalbox.clock() or not signalbox.may_still_decide(v_hold.decided_by, v_before.tenant_id) then
    return json_build_object('kind', 'none');
  end if;
  update signalbox.gateway_call set continued = true where id = v_before.id;
  insert into signalbox.gateway_call (id, tenant_id, actor, principal, endpoint, server, tool, effect, definition_hash,
                                      arguments, arguments_digest, state, process, trace_id, verdict, policy_version,
                                      judgement, call_digest, hold_id, edited_arguments, started_at)
  values (p_call, v_before.tenant_id, v_before.actor, p_principal, v_before.endpoint, v_before.server, v_before.tool,
          v_before.effect, v_before.definition_hash, v_before.arguments, v_before.arguments_digest, 'executing',
          p_process, v_before.trace_id, v_before.verdict, v_before.policy_version, v_before.judgement, p_digest,
          v_before.hold_id, v_before.edited_arguments, signalbox.clock())
  returning * into strict v_call;
  perform signalbox.note_gateway_called(v_call);
  return json_build_object('kind', 'begun');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.count_open_runs(p_tenant text, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_side_by_side integer := p_limit - current_setting('max_connections')::integer;
  v_open integer := signalbox.open_runs(p_tenant, p_limit);
begin
  if v_open < v_side_by_side then
    perform pg_advisory_xact_lock_shared(signalbox.tenant_space(), hashtext(p_tenant));
    v_open := signalbox.open_runs(p_tenant, p_limit);
    -- So many came while this waited for the lock that it cannot tell how many there are.
    return case when v_open < v_side_by_side then v_open else p_limit end;
  end if;
  perform pg_advisory_xact_lock(signalbox.tenant_space(), hashtext(p_tenant));
  return signalbox.open_runs(p_tenant, p_limit);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.create_stop(p_tenant text, p_user text, p_stop text, p_kind text, p_scope text, p_subject text, p_reason text, p_actor text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_subject text := p_subject;
  v_stop text;
  v_finished timestamptz;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  case p_scope
    when 'run' then
      select r.finished_at into v_finished
      from signalbox.run r join signalbox.conversation c on c.id = r.conversation_id
      where r.id = p_subject and r.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
    when 'conversation' then
      perform from signalbox.conversation c
      where c.id = p_subject and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
    when 'agent' then
      select a.id into v_subject from signalbox.agent a
      where a.tenant_id = p_tenant and (a.id = p_subject or a.name = p_subject);
    else
      v_subject := p_tenant;
      perform 1;
  end case;
  if not found then
    return json_build_object('code', 'not_found');
  elsif v_finished is not null then
    return signalbox.refused('The run has ended already; there is nothing that this could keep from going on.');
  end if;
  insert into signalbox.stop (id, tenant_id, kind, scope, subject, reason, created_by)
  values (p_stop, p_tenant, p_kind, p_scope, v_subject, p_reason, p_actor)
  on conflict (tenant_id, scope, subject, kind) where lifted_at is null do nothing
  returning id into v_stop;
  if found then
    perform signalbox.audit(p_tenant, 'stop_created', p_actor, null, null, null,
      '{"kind":' || signalbox.quoted(p_kind) || ',"reason":' || signalbox.quoted(p_reason)
      || ',"scope":' || signalbox.quoted(p_scope) || ',"stopId":' || signalbox.quoted(p_stop)
      || ',"subject":' || signalbox.quoted(v_subject) || '}');
    return json_build_object('stopId', v_stop, 'created', true);
  end if;
  select s.id into strict v_stop from signalbox.stop s
  where s.tenant_id = p_tenant and s.scope = p_scope and s.subject = v_subject and s.kind = p_kind
    and s.lifted_at is null;
  return json_build_object('stopId', v_stop, 'created', false);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.current_policy(p_tenant text)
 RETURNS json
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT json_build_object('policy', ( SELECT json_build_object('hash', p.hash, 'document', (p.document)::json) AS json_build_object
            FROM signalbox.policy p
           WHERE ((p.tenant_id = current_policy.p_tenant) AND p.active))) AS json_build_object;
END
;
CREATE OR REPLACE FUNCTION signalbox.decide_hold(p_tenant text, p_user text, p_hold text, p_actor text, p_decision text, p_response jsonb, p_digest text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_hold signalbox.hold;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  perform from signalbox.hold h
    left join signalbox.conversation c on c.id = h.conversation_id
    left join signalbox.gateway_call g on g.id = h.gateway_call_id
  where h.id = p_hold and h.tenant_id = p_tenant
    and (p_user is null or c.participant = p_user or g.actor::json ->> 'user' = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  v_hold := signalbox.lock_hold(p_hold);
  if v_hold.state = 'decided' then
    perform signalbox.audit(p_tenant, 'hold_decision_refused', p_actor, v_hold.conversation_id, v_hold.run_id, null,
      '{"decision":' || signalbox.quoted(p_decision) || ',"holdId":' || signalbox.quoted(p_hold)
      || ',"why":"already decided"}');
    return signalbox.hold_changed(v_hold, 'already_decided', false);
  elsif v_hold.state = 'open' and v_hold.expires_at <= signalbox.clock() then
    v_hold := signalbox.close_hold(p_hold, 'expired', null, null, null);
    return signalbox.hold_changed(v_hold, 'expired', signalbox.wake_run(v_hold.run_id));
  elsif v_hold.state = 'open' and exists (
    select from signalbox.ownership o where o.conversation_id = v_hold.conversation_id and o.cancel_at is not null)
  then
    -- Nothing of a run that is to end is made any more, whatever somebody says to it.
    v_hold := signalbox.close_hold(p_hold, 'withdrawn', null, null, null);
    return signalbox.hold_changed(v_hold, 'withdrawn', false);
  elsif v_hold.state <> 'open' then
    return json_build_object('code', 'hold_closed', 'detail', 'The hold was ' || v_hold.state || '; nothing waits for it any more.');
  elsif v_hold.digest is not null and v_hold.digest is distinct from p_digest then
    return json_build_object('code', 'approval_changed', 'digest', v_hold.digest);
  elsif v_hold.subject ->> 'approver' = 'other' and signalbox.asked_for(coalesce(v_hold.run_id, v_hold.gateway_call_id), p_actor) then
    perform signalbox.audit(p_tenant, 'hold_decision_refused', p_actor, v_hold.conversation_id, v_hold.run_id, null,
      '{"decision":' || signalbox.quoted(p_decision) || ',"holdId":' || signalbox.quoted(p_hold)
      || ',"why":"same person"}');
    return json_build_object('code', 'permission_denied', 'detail', 'Somebody else than who asked for the run has to decide this.');
  end if;
  v_hold := signalbox.close_hold(p_hold, 'decided', p_decision, p_response, p_actor);
  return signalbox.hold_changed(v_hold, 'decided', signalbox.wake_run(v_hold.run_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.delete_conversation(p_tenant text, p_user text, p_conversation text, p_actor text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.delivery_payload(p_delivery text, p_type text, p_event signalbox.event)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN ((((((((((((((((((((((((((('{"id":'::text || signalbox.quoted(p_delivery)) || ',"type":'::text) || signalbox.quoted(p_type)) || ',"timestamp":'::text) || signalbox.quoted(signalbox.rfc3339((p_event).at))) || ',"data":{"type":'::text) || signalbox.quoted((p_event).type)) || ',"itemId":'::text) || signalbox.quoted((p_event).item_id)) || ',"sequence":'::text) || (p_event).sequence) || ',"revision":'::text) || (p_event).revision) || ',"conversationId":'::text) || signalbox.quoted((p_event).conversation_id)) || ',"runId":'::text) || signalbox.quoted((p_event).run_id)) || ',"turnId":'::text) || signalbox.quoted((p_event).turn_id)) || ',"traceId":'::text) || signalbox.quoted((p_event).trace_id)) || ',"generation":'::text) || (p_event).generation) || ',"at":'::text) || signalbox.quoted(signalbox.rfc3339((p_event).at))) || CASE WHEN (btrim((p_event).data, ' 
	{}'::text) = ''::text) THEN '}'::text ELSE (','::text || substr(ltrim((p_event).data), 2)) END) || '}'::text)
;
CREATE OR REPLACE FUNCTION signalbox.deny_asked_call(p_call text, p_code text, p_reason text, p_result text)
 RETURNS signalbox.gateway_call
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
begin
  update signalbox.gateway_call
  set state = 'denied', denial = p_reason, error_code = p_code, finished_at = signalbox.clock(), result = p_result
  where id = p_call and state in ('awaiting_approval', 'authorized')
  returning * into strict v_call;
  perform signalbox.note_gateway_denied(v_call);
  return v_call;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.deny_pending(p_run signalbox.run, p_call text, p_code text, p_reason text, p_result text)
 RETURNS signalbox.tool_call
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
begin
  update signalbox.tool_call
  set state = 'denied', denial = p_reason, error_code = p_code, finished_at = signalbox.clock(), result = p_result
  where id = p_call and signalbox.is_pending(state)
  returning * into v_call;
  if found then
    perform signalbox.note_tool_finished(p_run, v_call);
  else
    select t.* into v_call from signalbox.tool_call t where t.id = p_call;
  end if;
  return v_call;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.deny_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text, p_digest text, p_code text, p_reason text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
begin
  return signalbox.in_earlier_words(
    signalbox.refuse_tool_call(p_token_hash, p_process, p_tool_use, p_name, p_digest, p_code, p_reason));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.disable_webhook(p_webhook text, p_cause text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.drop_tail(p_conversation text, p_generation bigint)
 RETURNS json
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_position bigint;
begin
  if not signalbox.hold_shared(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'drop_tail');
    return json_build_object('code', 'stale_generation');
  end if;
  perform from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation for no key update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  select c.leaf_position into strict v_position from signalbox.conversation c
  where c.id = p_conversation for no key update;
  delete from signalbox.transcript_entry t
  where t.conversation_id = p_conversation and t.position > v_position and t.generation = p_generation;
  return json_build_object('kind', 'dropped');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.empty_parts(p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.end_abandoned(p_by integer)
 RETURNS TABLE(conversation_id text, last_sequence bigint)
 LANGUAGE plpgsql
AS $function$
declare
  v_ownership signalbox.ownership;
  v_run signalbox.run;
begin
  if not signalbox.process_lives(p_by) then
    return;
  end if;
  for v_ownership in
    select o.* from signalbox.process p join signalbox.ownership o on o.owner = p.incarnation
    where p.dead_at is not null and o.cancel_at is not null
    order by o.conversation_id
    limit 32
    for update of o skip locked
  loop
    select r.* into v_run from signalbox.run r
    where r.conversation_id = v_ownership.conversation_id and r.state = 'running' for update;
    continue when not found;
    perform signalbox.end_unowned(v_run, v_ownership.generation);
    perform signalbox.hand_over(v_run.conversation_id);
    conversation_id := v_run.conversation_id;
    last_sequence := signalbox.newest(v_run.conversation_id);
    return next;
  end loop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.end_from_outside(p_run signalbox.run, p_generation bigint, p_cause text, p_strikes boolean, p_actor text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
begin
  if p_run.state in ('completed', 'cancelled', 'failed', 'rolled_back') then
    return 'already_ended';
  elsif p_run.state = 'finalizing' or p_run.consumed_at is not null then
    return 'ending';
  end if;
  update signalbox.run
  set cancel_requested_at = coalesce(cancel_requested_at, signalbox.clock()),
      -- The first mark says why; one that was set by the release before this one has no other cause.
      cancel_cause = coalesce(cancel_cause, case when cancel_requested_at is null then p_cause else 'user_cancel' end),
      cancel_strikes = cancel_strikes or p_strikes
  where id = p_run.id
  returning * into strict v_run;
  if p_run.cancel_requested_at is null then
    perform signalbox.audit(v_run.tenant_id, 'run_cancel_requested', p_actor, v_run.conversation_id, v_run.id,
      v_run.generation, '{"cause":' || signalbox.quoted(p_cause) || '}');
  end if;
  if v_run.state = 'queued' then
    perform signalbox.end_run(v_run, p_generation, 'cancelled', v_run.cancel_cause, null, null);
    perform signalbox.move_queue(v_run.conversation_id, v_run.position, p_generation);
    return 'ended';
  end if;
  if v_run.state = 'running' then
    update signalbox.ownership set cancel_at = signalbox.clock()
    where conversation_id = v_run.conversation_id and cancel_at is null;
    if signalbox.process_lives(v_run.owner) then
      return 'requested';
    end if;
  end if;
  perform signalbox.end_unowned(v_run, p_generation);
  perform signalbox.hand_over(v_run.conversation_id);
  return 'ended';
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.end_run(p_run signalbox.run, p_generation bigint, p_outcome text, p_reason text, p_error json, p_answer text)
 RETURNS signalbox.run
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
  v_merged signalbox.run;
begin
  perform signalbox.withdraw_holds(p_run);
  update signalbox.run
  set state = p_outcome, reason = p_reason, error = p_error::jsonb, answer_message_id = p_answer, rung = p_run.rung,
      served_model = p_run.served_model, finished_at = signalbox.clock(), conclusion = null
  where id = p_run.id
  returning * into strict v_run;
  if p_outcome = 'rolled_back' then
    update signalbox.message m set struck = true
    where m.conversation_id = v_run.conversation_id
      and m.run_id in (select v_run.id union all
                       select r.id from signalbox.run r
                       where r.conversation_id = v_run.conversation_id and r.state = 'queued'
                         and r.steer_into = v_run.id and r.consumed_at is not null);
  end if;
  perform signalbox.tell_still_open(v_run);
  perform signalbox.write_event(v_run, p_generation, 1048575, v_run.id, 'run.finished',
    case when v_run.cancel_strikes then
      json_build_object('outcome', p_outcome, 'reason', p_reason, 'error', p_error, 'messageId', p_answer,
                        'rollback', case p_outcome when 'rolled_back' then 'struck' else 'interrupted' end)
    else json_build_object('outcome', p_outcome, 'reason', p_reason, 'error', p_error, 'messageId', p_answer) end);
  perform signalbox.audit(v_run.tenant_id, 'message_completed', v_run.actor, v_run.conversation_id, v_run.id,
    p_generation,
    '{"answerMessageId":' || signalbox.quoted(p_answer)
    || ',"errorCode":' || signalbox.quoted(p_error ->> 'code')
    || ',"outcome":' || signalbox.quoted(p_outcome)
    || ',"reason":' || signalbox.quoted(p_reason)
    || ',"rung":' || signalbox.quoted(v_run.rung) || '}');
  for v_merged in
    select r.* from signalbox.run r
    where r.conversation_id = v_run.conversation_id and r.state = 'queued' and r.steer_into = v_run.id
      and r.consumed_at is not null
    order by r.position
  loop
    perform signalbox.end_run(v_merged, p_generation, 'completed', 'merged', null, p_answer);
  end loop;
  return v_run;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.end_unowned(p_run signalbox.run, p_generation bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run := p_run;
  v_strikes boolean;
  v_text text;
  v_answer text;
begin
  if v_run.state = 'running' then
    update signalbox.run set state = 'finalizing', conclusion = '{}', sealed_at = signalbox.clock()
    where id = v_run.id;
  end if;
  if v_run.generation is not null then
    perform signalbox.close_lost_calls(v_run);
  end if;
  select r.* into strict v_run from signalbox.run r where r.id = p_run.id;
  v_strikes := signalbox.can_strike(v_run);
  v_text := signalbox.close_items(v_run, p_generation);
  if v_text is not null then
    v_answer := signalbox.new_id('msg');
    insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, partial, position)
    values (v_answer, v_run.tenant_id, v_run.conversation_id, v_run.id, 'assistant', v_text, true,
            signalbox.answer_position(v_run));
  end if;
  perform signalbox.end_run(v_run, p_generation, case when v_strikes then 'rolled_back' else 'cancelled' end,
    coalesce(v_run.cancel_cause, 'user_cancel'), null, v_answer);
  if v_run.generation is not null then
    perform signalbox.settle_transcript(v_run.conversation_id, v_run.generation,
      case when v_answer is null or v_strikes then 'kept' else 'broken' end, null, null, null);
    perform signalbox.unbind_slots(v_run.conversation_id);
    perform signalbox.withdraw_proposals(v_run.id);
  end if;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.enter_gate(p_token_hash text, p_process integer)
 RETURNS signalbox.gate_entry
 LANGUAGE plpgsql
AS $function$
declare
  v_entry signalbox.gate_entry;
  v_slot signalbox.slot;
  v_run signalbox.run;
  v_generation bigint;
  v_cancel_at timestamptz;
  v_stop signalbox.stop;
begin
  select s.* into v_slot from signalbox.slot s where s.token_hash = p_token_hash;
  if not found or v_slot.run_id is null then
    v_entry.code := 'slot_unknown';
    return v_entry;
  end if;
  select o.generation, o.cancel_at into v_generation, v_cancel_at from signalbox.ownership o
  where o.conversation_id = v_slot.conversation_id for share;
  select r.* into v_run from signalbox.run r where r.id = v_slot.run_id;
  if v_generation <> v_slot.generation or v_run.state <> 'running' then
    v_entry.code := 'stale_generation';
    perform signalbox.note_stale(v_slot.conversation_id, v_slot.run_id, v_slot.generation, 'gate');
    return v_entry;
  end if;
  if p_process is not null then
    if not signalbox.process_lives(p_process) then
      v_entry.code := 'stale_generation';
      return v_entry;
    elsif v_cancel_at is not null then
      v_entry.code := 'run_cancelled';
      return v_entry;
    elsif v_run.started_at + make_interval(secs => (v_run.wall_clock_ms + v_run.suspended_ms) / 1000.0)
          < signalbox.clock() then
      v_entry.code := 'run_timeout';
      return v_entry;
    end if;
    v_stop := signalbox.stop_over(v_run.tenant_id, v_run.agent_id, v_run.conversation_id, v_run.id);
    if v_stop.kind = 'stop' then
      v_entry.code := 'run_stopped';
      return v_entry;
    elsif v_stop.kind = 'pause' then
      v_entry.code := 'run_suspended';
      v_entry.stop_id := v_stop.id;
    end if;
  end if;
  v_entry.slot := v_slot;
  v_entry.run := v_run;
  return v_entry;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.erase_conversation(p_conversation text, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.erase_deleted(p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.erase_deliveries(p_conversation text, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.event_head(p_tenant text, p_user text, p_conversation text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  return (select c.last_sequence from signalbox.conversation c
          where c.id = p_conversation and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.event_place(p_tenant text, p_user text, p_conversation text)
 RETURNS TABLE(last_sequence bigint, kept_sequence bigint, replaced boolean)
 LANGUAGE plpgsql
AS $function$
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  return query
    select c.last_sequence, c.kept_sequence,
           exists (select from signalbox.era e where e.opened_at >= c.created_at)
    from signalbox.conversation c
    where c.id = p_conversation and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.expire_events(p_age_ms bigint, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.expire_hold(p_hold text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_hold signalbox.hold := signalbox.lock_hold(p_hold);
begin
  if v_hold.state <> 'open' or v_hold.expires_at > signalbox.clock() then
    return signalbox.hold_changed(v_hold, 'unchanged', false);
  end if;
  v_hold := signalbox.close_hold(p_hold, 'expired', null, null, null);
  return signalbox.hold_changed(v_hold, 'expired', signalbox.wake_run(v_hold.run_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.fail_run(p_tenant text, p_user text, p_run text, p_actor text, p_force boolean)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run := signalbox.lock_run(p_tenant, p_user, p_run);
  v_queued boolean := v_run.state = 'queued';
  v_generation bigint;
begin
  if v_run.id is null then
    return json_build_object('code', 'not_found');
  elsif v_run.finished_at is not null then
    return signalbox.refused('The run has ended already.');
  elsif v_run.consumed_at is not null then
    return signalbox.refused('The message of the run was taken in by the run before it, and ends with that one.');
  elsif not p_force and signalbox.has_live_call(p_run, true) then
    return signalbox.refused('A call with an effect is running at a live gate; cancel the run, or wait for the call. '
      || 'With force the run ends now and the outcome of the call is recorded when it comes.');
  end if;
  perform signalbox.audit(p_tenant, 'run_failed', p_actor, v_run.conversation_id, p_run, v_run.generation,
    '{"force":' || p_force || ',"state":' || signalbox.quoted(v_run.state) || '}');
  if v_run.state = 'running' then
    update signalbox.run set state = 'finalizing', conclusion = '{}', sealed_at = signalbox.clock() where id = p_run;
  end if;
  select o.generation into strict v_generation from signalbox.ownership o
  where o.conversation_id = v_run.conversation_id;
  perform signalbox.retract_items(v_run, v_generation, 'run_stopped');
  v_run := signalbox.end_run(v_run, v_generation, 'failed', 'operator_stop',
    json_build_object('code', 'run_stopped', 'detail', 'An operator ended the run.', 'fault', 'policy',
                      'retryable', false), null);
  if v_queued then
    perform signalbox.move_queue(v_run.conversation_id, v_run.position, v_generation);
  else
    perform signalbox.settle_transcript(v_run.conversation_id, coalesce(v_run.generation, 0), 'kept', null, null, null);
    perform signalbox.unbind_slots(v_run.conversation_id);
    perform signalbox.withdraw_proposals(p_run);
    perform signalbox.hand_over(v_run.conversation_id);
  end if;
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.find_call(p_run signalbox.run, p_tool_use text, p_name text, p_digest text)
 RETURNS signalbox.tool_call
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
begin
  select t.* into v_call from signalbox.tool_call t
  where t.run_id = p_run.id and t.name = p_name and t.arguments_digest = p_digest
    and t.generation = p_run.generation and (p_tool_use is null or t.tool_use_id = p_tool_use)
  order by t.state <> 'proposed', t.proposed_at, t.ordinal
  limit 1
  for no key update;
  if not found and p_tool_use is not null then
    v_call := signalbox.begin_again(p_run, p_tool_use, p_name, p_digest);
  end if;
  return v_call;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.find_conversations(p_tenant text, p_user text, p_archived boolean, p_agent text, p_text text, p_after text, p_descending boolean, p_limit integer)
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.finish(p_conversation text, p_generation bigint, p_outcome text, p_reason text, p_error json, p_answer text, p_answer_text text, p_partial boolean, p_rung text, p_continuity text, p_leaf text, p_digest text, p_served_model text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
  v_tip record;
  v_turn bigint;
  v_rung text;
  v_place bigint;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'finish');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'finalizing' and r.generation = p_generation for update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  v_turn := (v_run.conclusion ->> 'generation')::bigint;
  v_rung := signalbox.transcript_rung(v_run, v_run.conclusion ->> 'rung');
  if p_continuity = 'moved' then
    select t.leaf, t.digest into strict v_tip
    from signalbox.transcript_tip(p_conversation, v_turn, v_rung) t;
    if v_tip.leaf is distinct from p_leaf or encode(v_tip.digest, 'hex') is distinct from p_digest then
      return json_build_object('code', 'transcript_not_durable');
    end if;
  end if;
  v_place := signalbox.answer_position(v_run);
  if p_answer is not null then
    insert into signalbox.message (id, tenant_id, conversation_id, run_id, role, text, partial, position)
    values (p_answer, v_run.tenant_id, p_conversation, v_run.id, 'assistant', p_answer_text, p_partial, v_place);
  end if;
  v_run.rung := p_rung;
  v_run.served_model := p_served_model;
  v_run := signalbox.end_run(v_run, p_generation, p_outcome,
    -- The release before this one knows one cause only.
    case when p_outcome = 'cancelled' and p_reason = 'user_cancel' then coalesce(v_run.cancel_cause, p_reason)
         else p_reason end, p_error, p_answer);
  perform signalbox.settle_transcript(p_conversation, v_turn, p_continuity, v_rung, p_leaf, decode(p_digest, 'hex'));
  if p_continuity = 'moved' then
    update signalbox.conversation
    set leaf_runtime = v_run.runtime, leaf_turn = (v_place - 1) / 2
    where id = p_conversation;
  end if;
  perform signalbox.unbind_slots(p_conversation);
  perform signalbox.withdraw_proposals(v_run.id);
  return json_build_object('nextRunId', signalbox.hand_over(p_conversation), 'sequence', signalbox.newest(p_conversation));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.follow_ending()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if current_user = 'signalbox_run' and exists (
       select from signalbox.conversation c
       where c.id = new.conversation_id and c.delete_requested_at is not null and c.deleted_at is null) then
    perform signalbox.bury_conversation(new.conversation_id);
  end if;
  return null;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.foresee_pause(p_token_hash text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform from signalbox.ownership o
  where o.conversation_id = (select s.conversation_id from signalbox.slot s
                             where s.token_hash = p_token_hash and s.run_id is not null)
  for update;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.forget_processes()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  delete from signalbox.process p
  where p.dead_at < signalbox.clock() - interval '1 day'
    and not exists (select from signalbox.ownership o where o.owner = p.incarnation)
    and not exists (select from signalbox.model_call m where m.process = p.incarnation and m.state = 'executing')
    and not exists (select from signalbox.tool_call t where t.process = p.incarnation and t.state = 'executing');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.fork_conversation(p_tenant text, p_user text, p_conversation text, p_message text, p_fork text, p_actor text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_from signalbox.conversation;
  v_until bigint;
  v_last bigint;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  perform from signalbox.ownership o where o.conversation_id = p_conversation and o.tenant_id = p_tenant for share;
  select c.* into v_from from signalbox.conversation c
  where c.id = p_conversation and c.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  elsif v_from.delete_requested_at is not null then
    return json_build_object('code', 'conversation_deleting');
  end if;
  select m.position into v_until from signalbox.message m
  where m.conversation_id = p_conversation and m.id = p_message and m.tenant_id = p_tenant and not m.struck;
  if p_message is not null and not found then
    return json_build_object('code', 'not_found', 'detail', 'The history of this conversation has no such message.');
  end if;
  insert into signalbox.conversation (id, tenant_id, agent_id, title, created_by, participant, metadata, forked_from)
  values (p_fork, p_tenant, v_from.agent_id, v_from.title, p_actor, v_from.participant, v_from.metadata, p_conversation);
  insert into signalbox.ownership (conversation_id, tenant_id) values (p_fork, p_tenant);
  select coalesce(max(m.position) / 2, 0) into v_last from signalbox.message m where m.conversation_id = p_conversation;
  insert into signalbox.message (id, tenant_id, conversation_id, role, text, metadata, partial, position, created_at)
  select signalbox.new_id('msg'), p_tenant, p_fork, m.role, m.text, m.metadata, m.partial, m.position - 2 * v_last,
         m.created_at
  from signalbox.message m left join signalbox.run r on r.id = m.run_id
  where m.conversation_id = p_conversation and not m.struck and (v_until is null or m.position <= v_until)
    and (r.id is null or r.finished_at is not null or m.id = p_message);
  perform signalbox.audit(p_tenant, 'conversation_created', p_actor, p_fork, null, null,
    '{"agentId":' || signalbox.quoted(v_from.agent_id) || ',"forkedFrom":' || signalbox.quoted(p_conversation) || '}');
  return json_build_object('conversationId', p_fork);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.hand_over(p_conversation text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  v_generation bigint;
  v_run signalbox.run;
begin
  update signalbox.ownership
  set generation = generation + 1, owner = null, runtime = null, ready_at = null, cancel_at = null
  where conversation_id = p_conversation
  returning generation into strict v_generation;
  update signalbox.run set state = 'admitted', steer_into = null
  where id = (select r.id from signalbox.run r
              where r.conversation_id = p_conversation and r.state = 'queued' order by r.position limit 1)
  returning * into v_run;
  if not found then
    return null;
  end if;
  update signalbox.ownership set runtime = v_run.runtime, ready_at = signalbox.clock()
  where conversation_id = p_conversation;
  perform signalbox.note_admitted(v_run, v_generation);
  perform signalbox.move_queue(p_conversation, v_run.position, v_generation);
  return v_run.id;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.hand_to_client(p_run signalbox.run, p_call signalbox.tool_call)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
  v_hold text := signalbox.new_id('hld');
  v_kind text := case p_call.tool when 'ask_user' then 'input' else 'client_tool' end;
  v_arguments text := coalesce(p_call.edited_arguments, p_call.arguments);
  v_subject jsonb;
begin
  update signalbox.run set tool_call_count = tool_call_count + 1
  where id = p_run.id and tool_call_count < tool_call_limit;
  if not found then
    return json_build_object('code', 'run_timeout', 'detail', 'The run has used up its tool calls.');
  end if;
  update signalbox.tool_call set state = 'awaiting_approval', hold_id = v_hold, started_at = signalbox.clock()
  where id = p_call.id
  returning * into strict v_call;
  perform signalbox.write_event(p_run, v_call.generation, 0, v_call.id, 'tool.started', json_build_object(
    'toolCallId', v_call.id, 'toolUseId', v_call.tool_use_id, 'tool', v_call.name, 'title', v_call.title,
    'effect', v_call.effect, 'grade', 'contained', 'argumentsSummary', left(v_arguments, 200), 'executor', 'client'));
  perform signalbox.audit(p_run.tenant_id, 'tool_called', p_run.actor, p_run.conversation_id, p_run.id,
    v_call.generation,
    '{"argumentsDigest":' || signalbox.quoted(v_call.arguments_digest)
    || ',"definitionHash":' || signalbox.quoted(v_call.definition_hash)
    || ',"effect":' || signalbox.quoted(v_call.effect)
    || ',"executor":"client"'
    || ',"name":' || signalbox.quoted(v_call.name)
    || ',"toolCallId":' || signalbox.quoted(v_call.id) || '}');
  v_subject := jsonb_build_object('toolCallId', v_call.id, 'toolUseId', v_call.tool_use_id, 'name', v_call.name,
    'tool', v_call.tool, 'title', v_call.title, 'effect', v_call.effect, 'argumentsJson', v_arguments);
  if v_kind = 'input' then
    v_subject := v_subject || jsonb_strip_nulls(jsonb_build_object(
      'question', v_arguments::jsonb -> 'question', 'choices', v_arguments::jsonb -> 'choices',
      'schema', v_arguments::jsonb -> 'schema'));
  end if;
  perform signalbox.put_hold(p_run, v_hold, v_kind, v_subject, null, signalbox.client_patience(p_run, v_call.name));
  return json_build_object('code', 'run_suspended', 'holdId', v_hold, 'conversationId', p_run.conversation_id,
                           'generation', p_run.generation, 'sequence', signalbox.newest(p_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.has_history(p_run signalbox.run)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  if exists (select from signalbox.message m
             where m.conversation_id = p_run.conversation_id and m.position < p_run.position * 2 and not m.struck
               and (m.role = 'assistant' or m.run_id is null)) then
    return true;
  end if;
  -- Apart: in one condition the runs of the whole conversation would be read for it.
  return exists (select from signalbox.message m join signalbox.run r on r.id = m.run_id
                 where m.conversation_id = p_run.conversation_id and m.position < p_run.position * 2 and not m.struck
                   and r.started_at is not null);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.has_live_call(p_run text, p_effects_only boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return exists (select from signalbox.tool_call t where t.run_id = p_run and t.state = 'executing'
                   and (not p_effects_only or t.effect in ('write', 'irreversible'))
                   and signalbox.process_lives(t.process))
      or (not p_effects_only and exists (
            select from signalbox.model_call m where m.run_id = p_run and m.state = 'executing'
              and signalbox.process_lives(m.process)));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.has_open_hold(p_run text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return exists (select from signalbox.hold h where h.run_id = p_run and h.state = 'open');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.has_webhooks()
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT FROM signalbox.webhook w WHERE (w.disabled_at IS NULL)))
;
CREATE OR REPLACE FUNCTION signalbox.history_before(p_run text, p_limit integer)
 RETURNS TABLE(role text, text text)
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT past.role,
     past.text
    FROM signalbox.past_messages(history_before.p_run, history_before.p_limit) past(role, text, calls);
END
;
CREATE OR REPLACE FUNCTION signalbox.hold_changed(p_hold signalbox.hold, p_kind text, p_ready boolean)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
begin
  return json_build_object('kind', p_kind, 'ready', p_ready, 'conversationId', p_hold.conversation_id,
                           'sequence', signalbox.newest(p_hold.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.hold_exclusive(p_conversation text, p_generation bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  perform from signalbox.ownership o
  where o.conversation_id = p_conversation and o.generation = p_generation for update;
  return found;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.hold_for_call(p_conversation text, p_run text)
 RETURNS signalbox.run
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
begin
  perform from signalbox.ownership o where o.conversation_id = p_conversation for share;
  select r.* into strict v_run from signalbox.run r where r.id = p_run for no key update;
  perform from signalbox.conversation c where c.id = p_conversation for no key update;
  return v_run;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.hold_over(p_hold text, p_generation bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return not exists (
    select from signalbox.hold h join signalbox.ownership o on o.conversation_id = h.conversation_id
    where h.id = p_hold and h.state = 'open' and o.cancel_at is null and o.generation = p_generation);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.hold_shared(p_conversation text, p_generation bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  perform from signalbox.ownership o
  where o.conversation_id = p_conversation and o.generation = p_generation for share;
  return found;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.in_earlier_words(p_answer json)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
begin
  case p_answer ->> 'code'
    when 'run_stopped' then
      return json_build_object('code', 'run_cancelled');
    when 'run_suspended' then
      return json_build_object('code',
        case signalbox.suspend(p_answer ->> 'conversationId', (p_answer ->> 'generation')::bigint) ->> 'kind'
          when 'suspended' then 'stale_generation'
          else 'database_unavailable' end);
    else
      return p_answer;
  end case;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.inherit_hold(p_run signalbox.run, p_call signalbox.tool_call)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_before signalbox.tool_call;
  v_hold signalbox.hold;
begin
  select t.* into v_before from signalbox.tool_call t
  where t.run_id = p_call.run_id and t.generation < p_call.generation and t.hold_id is not null
    and t.state in ('awaiting_approval', 'authorized') and t.server = p_call.server and t.tool = p_call.tool
    and t.definition_hash is not distinct from p_call.definition_hash and t.arguments_digest = p_call.arguments_digest
  order by t.proposed_at, t.ordinal
  limit 1 for update;
  if not found then
    return;
  end if;
  update signalbox.tool_call set state = 'withdrawn', finished_at = signalbox.clock(), hold_id = null
  where id = v_before.id;
  update signalbox.tool_call
  set state = v_before.state, hold_id = v_before.hold_id, call_digest = v_before.call_digest,
      edited_arguments = v_before.edited_arguments
  where id = p_call.id;
  update signalbox.hold
  set subject = subject || jsonb_build_object('toolCallId', p_call.id, 'toolUseId', p_call.tool_use_id)
  where id = v_before.hold_id
  returning * into strict v_hold;
  if v_hold.state = 'open' then
    perform signalbox.note_hold_opened(p_run, v_hold, p_call.generation);
  end if;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.is_at_rest(p_conversation text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return not exists (select from signalbox.run r
                     where r.conversation_id = p_conversation
                       and r.state in ('queued', 'admitted', 'running', 'suspended', 'finalizing'))
    and not exists (select from signalbox.run r join signalbox.model_call m on m.run_id = r.id and m.state = 'executing'
                    where r.conversation_id = p_conversation)
    and not exists (select from signalbox.run r join signalbox.tool_call t on t.run_id = r.id and t.state = 'executing'
                    where r.conversation_id = p_conversation);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.is_pending(p_state text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (p_state = ANY (ARRAY['proposed'::text, 'awaiting_approval'::text, 'authorized'::text]))
;
CREATE OR REPLACE FUNCTION signalbox.keep_ending()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  raise exception 'run % has ended as % and does not become %', old.id, old.state, new.state;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.kept_by_compaction(p_conversation text, p_generation bigint)
 RETURNS text[]
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_leaf_position bigint;
begin
  -- Apart, so that it bounds the search: from the end, no further than the leaf.
  select c.leaf_position into strict v_leaf_position from signalbox.conversation c where c.id = p_conversation;
  return (
    select t.kept_entry_ids
    from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and t.position > v_leaf_position and t.generation = p_generation
      and t.stream = '' and t.kept_entry_ids is not null and not t.cut
    order by t.position desc limit 1);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.leaf_is_foreign(p_run signalbox.run)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return (select c.leaf_entry is not null and c.leaf_runtime <> p_run.runtime
          from signalbox.conversation c where c.id = p_run.conversation_id) is true;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.lift_stop(p_tenant text, p_stop text, p_actor text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_stop signalbox.stop;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  update signalbox.stop set lifted_at = signalbox.clock(), lifted_by = p_actor
  where id = p_stop and tenant_id = p_tenant and lifted_at is null
  returning * into v_stop;
  if found then
    perform signalbox.audit(p_tenant, 'stop_lifted', p_actor, null, null, null,
      '{"stopId":' || signalbox.quoted(p_stop) || '}');
  elsif not exists (select from signalbox.stop s where s.id = p_stop and s.tenant_id = p_tenant) then
    return json_build_object('code', 'not_found');
  end if;
  return json_build_object('stopId', p_stop);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.load_transcript(p_conversation text, p_generation bigint, p_after bigint, p_page_bytes bigint)
 RETURNS TABLE("position" bigint, kind text, entry_id text, stream text, body bytea, digest bytea)
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_run signalbox.run;
  v_after bigint := p_after;
begin
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state in ('admitted', 'running', 'suspended', 'finalizing');
  if found and signalbox.leaf_is_foreign(v_run) then
    v_after := greatest(p_after, (select c.leaf_position from signalbox.conversation c where c.id = p_conversation));
  end if;
  return query
    select page.position, page.kind, page.entry_id, page.stream, page.body, page.digest
    from (
      select t.position, t.kind, t.entry_id, t.stream, t.body, t.digest,
             sum(octet_length(t.body)) over (order by t.position) - octet_length(t.body) as before_bytes
      from (
        select e.position, e.kind, e.entry_id, e.stream, e.body, e.digest
        from signalbox.transcript_entry e join signalbox.conversation c on c.id = e.conversation_id
        where e.conversation_id = p_conversation and e.position > v_after and not e.cut
          and (e.position <= c.leaf_position or e.generation = p_generation)
        order by e.position
        limit 256) as t) as page
    where page.before_bytes < p_page_bytes
    order by page.position;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.lock_client(p_principal text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock(hashtextextended('client ' || p_principal, 0));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.lock_hold(p_hold text)
 RETURNS signalbox.hold
 LANGUAGE plpgsql
AS $function$
declare
  v_hold signalbox.hold;
begin
  select h.* into v_hold from signalbox.hold h where h.id = p_hold;
  if not found then
    return null;
  end if;
  perform from signalbox.ownership o where o.conversation_id = v_hold.conversation_id for update;
  perform from signalbox.run r where r.id = v_hold.run_id for update;
  select h.* into strict v_hold from signalbox.hold h where h.id = p_hold for update;
  return v_hold;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.lock_run(p_tenant text, p_user text, p_run text)
 RETURNS signalbox.run
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  select r.* into v_run from signalbox.run r join signalbox.conversation c on c.id = r.conversation_id
  where r.id = p_run and r.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
  if not found then
    return null;
  end if;
  perform from signalbox.ownership o where o.conversation_id = v_run.conversation_id for update;
  select r.* into strict v_run from signalbox.run r where r.id = p_run for update;
  return v_run;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.look_at_asked(p_call signalbox.gateway_call)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call := p_call;
  v_hold signalbox.hold;
begin
  if v_call.state in ('awaiting_approval', 'authorized') then
    select h.* into strict v_hold from signalbox.hold h where h.id = v_call.hold_id for update;
    if v_hold.expires_at <= signalbox.clock() then
      if v_hold.state = 'open' then
        perform signalbox.close_hold(v_hold.id, 'expired', null, null, null);
      elsif v_call.state = 'authorized' then
        perform signalbox.deny_asked_call(v_call.id, 'approval_expired', 'The approval of this call has expired.',
          signalbox.said('The approval of this call has expired. (approval_expired)', true));
      end if;
    end if;
    select g.* into strict v_call from signalbox.gateway_call g where g.id = v_call.id;
  end if;
  return signalbox.asked_call(v_call);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.lose_model_call(p_call text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.model_call;
  v_run signalbox.run;
begin
  select m.* into strict v_call from signalbox.model_call m where m.id = p_call;
  v_run := signalbox.hold_for_call(v_call.conversation_id, v_call.run_id);
  update signalbox.model_call
  set state = 'estimated', input_tokens = ceil(request_bytes / 4.0), output_tokens = 0, cache_read_tokens = 0,
      cache_write_tokens = 0, error_code = 'provider_stream_broken', proposals_accepted = false,
      finished_at = signalbox.clock()
  where id = p_call and state = 'executing' and not signalbox.process_lives(process)
  returning * into v_call;
  if found then
    perform signalbox.note_usage(v_run, v_call);
  end if;
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.lose_tool_call(p_call text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
  v_run signalbox.run;
begin
  select t.* into strict v_call from signalbox.tool_call t where t.id = p_call;
  v_run := signalbox.hold_for_call(v_call.conversation_id, v_call.run_id);
  update signalbox.tool_call
  set state = 'unknown', error_code = 'tool_outcome_unknown', finished_at = signalbox.clock(),
      result_summary = 'The gate was lost while the call was running; whether it took effect is not known.'
  where id = p_call and state = 'executing' and not signalbox.process_lives(process)
  returning * into v_call;
  if found then
    perform signalbox.note_tool_finished(v_run, v_call);
  end if;
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.lost_calls(p_limit integer)
 RETURNS TABLE(kind text, id text)
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
( SELECT 'model'::text,
     m.id
    FROM (signalbox.process p
      JOIN signalbox.model_call m ON ((m.process = p.incarnation)))
   WHERE ((p.dead_at IS NOT NULL) AND (m.state = 'executing'::text))
  LIMIT lost_calls.p_limit)
 UNION ALL
 ( SELECT 'tool'::text,
     t.id
    FROM (signalbox.process p
      JOIN signalbox.tool_call t ON ((t.process = p.incarnation)))
   WHERE ((p.dead_at IS NOT NULL) AND (t.state = 'executing'::text))
  LIMIT lost_calls.p_limit);
END
;
CREATE OR REPLACE FUNCTION signalbox.may_still_decide(p_actor text, p_tenant text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return exists (select from signalbox.api_key k
    where k.id = p_actor::json ->> 'keyId' and k.tenant_id = p_tenant and k.revoked_at is null
      and 'write' = any (k.rights));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.message_calls(p_run text, p_model_call text)
 RETURNS json
 LANGUAGE sql
 STABLE
RETURN (SELECT json_agg(json_build_object('toolCallId', t.id, 'toolUseId', t.tool_use_id, 'name', t.name, 'server', t.server, 'tool', t.tool, 'effect', t.effect, 'definitionHash', t.definition_hash, 'argumentsJson', COALESCE(t.edited_arguments, t.arguments), 'state', t.state) ORDER BY t.ordinal) AS json_agg FROM signalbox.tool_call t WHERE ((t.run_id = message_calls.p_run) AND (t.model_call_id = message_calls.p_model_call)))
;
CREATE OR REPLACE FUNCTION signalbox.missed_turns(p_run signalbox.run)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_leaf_turn bigint;
begin
  select coalesce(c.leaf_turn, (select max(r.position) from signalbox.run r
                                where r.conversation_id = c.id and r.answer_message_id is not null), 0)
  into strict v_leaf_turn from signalbox.conversation c where c.id = p_run.conversation_id;
  return (
    select coalesce(json_agg(json_build_object('text', left(missed.text, 4000), 'outcome', missed.state,
                                               'reason', missed.reason, 'calls', missed.calls)
                             order by missed.position), '[]')
    from (select m.text, m.position, r.state, r.reason, coalesce(signalbox.calls_told(r.id), '[]') as calls
          from signalbox.message m join signalbox.run r on r.id = m.run_id
          where m.conversation_id = p_run.conversation_id and m.position > v_leaf_turn * 2 + 1
            and m.position < p_run.position * 2 and m.role = 'user' and not m.struck
            and (r.started_at is not null or r.consumed_at is not null)
          order by m.position desc limit 8) as missed);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.move_asked_call(p_run signalbox.run, p_hold signalbox.hold)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
  v_words text := signalbox.words_of(p_hold.response);
  v_reason text;
begin
  select t.* into v_call from signalbox.tool_call t
  where t.hold_id = p_hold.id and signalbox.is_pending(t.state) for update;
  if not found then
    return;
  end if;
  case
    when p_hold.state = 'withdrawn' then
      update signalbox.tool_call set state = 'withdrawn', finished_at = signalbox.clock() where id = v_call.id;
    when p_hold.state = 'expired' then
      v_reason := 'Nobody approved this call in time.';
      perform signalbox.deny_pending(p_run, v_call.id, 'approval_expired', v_reason,
                                     signalbox.said(v_reason || ' (approval_expired)', true));
    when p_hold.decision = 'approve' then
      update signalbox.tool_call set state = 'authorized' where id = v_call.id;
    when p_hold.decision = 'edit' then
      update signalbox.tool_call
      set state = 'authorized', edited_arguments = p_hold.response ->> 'argumentsJson',
          call_digest = p_hold.response ->> 'digest', verdict = null, policy_version = null, judgement = null
      where id = v_call.id;
    when p_hold.decision = 'respond' then
      perform signalbox.deny_pending(p_run, v_call.id, null, 'A person answered in place of the tool.',
                                     signalbox.said(coalesce(v_words, ''), false));
    else
      v_reason := 'A person refused this call' || coalesce(': ' || v_words, '.');
      perform signalbox.deny_pending(p_run, v_call.id, 'approval_rejected', v_reason,
                                     signalbox.said(v_reason, true));
  end case;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.move_client_call(p_run signalbox.run, p_hold signalbox.hold)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
  v_words text := signalbox.words_of(p_hold.response);
  v_failed boolean;
  v_why text;
begin
  select t.* into v_call from signalbox.tool_call t
  where t.hold_id = p_hold.id and t.state in ('awaiting_approval', 'withdrawn') for update;
  if not found or (v_call.state = 'withdrawn' and p_hold.state <> 'withdrawn') then
    return;
  end if;
  if p_hold.state = 'withdrawn' then
    update signalbox.tool_call set state = 'withdrawn', finished_at = signalbox.clock() where id = v_call.id
    returning * into strict v_call;
    perform signalbox.tell_tool_finished(p_run, v_call, 1);
    return;
  end if;
  v_why := case
    when p_hold.state = 'expired' then 'client_tool_unanswered'
    when p_hold.decision = 'reject' then 'client_tool_refused' end;
  v_words := case
    when p_hold.state = 'expired' then 'Nobody answered in time. (client_tool_unanswered)'
    when p_hold.decision = 'reject'
      then 'The client refused this' || coalesce(': ' || v_words, '.') || ' (client_tool_refused)'
    when p_hold.kind = 'client_tool' then coalesce(p_hold.response ->> 'content', v_words, '')
    when jsonb_typeof(p_hold.response) = 'string' then p_hold.response #>> '{}'
    else coalesce(p_hold.response::text, '') end;
  v_failed := v_why is not null
    or (p_hold.kind = 'client_tool' and coalesce(p_hold.response -> 'isError' = 'true'::jsonb, false));
  update signalbox.tool_call
  set state = case when v_failed then 'failed' else 'succeeded' end, error_code = v_why,
      result = signalbox.said(v_words, v_failed), result_summary = left(v_words, 200),
      finished_at = signalbox.clock()
  where id = v_call.id
  returning * into strict v_call;
  perform signalbox.note_tool_finished(p_run, v_call);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.move_gateway_call(p_hold signalbox.hold)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
  v_words text := signalbox.words_of(p_hold.response);
  v_reason text;
begin
  select g.* into v_call from signalbox.gateway_call g
  where g.id = p_hold.gateway_call_id and g.hold_id = p_hold.id and g.state = 'awaiting_approval' for update;
  if not found then
    return;
  end if;
  case
    when p_hold.state = 'withdrawn' then
      update signalbox.gateway_call
      set state = 'withdrawn', denial = 'The call was given up before anybody decided.', finished_at = signalbox.clock()
      where id = v_call.id;
    when p_hold.state = 'expired' then
      v_reason := 'Nobody approved this call in time.';
      perform signalbox.deny_asked_call(v_call.id, 'approval_expired', v_reason,
                                        signalbox.said(v_reason || ' (approval_expired)', true));
    when p_hold.decision in ('approve', 'edit') then
      update signalbox.gateway_call
      set state = 'authorized', edited_arguments = case p_hold.decision when 'edit' then p_hold.response ->> 'argumentsJson' end
      where id = v_call.id;
    when p_hold.decision = 'respond' then
      perform signalbox.deny_asked_call(v_call.id, null, 'A person answered in place of the tool.',
                                        signalbox.said(coalesce(v_words, ''), false));
    else
      v_reason := 'A person refused this call' || coalesce(': ' || v_words, '.');
      perform signalbox.deny_asked_call(v_call.id, 'approval_rejected', v_reason,
                                        signalbox.said(v_reason || ' (approval_rejected)', true));
  end case;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.move_queue(p_conversation text, p_after bigint, p_generation bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
  v_place integer := 1;
begin
  for v_run in
    select r.* from signalbox.run r
    where r.conversation_id = p_conversation and r.state = 'queued' and r.consumed_at is null order by r.position
  loop
    if v_run.position > p_after then
      -- A place only falls, so a later one is a newer revision.
      perform signalbox.write_event(v_run, p_generation, 1048575 - v_place, v_run.message_id, 'queue.moved',
        json_build_object('messageId', v_run.message_id, 'position', v_place));
    end if;
    v_place := v_place + 1;
  end loop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.new_id(p_prefix text)
 RETURNS text
 LANGUAGE sql
 PARALLEL SAFE
RETURN ((((p_prefix || '_'::text) || lpad(to_hex(signalbox.unix_ms(signalbox.clock())), 12, '0'::text)) || '7'::text) || substr(replace((gen_random_uuid())::text, '-'::text, ''::text), 14))
;
CREATE OR REPLACE FUNCTION signalbox.newest(p_conversation text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
begin
  return (select c.last_sequence from signalbox.conversation c where c.id = p_conversation);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.not_entered(p_entry signalbox.gate_entry)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run := p_entry.run;
  v_hold text;
begin
  if p_entry.stop_id is null then
    return json_build_object('code', p_entry.code);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  select h.id into v_hold from signalbox.hold h
  where h.run_id = v_run.id and h.state = 'open' and h.kind = 'operator' and h.subject ->> 'stopId' = p_entry.stop_id;
  if not found then
    v_hold := signalbox.new_id('hld');
    perform signalbox.put_hold(v_run, v_hold, 'operator', jsonb_build_object('stopId', p_entry.stop_id), null, null);
  end if;
  return json_build_object('code', p_entry.code, 'holdId', v_hold, 'conversationId', v_run.conversation_id,
                           'generation', v_run.generation, 'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_admitted(p_run signalbox.run, p_generation bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.write_event(p_run, p_generation, 0, p_run.id, 'run.admitted',
    json_build_object('messageId', p_run.message_id));
  perform signalbox.audit(p_run.tenant_id, 'run_admitted', p_run.actor, p_run.conversation_id, p_run.id, p_generation,
    '{"messageId":' || signalbox.quoted(p_run.message_id) || '}');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_client_hold_closed(p_hold signalbox.hold)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.audit(p_hold.tenant_id, 'hold_' || p_hold.state, p_hold.decided_by, null, null, null,
    '{"decision":' || signalbox.quoted(p_hold.decision)
    || ',"digest":' || signalbox.quoted(p_hold.digest)
    || ',"gatewayCallId":' || signalbox.quoted(p_hold.gateway_call_id)
    || ',"holdId":' || signalbox.quoted(p_hold.id)
    || ',"kind":' || signalbox.quoted(p_hold.kind) || '}');
  perform signalbox.owe_client_hold(p_hold, 'hold.' || p_hold.state,
    case p_hold.state when 'decided' then jsonb_build_object('decision', p_hold.decision) else '{}'::jsonb end);
  perform signalbox.move_gateway_call(p_hold);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_denied(p_run signalbox.run, p_call text, p_name text, p_code text, p_reason text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.audit(p_run.tenant_id, 'tool_denied', p_run.actor, p_run.conversation_id, p_run.id,
    p_run.generation,
    '{"denial":' || signalbox.quoted(p_reason)
    || ',"errorCode":' || signalbox.quoted(p_code)
    || ',"name":' || signalbox.quoted(p_name)
    || ',"state":"denied","toolCallId":' || signalbox.quoted(p_call) || '}');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_gateway_called(p_call signalbox.gateway_call)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.audit(p_call.tenant_id, 'tool_called', p_call.actor, null, null, null,
    '{"argumentsDigest":' || signalbox.quoted(p_call.arguments_digest)
    || ',"definitionHash":' || signalbox.quoted(p_call.definition_hash)
    || ',"effect":' || signalbox.quoted(p_call.effect)
    || ',"endpoint":' || signalbox.quoted(p_call.endpoint)
    || ',"gatewayCallId":' || signalbox.quoted(p_call.id)
    || case when p_call.hold_id is null then '' else ',"holdId":' || signalbox.quoted(p_call.hold_id) end
    || ',"name":' || signalbox.quoted(p_call.server || '/' || p_call.tool)
    || ',"policyVersion":' || signalbox.quoted(p_call.policy_version) || '}');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_gateway_denied(p_call signalbox.gateway_call)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.audit(p_call.tenant_id, 'tool_denied', p_call.actor, null, null, null,
    '{"denial":' || signalbox.quoted(p_call.denial)
    || ',"errorCode":' || signalbox.quoted(p_call.error_code)
    || ',"gatewayCallId":' || signalbox.quoted(p_call.id)
    || ',"name":' || signalbox.quoted(p_call.server || '/' || p_call.tool)
    || ',"policyVersion":' || signalbox.quoted(p_call.policy_version)
    || ',"state":' || signalbox.quoted(p_call.state) || '}');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_gateway_settled(p_call signalbox.gateway_call, p_late boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.audit(p_call.tenant_id, 'tool_settled', p_call.actor, null, null, null,
    '{"errorCode":' || signalbox.quoted(p_call.error_code)
    || ',"gatewayCallId":' || signalbox.quoted(p_call.id)
    || case when p_late then ',"late":true' else '' end
    || ',"name":' || signalbox.quoted(p_call.server || '/' || p_call.tool)
    || ',"resultDigest":' || signalbox.quoted(encode(sha256(convert_to(
         coalesce(case when p_late then p_call.late_result else p_call.result end, ''), 'UTF8')), 'hex'))
    || ',"state":' || signalbox.quoted(p_call.state) || '}');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_hold_opened(p_run signalbox.run, p_hold signalbox.hold, p_generation bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.write_event(p_run, p_generation, 0, p_hold.id, 'hold.opened', json_build_object(
    'holdId', p_hold.id, 'kind', p_hold.kind, 'subject', p_hold.subject, 'digest', p_hold.digest,
    'expiresAt', signalbox.rfc3339(p_hold.expires_at)));
  perform signalbox.audit(p_run.tenant_id, 'hold_opened', p_run.actor, p_run.conversation_id, p_run.id, p_generation,
    '{"digest":' || signalbox.quoted(p_hold.digest)
    || ',"holdId":' || signalbox.quoted(p_hold.id)
    || ',"kind":' || signalbox.quoted(p_hold.kind) || '}');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_late_result(p_call text, p_result text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
begin
  update signalbox.gateway_call set late_result = p_result
  where id = p_call and state in ('unknown', 'failed') and late_result is null
  returning * into v_call;
  if found then
    perform signalbox.note_gateway_settled(v_call, true);
  end if;
  return json_build_object('kind', case when v_call.id is null then 'unchanged' else 'noted' end);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_stale(p_conversation text, p_run text, p_generation bigint, p_what text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.audit(c.tenant_id, 'stale_refused', null, p_conversation, p_run, p_generation,
    '{"what":' || signalbox.quoted(p_what) || '}')
  from signalbox.conversation c where c.id = p_conversation;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_taken(p_run signalbox.run, p_cause text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if p_cause = 'ready' then
    perform signalbox.write_event(p_run, p_run.generation, 0, p_run.id, 'run.started',
      json_build_object('runtime', p_run.runtime, 'attempt', p_run.attempt));
  else
    perform signalbox.write_event(p_run, p_run.generation, 0, p_run.id, 'run.recovered',
      json_build_object('cause', p_cause, 'attempt', p_run.attempt));
  end if;
  perform signalbox.audit(p_run.tenant_id, case p_cause when 'ready' then 'run_started' else 'run_recovered' end,
    p_run.actor, p_run.conversation_id, p_run.id, p_run.generation,
    '{"attempt":' || p_run.attempt || ',"cause":' || signalbox.quoted(p_cause) || ',"process":' || p_run.owner || '}');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_tool_finished(p_run signalbox.run, p_call signalbox.tool_call)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.tell_tool_finished(p_run, p_call, 2);
  perform signalbox.audit(p_run.tenant_id,
    case p_call.state when 'denied' then 'tool_denied' else 'tool_settled' end,
    p_run.actor, p_run.conversation_id, p_run.id, p_call.generation,
    '{"denial":' || signalbox.quoted(p_call.denial)
    || ',"errorCode":' || signalbox.quoted(p_call.error_code)
    || ',"name":' || signalbox.quoted(p_call.name)
    || ',"state":' || signalbox.quoted(p_call.state)
    || ',"toolCallId":' || signalbox.quoted(p_call.id) || '}');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.note_usage(p_run signalbox.run, p_call signalbox.model_call)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update signalbox.run
  set input_tokens = input_tokens + p_call.input_tokens, output_tokens = output_tokens + p_call.output_tokens,
      cache_read_tokens = cache_read_tokens + p_call.cache_read_tokens,
      cache_write_tokens = cache_write_tokens + p_call.cache_write_tokens,
      cost_micros = case when p_call.cost_micros is null then cost_micros
                         else coalesce(cost_micros, 0) + p_call.cost_micros end
  where id = p_run.id;
  perform signalbox.write_event(p_run, p_call.generation, 0, p_call.id, 'usage.recorded', json_build_object(
    'modelCallId', p_call.id, 'requestedModel', p_call.requested_model,
    'servedModel', coalesce(p_call.served_model, p_call.requested_model),
    'usage', json_build_object('inputTokens', p_call.input_tokens, 'outputTokens', p_call.output_tokens,
                               'cacheReadTokens', p_call.cache_read_tokens,
                               'cacheWriteTokens', p_call.cache_write_tokens),
    'costMicros', p_call.cost_micros, 'priceVersion', p_call.price_version,
    'estimated', p_call.state = 'estimated'));
  perform signalbox.audit(p_run.tenant_id, 'model_settled', p_run.actor, p_run.conversation_id, p_run.id,
    p_call.generation,
    '{"costMicros":' || coalesce(p_call.cost_micros::text, 'null')
    || ',"errorCode":' || signalbox.quoted(p_call.error_code)
    || ',"modelCallId":' || signalbox.quoted(p_call.id)
    || ',"servedModel":' || signalbox.quoted(p_call.served_model)
    || ',"state":' || signalbox.quoted(p_call.state) || '}');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.offers(p_but integer)
 RETURNS TABLE(runtimes jsonb, providers jsonb)
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT o.runtimes,
     o.providers
    FROM (signalbox.process_offer o
      JOIN signalbox.process p ON ((p.incarnation = o.incarnation)))
   WHERE ((p.dead_at IS NULL) AND (p.lease_until > signalbox.clock()) AND (p.incarnation IS DISTINCT FROM offers.p_but))
   ORDER BY p.incarnation;
END
;
CREATE OR REPLACE FUNCTION signalbox.open_asked(p_run signalbox.run, p_model_call text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
  v_hold text;
begin
  for v_call in
    select t.* from signalbox.tool_call t
    where t.run_id = p_run.id and t.model_call_id = p_model_call and t.verdict = 'ask' and t.hold_id is null
      and signalbox.is_pending(t.state) and (signalbox.same_effect(t)).id is null
    order by t.ordinal for update
  loop
    v_hold := signalbox.new_id('hld');
    update signalbox.tool_call set state = 'awaiting_approval', hold_id = v_hold where id = v_call.id;
    perform signalbox.put_hold(p_run, v_hold, 'approval', jsonb_build_object(
      'toolCallId', v_call.id, 'toolUseId', v_call.tool_use_id, 'name', v_call.name, 'server', v_call.server,
      'tool', v_call.tool, 'title', v_call.title, 'effect', v_call.effect, 'grade', 'contained',
      'argumentsJson', coalesce(v_call.edited_arguments, v_call.arguments), 'definitionHash', v_call.definition_hash,
      'agentRevision', p_run.agent_revision, 'policyVersion', v_call.policy_version,
      'rules', coalesce(v_call.judgement -> 'rules', '[]'), 'reason', v_call.judgement ->> 'reason',
      'origins', v_call.judgement -> 'origins', 'approver', coalesce(v_call.judgement ->> 'approver', 'anyone')),
      v_call.call_digest, (v_call.judgement ->> 'expiresInMs')::bigint);
  end loop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.open_era(p_cause text, p_place text)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_era integer;
  v_since timestamptz;
  v_tenant text;
  v_id text;
begin
  perform pg_advisory_xact_lock(signalbox.presence_space(), -1);
  lock table signalbox.ownership in exclusive mode;
  perform from signalbox.process p where p.dead_at is null order by p.incarnation for update;
  select coalesce(max(p.heartbeat_at), signalbox.clock()) into v_since from signalbox.process p;
  insert into signalbox.store_identity (system_identifier, timeline, place, era)
  values (signalbox.system_identifier(), signalbox.store_timeline(), p_place, 2)
  on conflict (singleton) do update
  set system_identifier = excluded.system_identifier, timeline = excluded.timeline,
      place = coalesce(excluded.place, store_identity.place), era = store_identity.era + 1
  returning era into v_era;
  insert into signalbox.era (number, cause, since) values (v_era, p_cause, v_since);
  perform setval('signalbox.incarnation', nextval('signalbox.incarnation') + 65536);
  update signalbox.process set dead_at = signalbox.clock() where dead_at is null;
  update signalbox.ownership set generation = generation + 1048576;
  delete from signalbox.slot;
  for v_id in select m.id from signalbox.model_call m where m.state = 'executing' order by m.conversation_id, m.id loop
    perform signalbox.lose_model_call(v_id);
  end loop;
  for v_id in select t.id from signalbox.tool_call t where t.state = 'executing' order by t.conversation_id, t.id loop
    perform signalbox.lose_tool_call(v_id);
  end loop;
  perform signalbox.ask_again();
  for v_tenant in select distinct c.tenant_id from signalbox.conversation c loop
    perform signalbox.audit(v_tenant, 'incarnation_opened', null, null, null, null,
      '{"cause":' || signalbox.quoted(p_cause) || ',"era":' || v_era
      || ',"since":' || signalbox.quoted(signalbox.rfc3339(v_since))
      || ',"until":' || signalbox.quoted(signalbox.rfc3339(signalbox.clock())) || '}');
  end loop;
  return v_era;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.open_hold(p_token_hash text, p_process integer, p_hold text, p_kind text, p_subject jsonb, p_digest text, p_expires_ms bigint)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_hold signalbox.hold;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  v_hold := signalbox.put_hold(v_run, p_hold, p_kind, p_subject, p_digest, p_expires_ms);
  return json_build_object('holdId', v_hold.id, 'conversationId', v_run.conversation_id,
                           'generation', v_run.generation, 'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.open_model_call(p_token_hash text, p_call text, p_process integer, p_wire text, p_model text, p_request_bytes bigint, p_rules text[])
 RETURNS json
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.foresee_pause(p_token_hash);
  return signalbox.in_earlier_words(
    signalbox.begin_model_call(p_token_hash, p_call, p_process, p_wire, p_model, p_request_bytes, p_rules));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.open_runs(p_tenant text, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
begin
  return (select count(*) from (
    select from signalbox.run r
    where r.tenant_id = p_tenant and r.state in ('queued', 'admitted', 'running', 'finalizing')
    limit p_limit) as open_run);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.open_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text, p_digest text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.foresee_pause(p_token_hash);
  return signalbox.in_earlier_words(
    signalbox.begin_tool_call(p_token_hash, p_process, p_tool_use, p_name, p_digest, null));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.orphaned_generation(p_conversation text, p_generation bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
begin
  return (
    select max(t.generation)
    from signalbox.conversation c join signalbox.transcript_entry t
      on t.conversation_id = c.id and t.position > c.leaf_position
    where c.id = p_conversation and not t.cut and t.generation < p_generation);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.over_limit(p_tenant text, p_conversation text, p_minute_limit integer, p_tenant_limit integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_at timestamptz := signalbox.clock();
  v_paced timestamptz;
begin
  if signalbox.count_open_runs(p_tenant, p_tenant_limit) >= p_tenant_limit then
    return json_build_object('code', 'too_many_runs', 'limit', p_tenant_limit);
  end if;
  select greatest(o.paced_until, v_at) + interval '1 minute' / p_minute_limit into strict v_paced
  from signalbox.ownership o where o.conversation_id = p_conversation;
  if v_paced > v_at + interval '1 minute' then
    return json_build_object('code', 'message_rate_exceeded', 'limit', p_minute_limit,
      'retryAfterMs', signalbox.unix_ms(v_paced) - signalbox.unix_ms(v_at) - 60000);
  end if;
  update signalbox.ownership set paced_until = v_paced where conversation_id = p_conversation;
  return null;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.owe_client_hold(p_hold signalbox.hold, p_type text, p_data jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_webhook text;
  v_delivery text;
  v_at text := signalbox.rfc3339(signalbox.clock());
begin
  for v_webhook in
    select w.id from signalbox.webhook w
    where w.tenant_id = p_hold.tenant_id and w.disabled_at is null and p_type = any (w.events)
  loop
    v_delivery := signalbox.new_id('dlv');
    insert into signalbox.webhook_delivery (id, tenant_id, webhook_id, type, payload)
    values (v_delivery, p_hold.tenant_id, v_webhook, p_type, jsonb_build_object(
      'id', v_delivery, 'type', p_type, 'timestamp', v_at, 'data', p_data || jsonb_build_object(
        'type', p_type, 'itemId', p_hold.id, 'conversationId', null, 'runId', null,
        'gatewayCallId', p_hold.gateway_call_id, 'at', v_at, 'holdId', p_hold.id, 'kind', p_hold.kind))::text);
  end loop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.owe_deliveries(p_event signalbox.event)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.past_messages(p_run text, p_limit integer)
 RETURNS TABLE(role text, text text, calls json)
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT recent.role,
     recent.text,
         CASE recent.role
             WHEN 'user'::text THEN signalbox.calls_told(recent.run_id)
             ELSE NULL::json
         END AS "case"
    FROM ( SELECT m.role,
             m.text,
             m."position",
             m.run_id
            FROM (signalbox.run r
              JOIN signalbox.message m ON (((m.conversation_id = r.conversation_id) AND (m."position" < (r."position" * 2)) AND (NOT m.struck))))
           WHERE (r.id = past_messages.p_run)
           ORDER BY m."position" DESC
          LIMIT past_messages.p_limit) recent
   ORDER BY recent."position";
END
;
CREATE OR REPLACE FUNCTION signalbox.presence_space()
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN 1396854616
;
CREATE OR REPLACE FUNCTION signalbox.process_lives(p_process integer)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return exists (select from signalbox.process p where p.incarnation = p_process and p.dead_at is null)
    and signalbox.store_stands();
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.propose(p_run signalbox.run, p_call signalbox.model_call, p_proposals jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_proposal jsonb;
  v_before signalbox.tool_call;
  v_ordinal integer := 0;
begin
  if (select count(*) > count(distinct p ->> 'toolUseId') from jsonb_array_elements(p_proposals) p)
     or exists (
       select from jsonb_array_elements(p_proposals) p
       join signalbox.tool_call t on t.run_id = p_run.id and t.tool_use_id = p ->> 'toolUseId'
       where t.arguments_digest <> p ->> 'argumentsDigest' or t.name <> p ->> 'name')
  then
    return false;
  end if;
  for v_proposal in select value from jsonb_array_elements(p_proposals) loop
    v_ordinal := v_ordinal + 1;
    update signalbox.tool_call
    set generation = p_call.generation, model_call_id = p_call.id, ordinal = v_ordinal
    where run_id = p_run.id and tool_use_id = v_proposal ->> 'toolUseId';
    if found then
      perform signalbox.propose_again(p_run.id, v_proposal ->> 'toolUseId');
    else
      perform signalbox.propose_new(p_run, p_call, v_ordinal, v_proposal);
    end if;
  end loop;
  for v_before in
    select t.* from signalbox.tool_call t
    where t.run_id = p_run.id and t.generation < p_call.generation and signalbox.is_pending(t.state)
    order by t.proposed_at, t.ordinal for update
  loop
    perform signalbox.withdraw_call(v_before);
  end loop;
  return true;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.propose_again(p_run text, p_tool_use text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update signalbox.tool_call
  set state = 'proposed', process = null, started_at = null, finished_at = null, result = null, result_summary = null,
      error_code = null, denial = null, proposed_at = signalbox.clock(), verdict = null, policy_version = null,
      judgement = null, hold_id = null, edited_arguments = null, call_digest = null
  where run_id = p_run and tool_use_id = p_tool_use
    and (state in ('failed', 'withdrawn') or (state = 'unknown' and effect in ('read', 'egress_read')));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.propose_new(p_run signalbox.run, p_call signalbox.model_call, p_ordinal integer, p_proposal jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_denied boolean := p_proposal ->> 'server' is null;
  v_judged jsonb := nullif(p_proposal -> 'judged', 'null');
  v_call signalbox.tool_call;
begin
  insert into signalbox.tool_call (
    id, tenant_id, run_id, conversation_id, model_call_id, ordinal, tool_use_id, name, server, tool, title, effect,
    definition_hash, arguments, arguments_digest, call_digest, state, generation, error_code, denial, proposed_at,
    finished_at)
  values (
    p_proposal ->> 'toolCallId', p_run.tenant_id, p_run.id, p_run.conversation_id, p_call.id, p_ordinal,
    p_proposal ->> 'toolUseId', p_proposal ->> 'name', p_proposal ->> 'server', p_proposal ->> 'tool',
    coalesce((select t.title from signalbox.tool t
              where t.tenant_id = p_run.tenant_id and t.server = p_proposal ->> 'server'
                and t.tool = p_proposal ->> 'tool'), p_proposal ->> 'tool', p_proposal ->> 'name'),
    p_proposal ->> 'effect', p_proposal ->> 'definitionHash', p_proposal ->> 'argumentsJson',
    p_proposal ->> 'argumentsDigest', p_proposal ->> 'callDigest',
    case when v_denied then 'denied' else 'proposed' end, p_call.generation,
    case when v_denied then 'tool_not_allowed' end,
    case when v_denied then 'This agent has no tool of that name.' end,
    signalbox.clock(), case when v_denied then signalbox.clock() end)
  returning * into strict v_call;
  if v_denied then
    perform signalbox.note_tool_finished(p_run, v_call);
    return;
  end if;
  if v_judged is null or v_judged ->> 'verdict' = 'ask' or v_call.server = '@client' then
    perform signalbox.inherit_hold(p_run, v_call);
  end if;
  if v_judged is not null then
    perform signalbox.put_verdict(p_run, v_call.id, v_judged ->> 'policyVersion', v_judged - 'policyVersion');
  end if;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.prune_deliveries(p_age_ms bigint, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.prune_keys(p_age_ms bigint, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.prune_slots(p_age_ms bigint, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.prune_transcripts(p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_count integer;
begin
  delete from signalbox.transcript_entry t
  using (
    select e.conversation_id, e.position
    from signalbox.transcript_entry e join signalbox.conversation c on c.id = e.conversation_id
    where e.cut and (e.position <= c.leaf_position or not exists (
      select from signalbox.run r
      where r.conversation_id = e.conversation_id
        and r.state in ('admitted', 'running', 'suspended', 'finalizing')))
    order by e.conversation_id, e.position limit p_limit
    for update of e skip locked) as gone
  where t.conversation_id = gone.conversation_id and t.position = gone.position;
  get diagnostics v_count = row_count;
  return v_count;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.put_client_hold(p_call signalbox.gateway_call, p_title text)
 RETURNS signalbox.hold
 LANGUAGE plpgsql
AS $function$
declare
  v_hold signalbox.hold;
begin
  insert into signalbox.hold (id, tenant_id, gateway_call_id, kind, subject, digest, expires_at)
  values (p_call.hold_id, p_call.tenant_id, p_call.id, 'approval', jsonb_build_object(
      'gatewayCallId', p_call.id, 'endpoint', p_call.endpoint, 'name', p_call.server || '__' || p_call.tool,
      'server', p_call.server, 'tool', p_call.tool, 'title', coalesce(p_title, p_call.tool), 'effect', p_call.effect,
      'grade', 'contained', 'argumentsJson', p_call.arguments, 'definitionHash', p_call.definition_hash,
      'policyVersion', p_call.policy_version, 'rules', coalesce(p_call.judgement -> 'rules', '[]'),
      'reason', p_call.judgement ->> 'reason', 'origins', coalesce(p_call.judgement -> 'origins', '[]'),
      'approver', coalesce(p_call.judgement ->> 'approver', 'anyone')),
    p_call.call_digest,
    signalbox.clock() + make_interval(secs => (p_call.judgement ->> 'expiresInMs')::bigint / 1000.0))
  returning * into strict v_hold;
  perform signalbox.audit(p_call.tenant_id, 'hold_opened', p_call.actor, null, null, null,
    '{"digest":' || signalbox.quoted(v_hold.digest)
    || ',"gatewayCallId":' || signalbox.quoted(p_call.id)
    || ',"holdId":' || signalbox.quoted(v_hold.id)
    || ',"kind":' || signalbox.quoted(v_hold.kind) || '}');
  perform signalbox.owe_client_hold(v_hold, 'hold.opened', jsonb_build_object(
    'subject', v_hold.subject, 'digest', v_hold.digest, 'expiresAt', signalbox.rfc3339(v_hold.expires_at)));
  return v_hold;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.put_hold(p_run signalbox.run, p_hold text, p_kind text, p_subject jsonb, p_digest text, p_expires_ms bigint)
 RETURNS signalbox.hold
 LANGUAGE plpgsql
AS $function$
declare
  v_hold signalbox.hold;
begin
  insert into signalbox.hold (id, tenant_id, conversation_id, run_id, kind, subject, digest, expires_at)
  values (p_hold, p_run.tenant_id, p_run.conversation_id, p_run.id, p_kind, p_subject, p_digest,
          signalbox.clock() + make_interval(secs => p_expires_ms / 1000.0))
  on conflict (id) do nothing
  returning * into v_hold;
  if not found then
    select h.* into strict v_hold from signalbox.hold h where h.id = p_hold and h.run_id = p_run.id;
    return v_hold;
  end if;
  perform signalbox.note_hold_opened(p_run, v_hold, p_run.generation);
  return v_hold;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.put_slot(p_run signalbox.run, p_token_hash text, p_worker text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  insert into signalbox.slot (token_hash, tenant_id, conversation_id, snapshot_hash, worker_id, run_id, generation,
                              actor, bound_at)
  values (p_token_hash, p_run.tenant_id, p_run.conversation_id, p_run.snapshot_hash, p_worker, p_run.id,
          p_run.generation, p_run.actor, signalbox.clock())
  on conflict (token_hash) do update
  set snapshot_hash = excluded.snapshot_hash, worker_id = excluded.worker_id, run_id = excluded.run_id,
      generation = excluded.generation, actor = excluded.actor, bound_at = excluded.bound_at
  where slot.conversation_id = p_run.conversation_id;
  if not found then
    return false;
  end if;
  -- One slot speaks for a generation; slots of earlier ones keep theirs, and hear that it is stale.
  update signalbox.slot s set run_id = null, generation = null
  where s.conversation_id = p_run.conversation_id and s.token_hash <> p_token_hash
    and s.generation = p_run.generation;
  delete from signalbox.slot s
  where s.conversation_id = p_run.conversation_id and s.token_hash <> p_token_hash
    and (s.run_id is null or s.bound_at < signalbox.clock() - interval '1 hour');
  return true;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.put_to_wait(p_run signalbox.run)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
  v_generation bigint;
begin
  update signalbox.run set state = 'suspended', owner = null, suspended_at = signalbox.clock() where id = p_run.id
  returning * into strict v_run;
  update signalbox.ownership
  set generation = generation + 1, owner = null, runtime = null, ready_at = null
  where conversation_id = v_run.conversation_id
  returning generation into strict v_generation;
  perform signalbox.unbind_slots(v_run.conversation_id);
  perform signalbox.write_event(v_run, v_generation, 0, v_run.id, 'run.suspended',
    json_build_object('waitingFor', signalbox.waiting_for(v_run.id)));
  perform signalbox.audit(v_run.tenant_id, 'run_suspended', v_run.actor, v_run.conversation_id, v_run.id,
    v_generation, '{}');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.put_verdict(p_run signalbox.run, p_call text, p_policy text, p_verdict jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
begin
  update signalbox.tool_call
  set verdict = p_verdict ->> 'verdict', policy_version = p_policy, judgement = p_verdict - 'verdict',
      call_digest = coalesce(call_digest, p_verdict ->> 'callDigest')
  where id = p_call and signalbox.is_pending(state) and policy_version is distinct from p_policy
  returning * into v_call;
  if found and v_call.verdict = 'deny' then
    v_call := signalbox.deny_pending(p_run, p_call, p_verdict ->> 'code', p_verdict ->> 'reason',
                                     signalbox.said(p_verdict ->> 'reason', true));
    perform signalbox.withdraw_question(v_call);
  end if;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.quoted(p_text text)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN COALESCE((to_json(p_text))::text, 'null'::text)
;
CREATE OR REPLACE FUNCTION signalbox.read_events(p_tenant text, p_user text, p_conversation text, p_after bigint, p_limit integer)
 RETURNS TABLE(sequence bigint, item_id text, revision bigint, type text, run_id text, turn_id text, trace_id text, generation bigint, data text, at timestamp with time zone)
 LANGUAGE plpgsql
AS $function$
begin
  if signalbox.event_head(p_tenant, p_user, p_conversation) is null then
    return;
  end if;
  return query
    select e.sequence, e.item_id, e.revision, e.type, e.run_id, e.turn_id, e.trace_id, e.generation, e.data, e.at
    from signalbox.event e
    where e.conversation_id = p_conversation and e.tenant_id = p_tenant and e.sequence > p_after
    order by e.sequence
    limit p_limit;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.read_feed(p_tenant text, p_user text, p_agent text, p_era integer, p_position xid8, p_after text, p_sequence bigint, p_limit integer, p_bytes integer)
 RETURNS TABLE(place text, conversation_id text, sequence bigint, item_id text, revision bigint, type text, run_id text, turn_id text, trace_id text, generation bigint, data text, at timestamp with time zone, shown boolean, more boolean)
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.read_page(p_tenant text, p_user text, p_conversation text, p_after bigint, p_limit integer, p_bytes integer)
 RETURNS TABLE(sequence bigint, item_id text, revision bigint, type text, run_id text, turn_id text, trace_id text, generation bigint, data text, at timestamp with time zone, more boolean)
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.reclaim(p_process integer, p_conversations text[], p_generations bigint[])
 RETURNS SETOF json
 LANGUAGE plpgsql
AS $function$
declare
  v_conversation text;
begin
  if not signalbox.process_lives(p_process) then
    return next json_build_object('code', 'stale_generation');
    return;
  end if;
  for v_conversation in
    select o.conversation_id from signalbox.ownership o
    where o.owner = p_process
      and not exists (select from unnest(p_conversations, p_generations) as driven(conversation, generation)
                      where driven.conversation = o.conversation_id and driven.generation = o.generation)
    for update skip locked
  loop
    return next signalbox.take(v_conversation, p_process, 'owner_lost');
  end loop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.reconcile_tool_call(p_tenant text, p_user text, p_call text, p_actor text, p_outcome text, p_result text, p_note text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
  v_run signalbox.run;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  select t.* into v_call from signalbox.tool_call t where t.id = p_call and t.tenant_id = p_tenant;
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  v_run := signalbox.lock_run(p_tenant, p_user, v_call.run_id);
  if v_run.id is null then
    return json_build_object('code', 'not_found');
  end if;
  perform from signalbox.conversation c where c.id = v_run.conversation_id for no key update;
  -- It was deleted while its lock was waited for.
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  update signalbox.tool_call
  set state = case p_outcome when 'not_executed' then 'withdrawn' else p_outcome end,
      result = coalesce(p_result, signalbox.said(case p_outcome
        when 'succeeded' then 'The call was carried out.'
        when 'failed' then 'The call failed.'
        else 'The call was not made.' end, p_outcome <> 'succeeded')),
      result_summary = left(coalesce(p_note, ''), 200), error_code = null, finished_at = signalbox.clock(),
      reconciled_by = p_actor, reconciled_at = signalbox.clock(), reconciliation_note = p_note
  where id = p_call and state = 'unknown'
  returning * into v_call;
  if not found then
    return signalbox.refused('The outcome of this call is not unknown; there is nothing to settle.');
  end if;
  perform signalbox.tell_tool_finished(v_run, v_call, 3);
  perform signalbox.audit(p_tenant, 'tool_reconciled', p_actor, v_run.conversation_id, v_run.id, v_call.generation,
    '{"note":' || signalbox.quoted(p_note)
    || ',"outcome":' || signalbox.quoted(p_outcome)
    || ',"toolCallId":' || signalbox.quoted(p_call) || '}');
  return json_build_object('kind', 'reconciled', 'conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.record_verdicts(p_token_hash text, p_process integer, p_model_call text, p_policy text, p_verdicts jsonb)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_verdict jsonb;
begin
  if v_entry.code is not null then
    return signalbox.not_entered(v_entry);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  for v_verdict in select value from jsonb_array_elements(p_verdicts) loop
    if exists (select from signalbox.tool_call t
               where t.id = v_verdict ->> 'toolCallId' and t.run_id = v_run.id and t.model_call_id = p_model_call)
    then
      perform signalbox.put_verdict(v_run, v_verdict ->> 'toolCallId', p_policy, v_verdict - 'toolCallId');
    end if;
  end loop;
  return json_build_object('kind', 'judged', 'conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.refuse_asked_call(p_call text, p_code text, p_reason text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
begin
  perform from signalbox.gateway_call g
  where g.id = p_call and g.state in ('awaiting_approval', 'authorized') for update;
  if not found then
    return json_build_object('kind', 'unchanged');
  end if;
  v_call := signalbox.deny_asked_call(p_call, p_code, p_reason, signalbox.said(p_reason || ' (' || p_code || ')', true));
  update signalbox.gateway_call set told = true where id = p_call;
  if exists (select from signalbox.hold h where h.id = v_call.hold_id and h.state = 'open') then
    perform signalbox.close_hold(v_call.hold_id, 'withdrawn', null, null, null);
  end if;
  return json_build_object('kind', 'denied');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.refuse_gateway_call(p_call text, p_tenant text, p_actor text, p_principal text, p_endpoint text, p_server text, p_tool text, p_effect text, p_arguments text, p_digest text, p_code text, p_reason text, p_policy text, p_judgement jsonb)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
begin
  insert into signalbox.gateway_call (id, tenant_id, actor, principal, endpoint, server, tool, effect, arguments,
                                      arguments_digest, state, denial, error_code, verdict, policy_version, judgement,
                                      started_at, finished_at)
  values (p_call, p_tenant, p_actor, p_principal, p_endpoint, p_server, p_tool, p_effect, p_arguments, p_digest, 'denied',
          p_reason, p_code, 'deny', p_policy, p_judgement, signalbox.clock(), signalbox.clock())
  returning * into strict v_call;
  perform signalbox.note_gateway_denied(v_call);
  return json_build_object('kind', 'denied');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.refuse_stopped()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if (signalbox.stop_over(new.tenant_id, new.agent_id, new.conversation_id, new.id)).kind = 'stop' then
    raise exception 'stopped by an operator' using errcode = 'check_violation', constraint = 'operator_stopped';
  end if;
  return new;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.refuse_tool_call(p_token_hash text, p_process integer, p_tool_use text, p_name text, p_digest text, p_code text, p_reason text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, p_process);
  v_run signalbox.run := v_entry.run;
  v_call signalbox.tool_call;
begin
  if v_entry.code is not null and v_entry.stop_id is null then
    return json_build_object('code', v_entry.code);
  end if;
  v_run := signalbox.hold_for_call(v_run.conversation_id, v_run.id);
  v_call := signalbox.find_call(v_run, p_tool_use, p_name, p_digest);
  update signalbox.tool_call
  set state = 'denied', denial = p_reason, error_code = p_code, finished_at = signalbox.clock(),
      result = json_build_object('isError', true,
        'content', json_build_array(json_build_object('type', 'text', 'text', p_reason)))
  where id = v_call.id and state in ('proposed', 'awaiting_approval', 'authorized')
  returning * into v_call;
  if found then
    perform signalbox.note_tool_finished(v_run, v_call);
    perform signalbox.withdraw_question(v_call);
  else
    perform signalbox.note_denied(v_run, null, p_name, p_code, p_reason);
  end if;
  return json_build_object('kind', 'denied', 'conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.refused(p_why text)
 RETURNS json
 LANGUAGE sql
 IMMUTABLE
RETURN json_build_object('code', 'command_refused', 'detail', p_why)
;
CREATE OR REPLACE FUNCTION signalbox.refused_retry(p_tenant text, p_run text, p_force boolean)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
  v_later signalbox.run;
begin
  select r.* into v_run from signalbox.run r where r.tenant_id = p_tenant and r.id = p_run;
  select r.* into v_later from signalbox.run r
  where r.conversation_id = v_run.conversation_id and r.position > v_run.position
    and r.requested ->> 'retryOf' = p_run and (r.finished_at is null or r.state = 'completed')
  order by r.position limit 1;
  return case
    when v_run.finished_at is null then 'The run has not ended; it may still be answered.'
    when v_run.state = 'completed' then 'The run was answered; send a new message instead.'
    when v_later.state = 'completed' then 'The run was answered again already, by ' || v_later.id || '.'
    when v_later.id is not null then 'The run is being answered again already, by ' || v_later.id || '.'
    when p_force then null
    when exists (select from signalbox.tool_call t
                 where t.run_id = p_run and t.effect in ('write', 'irreversible') and t.state in ('executing', 'unknown'))
      then 'A call with an effect has an unknown outcome: answering again may repeat it. With force it is done all the same.'
    when exists (select from signalbox.tool_call t
                 where t.run_id = p_run and t.effect in ('write', 'irreversible') and t.state = 'succeeded')
      then 'A call with an effect was carried out: answering again may repeat it. With force it is done all the same.'
  end;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.register_process(p_roles text[], p_lease_ms integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_incarnation integer;
begin
  perform signalbox.check_store(null, null);
  v_incarnation := nextval('signalbox.incarnation');
  -- Before the row can be seen: nobody finds a registered process whose lock is free.
  perform pg_advisory_lock(signalbox.presence_space(), v_incarnation);
  insert into signalbox.process (incarnation, roles, lease_until)
  values (v_incarnation, p_roles, signalbox.clock() + make_interval(secs => p_lease_ms / 1000.0));
  return v_incarnation;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.release(p_conversation text, p_generation bigint)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
  v_cancelled boolean;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'release');
    return json_build_object('code', 'stale_generation');
  end if;
  update signalbox.run set state = 'admitted', owner = null
  where conversation_id = p_conversation and state = 'running' and generation = p_generation
  returning * into v_run;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  update signalbox.ownership
  set generation = generation + 1, owner = null, ready_at = signalbox.clock()
  where conversation_id = p_conversation
  returning cancel_at is not null into strict v_cancelled;
  perform signalbox.unbind_slots(p_conversation);
  if v_cancelled then
    perform signalbox.end_unowned(v_run, p_generation + 1);
    perform signalbox.hand_over(p_conversation);
    return json_build_object('kind', 'released', 'sequence', signalbox.newest(p_conversation));
  end if;
  perform signalbox.audit(v_run.tenant_id, 'run_admitted', v_run.actor, p_conversation, v_run.id, p_generation + 1,
    '{"messageId":' || signalbox.quoted(v_run.message_id) || '}');
  return json_build_object('kind', 'released');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.release_run(p_tenant text, p_user text, p_run text, p_actor text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run := signalbox.lock_run(p_tenant, p_user, p_run);
begin
  if v_run.id is null then
    return json_build_object('code', 'not_found');
  elsif v_run.state <> 'running' then
    return signalbox.refused('Nobody drives the run: it is ' || v_run.state || '.');
  elsif signalbox.has_live_call(p_run, false) then
    return signalbox.refused('A call of the run is open at a live gate; its outcome belongs to this owner.');
  end if;
  if signalbox.release(v_run.conversation_id, v_run.generation) ->> 'code' is not null then
    return signalbox.refused('The run has no owner any more that it could be taken from.');
  end if;
  perform signalbox.audit(p_tenant, 'run_released', p_actor, v_run.conversation_id, p_run, v_run.generation,
    '{"process":' || v_run.owner || '}');
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.renew_process(p_process integer, p_lease_ms integer)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  update signalbox.process
  set heartbeat_at = signalbox.clock(), lease_until = signalbox.clock() + make_interval(secs => p_lease_ms / 1000.0)
  where incarnation = p_process and dead_at is null and signalbox.store_stands();
  return found;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.replay_of(p_call signalbox.tool_call)
 RETURNS json
 LANGUAGE sql
RETURN json_build_object('kind', 'replay', 'toolCallId', (p_call).id, 'state', (p_call).state, 'resultJson', (p_call).result, 'conversationId', (p_call).conversation_id, 'sequence', signalbox.newest((p_call).conversation_id))
;
CREATE OR REPLACE FUNCTION signalbox.request_cancel(p_tenant text, p_user text, p_run text, p_actor text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_conversation text;
  v_generation bigint;
  v_run signalbox.run;
  v_kind text;
begin
  perform set_config('signalbox.tenant', p_tenant, true);
  select r.conversation_id into v_conversation
  from signalbox.run r join signalbox.conversation c on c.id = r.conversation_id
  where r.id = p_run and r.tenant_id = p_tenant and (p_user is null or c.participant = p_user);
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  select o.generation into strict v_generation from signalbox.ownership o
  where o.conversation_id = v_conversation for update;
  select r.* into strict v_run from signalbox.run r where r.id = p_run for update;
  v_kind := signalbox.end_from_outside(v_run, v_generation, 'user_cancel', false, p_actor);
  select r.* into strict v_run from signalbox.run r where r.id = p_run;
  if v_kind <> 'ended' then
    return json_build_object('kind', v_kind, 'state', v_run.state);
  end if;
  return json_build_object('kind', v_kind, 'state', v_run.state, 'conversationId', v_conversation,
                           'sequence', signalbox.newest(v_conversation));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.resume_hold(p_hold text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_hold signalbox.hold := signalbox.lock_hold(p_hold);
  v_stop signalbox.stop;
begin
  select s.* into v_stop from signalbox.stop s where s.id = v_hold.subject ->> 'stopId';
  if v_hold.state <> 'open' or v_stop.lifted_at is null then
    return signalbox.hold_changed(v_hold, 'unchanged', false);
  end if;
  v_hold := signalbox.close_hold(p_hold, 'decided', 'resume', null, v_stop.lifted_by);
  return signalbox.hold_changed(v_hold, 'decided', signalbox.wake_run(v_hold.run_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.retake_presence(p_process integer, p_lease_ms integer)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  if not pg_try_advisory_lock(signalbox.presence_space(), p_process) then
    return 'busy';
  end if;
  if signalbox.renew_process(p_process, p_lease_ms) then
    return 'held';
  end if;
  perform pg_advisory_unlock(signalbox.presence_space(), p_process);
  return 'dead';
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.retract_items(p_run signalbox.run, p_generation bigint, p_cause text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.write_event(p_run, p_generation, 1048575, i.item_id, 'text.retracted',
                                json_build_object('cause', p_cause))
  from signalbox.visible_items(p_run) i;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.revision(p_generation bigint, p_step integer)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN ((p_generation * 1048576) + p_step)
;
CREATE OR REPLACE FUNCTION signalbox.rfc3339(p_at timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN to_char((p_at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'::text)
;
CREATE OR REPLACE FUNCTION signalbox.run_facts(p_run text, p_besides text[], p_sources boolean, p_history boolean, p_as_of text, p_limits json)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_run signalbox.run;
  v_at timestamptz;
  v_chars integer := (p_limits ->> 'textChars')::integer;
  v_all_chars integer := (p_limits ->> 'allTextChars')::integer;
  v_count integer := (p_limits ->> 'textCount')::integer;
  v_texts json := '[]';
  v_cut boolean := false;
begin
  select r.* into v_run from signalbox.run r where r.id = p_run;
  if not found then
    return json_build_object('code', 'not_found');
  end if;
  select coalesce((select t.proposed_at from signalbox.tool_call t where t.id = p_as_of), 'infinity') into v_at;
  if p_sources then
    with said as (
      (select 'user' as kind, null as server, null as tool, null as effect, m.text, m.created_at as at
       from signalbox.message m
       where m.conversation_id = v_run.conversation_id and m.role = 'user' and not m.struck and m.created_at <= v_at
       order by m.position desc limit v_count)
      union all
      (select 'tool', t.server, t.tool, t.effect, t.result, t.finished_at
       from signalbox.tool_call t
       where t.conversation_id = v_run.conversation_id and t.result is not null and t.replay_of is null
         and t.state in ('succeeded', 'failed', 'unknown') and t.finished_at <= v_at
       order by t.finished_at desc limit v_count)),
    counted as (
      select s.*, left(s.text, v_chars) as part, length(s.text) > v_chars as is_cut,
             row_number() over (order by (s.kind = 'user') desc, s.at desc) as place,
             sum(least(length(s.text), v_chars)) over (order by (s.kind = 'user') desc, s.at desc
                                                       rows unbounded preceding) as total
      from said s)
    select coalesce(json_agg(json_build_object('kind', c.kind, 'server', c.server, 'tool', c.tool, 'effect', c.effect,
                                               'text', c.part) order by c.place) filter (where c.total <= v_all_chars), '[]'),
           coalesce(bool_or(c.is_cut or c.total > v_all_chars), false) or count(*) filter (where c.kind = 'tool') >= v_count
    into v_texts, v_cut
    from counted c;
  end if;
  return json_build_object(
    'texts', v_texts, 'areTextsCut', v_cut, 'nowMs', signalbox.unix_ms(least(signalbox.clock(), v_at)),
    'history', case when p_history then (
      select coalesce(json_agg(json_build_object(
               'name', t.name, 'server', coalesce(t.server, ''), 'tool', coalesce(t.tool, ''), 'effect', t.effect,
               'state', t.state, 'arguments', coalesce(t.edited_arguments, t.arguments)::json,
               'atMs', signalbox.unix_ms(t.proposed_at))
             order by t.proposed_at, t.ordinal), '[]')
      from (select * from signalbox.tool_call c
            where c.run_id = p_run and c.id <> all (p_besides) and (p_as_of is null or c.proposed_at < v_at
              or (c.proposed_at = v_at and c.ordinal < (select o.ordinal from signalbox.tool_call o where o.id = p_as_of)))
            order by c.proposed_at desc, c.ordinal desc
            limit (p_limits ->> 'historyCount')::integer) t)
      else '[]'::json end);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.said(p_text text, p_is_error boolean)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN (json_build_object('content', json_build_array(json_build_object('type', 'text', 'text', p_text)), 'isError', p_is_error))::text
;
CREATE OR REPLACE FUNCTION signalbox.same_effect(p_call signalbox.tool_call)
 RETURNS signalbox.tool_call
 LANGUAGE plpgsql
AS $function$
declare
  v_before signalbox.tool_call;
begin
  select t.* into v_before from signalbox.tool_call t
  where t.run_id = p_call.run_id and t.generation < p_call.generation and t.replay_of is null
    and t.state in ('succeeded', 'unknown') and p_call.effect in ('write', 'irreversible')
    and t.server = p_call.server and t.tool = p_call.tool
    and t.definition_hash is not distinct from p_call.definition_hash
    and (t.arguments_digest = p_call.arguments_digest or t.call_digest = p_call.call_digest)
    and not exists (select from signalbox.tool_call n where n.replay_of = t.id and n.generation = p_call.generation)
  order by t.proposed_at, t.ordinal
  limit 1;
  return v_before;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.seal(p_conversation text, p_generation bigint, p_conclusion jsonb)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
  v_tip record;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'seal');
    return json_build_object('code', 'stale_generation');
  end if;
  update signalbox.run
  set state = 'finalizing', conclusion = coalesce(conclusion, p_conclusion),
      sealed_at = coalesce(sealed_at, signalbox.clock())
  where conversation_id = p_conversation and state in ('running', 'finalizing') and generation = p_generation
  returning * into v_run;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  select t.leaf, t.digest into strict v_tip
  from signalbox.transcript_tip(p_conversation, (v_run.conclusion ->> 'generation')::bigint,
                                signalbox.transcript_rung(v_run, v_run.conclusion ->> 'rung')) t;
  return json_build_object(
    'leaf', v_tip.leaf,
    'digest', encode(v_tip.digest, 'hex'),
    'openModelCallCount', (select count(*) from signalbox.model_call m
                           where m.run_id = v_run.id and m.state = 'executing'),
    'openToolCallCount', (select count(*) from signalbox.tool_call t
                          where t.run_id = v_run.id and t.state = 'executing'),
    'unknownToolCallCount', (select count(*) from signalbox.tool_call t
                             where t.run_id = v_run.id and t.state = 'unknown'
                               and t.effect in ('write', 'irreversible')),
    'cancelRequested', v_run.cancel_requested_at is not null,
    'cancelCause', case when v_run.cancel_requested_at is not null
                        then coalesce(v_run.cancel_cause, 'user_cancel') end,
    'strikes', signalbox.can_strike(v_run));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.search_query(p_tenant text, p_text text)
 RETURNS tsquery
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (SELECT (((((string_agg(((''''::text || replace(replace(word.lexeme, '\'::text, '\\'::text), ''''::text, ''''''::text)) || ''':*'::text), ' & '::text) || ' & '''::text) || chr(1)) || replace(replace(search_query.p_tenant, '\'::text, '\\'::text), ''''::text, ''''''::text)) || ''''::text))::tsquery AS tsquery FROM unnest(to_tsvector('simple'::regconfig, search_query.p_text)) word(lexeme, positions, weights))
;
CREATE OR REPLACE FUNCTION signalbox.search_vector(p_tenant text, p_text text)
 RETURNS tsvector
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (to_tsvector('simple'::regconfig, "left"(p_text, 100000)) || array_to_tsvector(ARRAY[(chr(1) || p_tenant)]))
;
CREATE OR REPLACE FUNCTION signalbox.sessions_ahead(p_conversations text[], p_generations bigint[])
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return exists (
    select from unnest(p_conversations, p_generations) as held(conversation, generation)
    join signalbox.ownership o on o.conversation_id = held.conversation
    where o.generation < held.generation);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.settle_delivery(p_delivery text, p_number integer, p_verdict text, p_duration_ms integer, p_status integer, p_error text, p_response text, p_retry_ms bigint, p_failing_ms bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.settle_gateway_call(p_call text, p_state text, p_error_code text, p_result text, p_summary text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
begin
  update signalbox.gateway_call
  set state = p_state, error_code = p_error_code, result = p_result, result_summary = p_summary,
      finished_at = signalbox.clock()
  where id = p_call and state = 'executing'
  returning * into v_call;
  if found then
    perform signalbox.note_gateway_settled(v_call, false);
  end if;
  return json_build_object('kind', case when v_call.id is null then 'unchanged' else 'settled' end);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.settle_model_call(p_call text, p_state text, p_served_model text, p_input bigint, p_output bigint, p_cache_read bigint, p_cache_write bigint, p_cost_micros bigint, p_price_version text, p_stop_reason text, p_error_code text, p_proposals jsonb)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.model_call;
  v_run signalbox.run;
  v_accepted boolean := false;
begin
  select m.* into v_call from signalbox.model_call m where m.id = p_call;
  if not found then
    -- The intent was never recorded: its reply was lost together with it.
    return json_build_object('proposalsAccepted', false);
  end if;
  v_run := signalbox.hold_for_call(v_call.conversation_id, v_call.run_id);
  update signalbox.model_call
  set state = p_state, served_model = p_served_model, input_tokens = p_input, output_tokens = p_output,
      cache_read_tokens = p_cache_read, cache_write_tokens = p_cache_write, cost_micros = p_cost_micros,
      price_version = p_price_version, stop_reason = p_stop_reason, error_code = p_error_code,
      finished_at = signalbox.clock()
  where id = p_call and state = 'executing'
  returning * into v_call;
  if not found then
    return (select json_build_object('proposalsAccepted', coalesce(m.proposals_accepted, false))
            from signalbox.model_call m where m.id = p_call);
  end if;
  perform signalbox.note_usage(v_run, v_call);
  if p_state = 'succeeded' and v_run.state = 'running' and exists (
       select from signalbox.ownership o
       where o.conversation_id = v_call.conversation_id and o.generation = v_call.generation and o.cancel_at is null)
  then
    v_accepted := signalbox.propose(v_run, v_call, p_proposals);
  end if;
  update signalbox.model_call set proposals_accepted = v_accepted where id = p_call;
  return json_build_object('proposalsAccepted', v_accepted, 'conversationId', v_call.conversation_id,
                           'sequence', signalbox.newest(v_call.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.settle_tool_call(p_call text, p_state text, p_result text, p_summary text, p_error_code text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
  v_run signalbox.run;
begin
  select t.* into v_call from signalbox.tool_call t where t.id = p_call;
  if not found then
    return json_build_object('kind', 'unknown');
  end if;
  v_run := signalbox.hold_for_call(v_call.conversation_id, v_call.run_id);
  update signalbox.tool_call
  set state = p_state, result = p_result, result_summary = p_summary, error_code = p_error_code,
      finished_at = signalbox.clock()
  where id = p_call and state = 'executing'
  returning * into v_call;
  if found then
    perform signalbox.note_tool_finished(v_run, v_call);
  end if;
  return json_build_object('conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.settle_transcript(p_conversation text, p_generation bigint, p_continuity text, p_rung text, p_leaf text, p_digest bytea)
 RETURNS void
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_leaf_position bigint;
  v_end bigint;
  v_kept text[] := case when p_continuity = 'moved' and p_rung is distinct from 'rebuilt'
                        then signalbox.kept_by_compaction(p_conversation, p_generation) end;
begin
  select c.leaf_position into strict v_leaf_position from signalbox.conversation c where c.id = p_conversation;
  select greatest(max(t.position), v_leaf_position) into v_end
  from signalbox.transcript_entry t where t.conversation_id = p_conversation;
  if p_continuity = 'broken' or (p_continuity = 'moved' and p_rung = 'rebuilt') then
    delete from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and (p_continuity = 'broken' or t.generation <> p_generation);
  else
    -- Only what stands behind the leaf is looked at, however long the transcript is; in its order, so that no plan takes
    -- another index for as cheap.
    delete from signalbox.transcript_entry d
    where d.ctid = any (array(
      select t.ctid from signalbox.transcript_entry t
      where t.conversation_id = p_conversation and t.position > v_leaf_position and
        (p_continuity = 'kept' or t.generation <> p_generation)
      order by t.position));
  end if;
  if v_kept is not null then
    delete from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and t.position <= v_leaf_position and t.stream = '' and t.kind = 'item'
      and t.entry_id <> all (v_kept);
  end if;
  if p_continuity = 'moved' then
    update signalbox.conversation
    set leaf_entry = p_leaf, leaf_position = v_end, leaf_digest = p_digest
    where id = p_conversation;
  elsif p_continuity = 'broken' then
    update signalbox.conversation set leaf_entry = null, leaf_digest = null where id = p_conversation;
  end if;
  -- Of states, only the newest of each stream below the leaf is worth keeping.
  delete from signalbox.transcript_entry t
  where t.conversation_id = p_conversation and t.kind = 'state'
    and exists (select from signalbox.transcript_entry n
                where n.conversation_id = p_conversation and n.kind = 'state' and n.stream = t.stream
                  and n.position > t.position and not n.cut);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.slot_view(p_token_hash text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_slot signalbox.slot;
  v_run json;
begin
  select s.* into v_slot from signalbox.slot s where s.token_hash = p_token_hash;
  if not found then
    return json_build_object('code', 'slot_unknown');
  end if;
  select json_build_object('runId', r.id, 'messageId', r.message_id, 'generation', v_slot.generation,
                           'traceId', r.trace_id)
  into v_run from signalbox.run r where r.id = v_slot.run_id;
  return json_build_object('tenantId', v_slot.tenant_id, 'conversationId', v_slot.conversation_id,
    'snapshotHash', v_slot.snapshot_hash, 'actor', v_slot.actor::json, 'run', v_run);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.start_tool_call(p_run signalbox.run, p_call signalbox.tool_call, p_process integer)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_before signalbox.tool_call := signalbox.same_effect(p_call);
  v_call signalbox.tool_call;
begin
  if v_before.state = 'unknown' then
    return json_build_object('code', 'tool_outcome_unknown');
  elsif v_before.id is not null then
    update signalbox.tool_call
    set state = 'succeeded', replay_of = v_before.id, result = v_before.result,
        result_summary = v_before.result_summary, finished_at = signalbox.clock()
    where id = p_call.id
    returning * into strict v_call;
    perform signalbox.note_tool_finished(p_run, v_call);
    return signalbox.replay_of(v_call);
  end if;
  update signalbox.run set tool_call_count = tool_call_count + 1
  where id = p_run.id and tool_call_count < tool_call_limit;
  if not found then
    return json_build_object('code', 'run_timeout', 'detail', 'The run has used up its tool calls.');
  end if;
  update signalbox.tool_call set state = 'executing', process = p_process, started_at = signalbox.clock()
  where id = p_call.id
  returning * into strict v_call;
  perform signalbox.write_event(p_run, v_call.generation, 0, v_call.id, 'tool.started', json_build_object(
    'toolCallId', v_call.id, 'toolUseId', v_call.tool_use_id, 'tool', v_call.name, 'title', v_call.title,
    'effect', v_call.effect, 'grade', 'contained', 'argumentsSummary', left(coalesce(v_call.edited_arguments, v_call.arguments), 200)));
  perform signalbox.audit(p_run.tenant_id, 'tool_called', p_run.actor, p_run.conversation_id, p_run.id,
    v_call.generation,
    '{"argumentsDigest":' || signalbox.quoted(v_call.arguments_digest)
    || case when v_call.attempt > 1 then ',"attempt":' || v_call.attempt else '' end
    || case when v_call.call_digest is null then '' else ',"callDigest":' || signalbox.quoted(v_call.call_digest) end
    || ',"definitionHash":' || signalbox.quoted(v_call.definition_hash)
    || ',"effect":' || signalbox.quoted(v_call.effect)
    || case when v_call.hold_id is null then '' else ',"holdId":' || signalbox.quoted(v_call.hold_id) end
    || ',"name":' || signalbox.quoted(v_call.name)
    || ',"toolCallId":' || signalbox.quoted(v_call.id) || '}');
  -- The row outlives every retry of the call, so its id is the key an upstream can recognise a repetition by.
  return json_build_object('kind', 'execute', 'toolCallId', v_call.id, 'runId', v_call.run_id, 'server', v_call.server,
    'tool', v_call.tool, 'effect', v_call.effect,
    'argumentsJson', coalesce(v_call.edited_arguments, v_call.arguments), 'isEdited', v_call.edited_arguments is not null,
    'callDigest', v_call.call_digest, 'conditions', v_call.judgement -> 'conditions', 'idempotencyKey', v_call.id,
    'conversationId', v_call.conversation_id, 'sequence', signalbox.newest(v_call.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.steered(p_process integer)
 RETURNS TABLE(conversation_id text, generation bigint, message_id text, text text)
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT o.conversation_id,
     o.generation,
     r.message_id,
     m.text
    FROM (((signalbox.ownership o
      JOIN signalbox.run a ON (((a.conversation_id = o.conversation_id) AND (a.state = 'running'::text) AND (a.generation = o.generation))))
      JOIN signalbox.run r ON (((r.conversation_id = o.conversation_id) AND (r.state = 'queued'::text) AND (r.steer_into = a.id) AND (r.consumed_at IS NULL))))
      JOIN signalbox.message m ON (((m.tenant_id = r.tenant_id) AND (m.id = r.message_id))))
   WHERE ((o.owner = steered.p_process) AND (o.cancel_at IS NULL) AND (NOT (EXISTS ( SELECT
            FROM signalbox.run b
           WHERE ((b.conversation_id = o.conversation_id) AND (b.state = 'queued'::text) AND (b."position" < r."position") AND (b.consumed_at IS NULL) AND (b.steer_into IS DISTINCT FROM a.id))))))
   ORDER BY o.conversation_id, r."position";
END
;
CREATE OR REPLACE FUNCTION signalbox.stop_over(p_tenant text, p_agent text, p_conversation text, p_run text)
 RETURNS signalbox.stop
 LANGUAGE plpgsql
AS $function$
declare
  v_stop signalbox.stop;
begin
  select s.* into v_stop from signalbox.stops_over(p_tenant, p_agent, p_conversation, p_run) s
  order by s.kind desc, s.created_at limit 1;
  return v_stop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.stop_run(p_run text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
  v_stop signalbox.stop;
  v_generation bigint;
begin
  select r.* into strict v_run from signalbox.run r where r.id = p_run;
  select o.generation into strict v_generation from signalbox.ownership o
  where o.conversation_id = v_run.conversation_id for update;
  select r.* into strict v_run from signalbox.run r where r.id = p_run for update;
  v_stop := signalbox.stop_over(v_run.tenant_id, v_run.agent_id, v_run.conversation_id, v_run.id);
  if v_stop.kind is distinct from 'stop' or v_run.cancel_requested_at is not null
     or v_run.state not in ('queued', 'admitted', 'running', 'suspended')
  then
    return json_build_object('kind', 'unchanged', 'conversationId', v_run.conversation_id,
                             'sequence', signalbox.newest(v_run.conversation_id));
  end if;
  perform signalbox.end_from_outside(v_run, v_generation, 'operator_stop', false, v_stop.created_by);
  return json_build_object('kind', 'stopped', 'conversationId', v_run.conversation_id,
                           'sequence', signalbox.newest(v_run.conversation_id));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.stops_over(p_tenant text, p_agent text, p_conversation text, p_run text)
 RETURNS SETOF signalbox.stop
 LANGUAGE sql
 STABLE
BEGIN ATOMIC
 SELECT s.id,
     s.tenant_id,
     s.kind,
     s.scope,
     s.subject,
     s.reason,
     s.created_by,
     s.created_at,
     s.lifted_by,
     s.lifted_at
    FROM signalbox.stop s
   WHERE ((s.tenant_id = stops_over.p_tenant) AND (s.lifted_at IS NULL) AND (((((s.scope = 'run'::text) AND (s.subject = stops_over.p_run)) OR ((s.scope = 'conversation'::text) AND (s.subject = stops_over.p_conversation))) OR ((s.scope = 'agent'::text) AND (s.subject = stops_over.p_agent))) OR ((s.scope = 'tenant'::text) AND (s.subject = stops_over.p_tenant))));
END
;
CREATE OR REPLACE FUNCTION signalbox.store_mark()
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
begin
  return coalesce(signalbox.unix_ms(greatest((select max(p.heartbeat_at) from signalbox.process p),
                                             (select max(e.opened_at) from signalbox.era e))), 0);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.store_stands()
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return not exists (select from signalbox.store_identity s where s.timeline <> signalbox.store_timeline());
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.store_timeline()
 RETURNS integer
 LANGUAGE sql
RETURN ((('x'::text || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)))::bit(32))::integer
;
CREATE OR REPLACE FUNCTION signalbox.suspend(p_conversation text, p_generation bigint)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'suspend');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation for update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  if not signalbox.has_open_hold(v_run.id)
     or exists (select from signalbox.ownership o where o.conversation_id = p_conversation and o.cancel_at is not null)
  then
    return json_build_object('kind', 'go_on');
  end if;
  if exists (select from signalbox.tool_call t where t.run_id = v_run.id and t.state = 'executing')
     or exists (select from signalbox.model_call m where m.run_id = v_run.id and m.state = 'executing')
  then
    return json_build_object('kind', 'busy');
  end if;
  perform signalbox.put_to_wait(v_run);
  return json_build_object('kind', 'suspended', 'conversationId', p_conversation,
                           'sequence', signalbox.newest(p_conversation));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.system_identifier()
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (select c.system_identifier::text from pg_control_system() c);
exception when insufficient_privilege then
  return null;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.take(p_conversation text, p_process integer, p_cause text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_generation bigint;
  v_run signalbox.run;
  v_again boolean;
begin
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state in ('admitted', 'running', 'finalizing') for update;
  if not found then
    return null;
  end if;
  v_again := v_run.generation is not null;
  if v_again then
    perform signalbox.close_lost_calls(v_run);
  end if;
  update signalbox.ownership
  set generation = generation + 1, owner = p_process, runtime = v_run.runtime, ready_at = null
  where conversation_id = p_conversation
  returning generation into strict v_generation;
  update signalbox.run
  set state = case v_run.state when 'finalizing' then 'finalizing' else 'running' end,
      generation = v_generation, owner = p_process, started_at = coalesce(started_at, signalbox.clock()),
      attempt = case p_cause when 'ready' then greatest(attempt, 1) else attempt + 1 end
  where id = v_run.id
  returning * into v_run;
  perform signalbox.note_taken(v_run, p_cause);
  -- For its owner the wall clock stood while the run waited.
  v_run.started_at := v_run.started_at + make_interval(secs => v_run.suspended_ms / 1000.0);
  return signalbox.claim_facts(v_run, p_cause, v_again);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.take_in(p_conversation text, p_generation bigint, p_message text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_target signalbox.run;
  v_run signalbox.run;
begin
  if not signalbox.hold_exclusive(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'take_in');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_target from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  update signalbox.run set consumed_at = signalbox.clock()
  where conversation_id = p_conversation and message_id = p_message and state = 'queued' and consumed_at is null
    and steer_into = v_target.id
  returning * into v_run;
  if not found then
    -- Reported before, or cancelled meanwhile.
    return json_build_object('kind', 'known');
  end if;
  perform signalbox.write_event(v_run, p_generation, 1048575, p_message, 'queue.moved',
    json_build_object('messageId', p_message, 'position', 0, 'mergedInto', v_target.id));
  perform signalbox.move_queue(p_conversation, v_run.position, p_generation);
  return json_build_object('kind', 'taken_in', 'sequence', signalbox.newest(p_conversation));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.take_over(p_conversation text, p_generation bigint, p_adopt boolean)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
  v_open bigint;
  v_leaf text;
begin
  if not signalbox.hold_shared(p_conversation, p_generation) then
    perform signalbox.note_stale(p_conversation, null, p_generation, 'take_over');
    return json_build_object('code', 'stale_generation');
  end if;
  select r.* into v_run from signalbox.run r
  where r.conversation_id = p_conversation and r.state = 'running' and r.generation = p_generation for no key update;
  if not found then
    return json_build_object('code', 'stale_generation');
  end if;
  perform signalbox.close_lost_calls(v_run);
  v_open := (select count(*) from signalbox.model_call m where m.run_id = v_run.id and m.state = 'executing')
    + (select count(*) from signalbox.tool_call t where t.run_id = v_run.id and t.state = 'executing');
  if p_adopt and v_open = 0 then
    v_leaf := signalbox.adopt_transcript(v_run, p_generation);
  end if;
  return json_build_object(
    'openCallCount', v_open,
    'outcomeUnknown', exists (select from signalbox.tool_call t
      where t.run_id = v_run.id and t.effect in ('write', 'irreversible') and t.state in ('executing', 'unknown')),
    'leaf', v_leaf,
    'closedItems', signalbox.closed_items(v_run));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.taken_in(p_run signalbox.run)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
begin
  return (select coalesce(json_agg(json_build_object('messageId', r.message_id, 'text', m.text) order by r.position), '[]')
    from signalbox.run r join signalbox.message m on m.tenant_id = r.tenant_id and m.id = r.message_id
    where r.conversation_id = p_run.conversation_id and r.state = 'queued' and r.steer_into = p_run.id
      and r.consumed_at is not null);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.tell_offers(p_process integer, p_runtimes jsonb, p_providers jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  -- Said again every second; a server that dies may forget it.
  perform set_config('synchronous_commit', 'off', true);
  insert into signalbox.process_offer (incarnation, runtimes, providers)
  select p.incarnation, p_runtimes, p_providers
  from signalbox.process p where p.incarnation = p_process and p.dead_at is null
  on conflict (incarnation) do update
  set runtimes = excluded.runtimes, providers = excluded.providers, told_at = signalbox.clock();
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.tell_still_open(p_run signalbox.run)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
begin
  for v_call in
    select t.* from signalbox.tool_call t where t.run_id = p_run.id and t.state = 'executing'
    order by t.started_at, t.ordinal
  loop
    v_call.state := 'unknown';
    v_call.finished_at := signalbox.clock();
    v_call.result_summary := 'The run ended while this call was open.';
    perform signalbox.tell_tool_finished(p_run, v_call, 1);
  end loop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.tell_tool_finished(p_run signalbox.run, p_call signalbox.tool_call, p_step integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform signalbox.write_event(p_run, p_call.generation, p_step, p_call.id, 'tool.finished', json_build_object(
    'toolCallId', p_call.id, 'toolUseId', p_call.tool_use_id, 'tool', p_call.name, 'title', p_call.title,
    'effect', p_call.effect, 'grade', 'contained', 'state', p_call.state,
    'resultSummary', coalesce(p_call.result_summary, ''), 'denial', p_call.denial,
    'elapsedMs', coalesce(signalbox.unix_ms(p_call.finished_at) - signalbox.unix_ms(p_call.started_at), 0)));
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.tenant_space()
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (signalbox.presence_space() + 1)
;
CREATE OR REPLACE FUNCTION signalbox.tidy_gateway_calls(p_age_ms bigint, p_limit integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.gateway_call;
  v_count integer := 0;
  v_gone integer;
begin
  for v_call in
    update signalbox.gateway_call u
    set state = 'unknown', error_code = 'tool_outcome_unknown', finished_at = signalbox.clock(),
        result_summary = 'The gate was lost while the call was running; whether it took effect is not known.'
    where u.id in (
      select g.id from signalbox.gateway_call g
      where g.state = 'executing' and not exists (
        select from signalbox.process p where p.incarnation = g.process and p.dead_at is null)
      order by g.id limit p_limit for update skip locked)
    returning u.*
  loop
    perform signalbox.note_gateway_settled(v_call, false);
    v_count := v_count + 1;
  end loop;
  with old as (
    delete from signalbox.gateway_call d where d.id in (
      select g.id from signalbox.gateway_call g
      where g.finished_at < signalbox.clock() - make_interval(secs => p_age_ms / 1000.0)
      order by g.finished_at limit p_limit for update skip locked)
    returning d.id)
  , unasked as (delete from signalbox.hold h where h.gateway_call_id in (select o.id from old o) returning h.id)
  select count(*) into v_gone from old;
  return v_count + v_gone;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.transcript_head(p_token_hash text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_entry signalbox.gate_entry := signalbox.enter_gate(p_token_hash, null);
  v_run signalbox.run := v_entry.run;
  v_foreign boolean;
begin
  if v_entry.code is not null then
    return json_build_object('code', v_entry.code);
  end if;
  v_foreign := signalbox.leaf_is_foreign(v_run);
  return (select json_build_object('conversationId', c.id, 'generation', v_run.generation,
                                   'after', case when v_foreign then c.leaf_position else 0 end,
                                   'leafPosition', c.leaf_position,
                                   'leafDigest', case when not v_foreign then encode(c.leaf_digest, 'hex') end)
          from signalbox.conversation c where c.id = v_run.conversation_id);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.transcript_rung(p_run signalbox.run, p_rung text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  return case when signalbox.leaf_is_foreign(p_run) then 'rebuilt' else p_rung end;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.transcript_tip(p_conversation text, p_generation bigint, p_rung text, OUT leaf text, OUT digest bytea)
 RETURNS record
 LANGUAGE plpgsql
 SET enable_bitmapscan TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
declare
  v_entry record;
  v_chain bytea;
  v_leaf_position bigint;
  v_own boolean := false;
  v_kept text[] := case when p_rung is distinct from 'rebuilt'
                        then signalbox.kept_by_compaction(p_conversation, p_generation) end;
begin
  select c.leaf_entry, c.leaf_digest, c.leaf_position into strict leaf, digest, v_leaf_position
  from signalbox.conversation c where c.id = p_conversation;
  v_chain := case when p_rung = 'rebuilt' or v_kept is not null then signalbox.chain_start()
                  else coalesce(digest, signalbox.chain_start()) end;
  if v_kept is not null then
    for v_entry in
      select t.entry_id, t.digest
      from signalbox.transcript_entry t
      where t.conversation_id = p_conversation and t.stream = '' and t.entry_id = any (v_kept) and t.kind = 'item'
        and t.position <= v_leaf_position and not t.cut
      order by t.position
    loop
      v_chain := sha256(v_chain || convert_to(v_entry.entry_id, 'UTF8') || v_entry.digest);
    end loop;
  end if;
  for v_entry in
    select t.entry_id, t.kind, t.digest
    from signalbox.transcript_entry t
    where t.conversation_id = p_conversation and t.position > v_leaf_position and t.generation = p_generation
      and t.stream = '' and not t.cut
    order by t.position
  loop
    v_own := true;
    leaf := v_entry.entry_id;
    if v_entry.kind = 'item' then
      v_chain := sha256(v_chain || convert_to(v_entry.entry_id, 'UTF8') || v_entry.digest);
    end if;
  end loop;
  if v_own then
    digest := v_chain;
  end if;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.unbind_slots(p_conversation text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update signalbox.slot set run_id = null, generation = null
  where conversation_id = p_conversation and run_id is not null;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.unix_ms(p_at timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN ((EXTRACT(epoch FROM p_at) * (1000)::numeric))::bigint
;
CREATE OR REPLACE FUNCTION signalbox.unregister_process(p_process integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update signalbox.process set dead_at = signalbox.clock() where incarnation = p_process and dead_at is null;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.use_approval(p_run signalbox.run, p_call signalbox.tool_call)
 RETURNS signalbox.tool_call
 LANGUAGE plpgsql
AS $function$
declare
  v_hold signalbox.hold;
  v_why text;
  v_call signalbox.tool_call := p_call;
begin
  select h.* into v_hold from signalbox.hold h where h.id = p_call.hold_id;
  if v_hold.expires_at <= signalbox.clock() then
    return signalbox.deny_pending(p_run, p_call.id, 'approval_expired', 'The approval of this call has expired.',
      signalbox.said('The approval of this call has expired. (approval_expired)', true));
  end if;
  v_why := case
    when v_hold.state is distinct from 'decided' or v_hold.decision not in ('approve', 'edit') then 'not approved'
    when p_call.call_digest is distinct from case v_hold.decision when 'edit' then v_hold.response ->> 'digest'
                                                                  else v_hold.digest end then 'another call'
    when not signalbox.may_still_decide(v_hold.decided_by, p_run.tenant_id) then 'approver may not any more'
    end;
  if v_why is null then
    return v_call;
  end if;
  perform signalbox.audit(p_run.tenant_id, 'approval_void', p_run.actor, p_run.conversation_id, p_run.id,
    p_run.generation,
    '{"holdId":' || signalbox.quoted(v_hold.id) || ',"toolCallId":' || signalbox.quoted(p_call.id)
    || ',"why":' || signalbox.quoted(v_why) || '}');
  update signalbox.tool_call set state = 'proposed', hold_id = null, verdict = 'ask' where id = p_call.id
  returning * into strict v_call;
  perform signalbox.open_asked(p_run, v_call.model_call_id);
  select t.* into strict v_call from signalbox.tool_call t where t.id = p_call.id;
  return v_call;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.utf16_length(p_text text)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (char_length(p_text) + regexp_count(p_text, '[𐀀-􏿿]'::text))
;
CREATE OR REPLACE FUNCTION signalbox.visible_items(p_run signalbox.run)
 RETURNS TABLE(item_id text, kind text, is_open boolean, data text, first_sequence bigint, last_sequence bigint)
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.visible_text(p_run signalbox.run, p_item text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.waiting_for(p_run text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
begin
  return (select coalesce(json_agg(json_build_object('holdId', h.id, 'kind', h.kind,
                                                     'since', signalbox.rfc3339(h.opened_at)) order by h.id), '[]')
          from signalbox.hold h where h.run_id = p_run and h.state = 'open');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.wake_run(p_run text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  v_run signalbox.run;
  v_generation bigint;
begin
  if signalbox.has_open_hold(p_run) then
    return false;
  end if;
  update signalbox.run
  set state = 'admitted', suspended_at = null,
      suspended_ms = suspended_ms + signalbox.unix_ms(signalbox.clock()) - signalbox.unix_ms(suspended_at)
  where id = p_run and state = 'suspended'
  returning * into v_run;
  if not found then
    return false;
  end if;
  update signalbox.ownership set runtime = v_run.runtime, ready_at = signalbox.clock()
  where conversation_id = v_run.conversation_id
  returning generation into strict v_generation;
  perform signalbox.write_event(v_run, v_generation, 1, v_run.id, 'run.resumed', json_build_object());
  perform signalbox.audit(v_run.tenant_id, 'run_resumed', v_run.actor, v_run.conversation_id, v_run.id, v_generation,
    '{}');
  return true;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.withdraw_asked_call(p_call text, p_principal text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_hold text;
begin
  select h.id into v_hold from signalbox.gateway_call g join signalbox.hold h on h.id = g.hold_id
  where g.id = p_call and g.principal = p_principal and h.state = 'open' for update of h;
  if not found then
    return json_build_object('kind', 'unchanged');
  end if;
  perform signalbox.close_hold(v_hold, 'withdrawn', null, null, null);
  return json_build_object('kind', 'withdrawn');
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.withdraw_call(p_call signalbox.tool_call)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update signalbox.tool_call set state = 'withdrawn', finished_at = signalbox.clock()
  where id = p_call.id and signalbox.is_pending(state);
  perform signalbox.withdraw_question(p_call);
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.withdraw_holds(p_run signalbox.run)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_hold text;
begin
  for v_hold in
    select h.id from signalbox.hold h where h.run_id = p_run.id and h.state = 'open' order by h.id for update
  loop
    perform signalbox.close_hold(v_hold, 'withdrawn', null, null, null);
  end loop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.withdraw_proposals(p_run text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_call signalbox.tool_call;
begin
  for v_call in
    select t.* from signalbox.tool_call t where t.run_id = p_run and signalbox.is_pending(t.state)
    order by t.proposed_at, t.ordinal for update
  loop
    perform signalbox.withdraw_call(v_call);
  end loop;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.withdraw_question(p_call signalbox.tool_call)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if exists (select from signalbox.hold h where h.id = p_call.hold_id and h.state = 'open') then
    perform signalbox.close_hold(p_call.hold_id, 'withdrawn', null, null, null);
  end if;
end $function$
;
CREATE OR REPLACE FUNCTION signalbox.words_of(p_response jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE jsonb_typeof(p_response) WHEN 'null'::text THEN NULL::text WHEN 'string'::text THEN (p_response #>> '{}'::text[]) WHEN 'object'::text THEN COALESCE((p_response ->> 'reason'::text), (p_response ->> 'text'::text), (p_response)::text) ELSE (p_response)::text END
;
CREATE OR REPLACE FUNCTION signalbox.write_event(p_run signalbox.run, p_generation bigint, p_step integer, p_item text, p_type text, p_data json)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
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
end $function$
;
