/** Tables as queries see them. A test compares this file with the catalog of a migrated database. */
import type { ColumnType, Generated } from "kysely";

/** Written by the database, never by a query. */
type GivenByDatabase<T> = ColumnType<T, never, never>;
/** Set by updates alone. */
type SetLater<T> = ColumnType<T, never, T>;
/** A JSON column: read as a value, written as text. */
type JsonColumn = ColumnType<unknown, string, string>;

export interface ApiKeyTable {
  readonly id: string;
  readonly tenant_id: string;
  readonly name: string;
  readonly prefix: string;
  readonly hash: Buffer;
  readonly rights: readonly string[];
  readonly created_at: Generated<Date>;
  readonly revoked_at: Date | null;
}

export interface AgentTable {
  readonly id: string;
  readonly tenant_id: string;
  readonly name: string;
  readonly revision: number;
  readonly created_at: Generated<Date>;
  readonly disabled_at: SetLater<Date | null>;
}

export interface AgentRevisionTable {
  readonly tenant_id: string;
  readonly agent_id: string;
  readonly revision: number;
  readonly runtime: string;
  readonly definition: JsonColumn;
  readonly created_at: Generated<Date>;
}

export interface SnapshotTable {
  readonly tenant_id: string;
  readonly hash: string;
  readonly body: string;
  readonly created_at: Generated<Date>;
}

export interface ConversationTable {
  readonly id: string;
  readonly tenant_id: string;
  readonly agent_id: string;
  readonly title: string | null;
  readonly created_by: string;
  readonly participant: string | null;
  readonly metadata: JsonColumn;
  readonly forked_from: GivenByDatabase<string | null>;
  readonly last_sequence: GivenByDatabase<number>;
  readonly kept_sequence: GivenByDatabase<number>;
  readonly last_position: GivenByDatabase<string>;
  readonly archived_at: SetLater<Date | null>;
  readonly delete_requested_at: GivenByDatabase<Date | null>;
  readonly deleted_at: GivenByDatabase<Date | null>;
  readonly erased_at: GivenByDatabase<Date | null>;
  readonly leaf_entry: GivenByDatabase<string | null>;
  readonly leaf_position: GivenByDatabase<number>;
  readonly leaf_digest: GivenByDatabase<Buffer | null>;
  readonly leaf_runtime: GivenByDatabase<string | null>;
  readonly leaf_turn: GivenByDatabase<number | null>;
  readonly created_at: Generated<Date>;
  readonly updated_at: Generated<Date>;
}

export interface OwnershipTable {
  readonly conversation_id: string;
  readonly tenant_id: string;
  readonly generation: Generated<number>;
  readonly owner: GivenByDatabase<number | null>;
  readonly runtime: GivenByDatabase<string | null>;
  readonly ready_at: GivenByDatabase<Date | null>;
  readonly cancel_at: GivenByDatabase<Date | null>;
  readonly paced_until: GivenByDatabase<Date | null>;
}

export interface MessageTable {
  readonly id: string;
  readonly tenant_id: string;
  readonly conversation_id: string;
  readonly run_id: string | null;
  readonly role: "user" | "assistant";
  readonly text: string;
  readonly metadata: JsonColumn;
  readonly partial: boolean;
  readonly struck: Generated<boolean>;
  readonly position: number;
  readonly created_at: GivenByDatabase<Date>;
}

export interface RunTable {
  readonly id: string;
  readonly tenant_id: string;
  readonly conversation_id: string;
  readonly message_id: string;
  readonly answer_message_id: string | null;
  readonly agent_id: string;
  readonly agent_revision: number;
  readonly snapshot_hash: string;
  readonly runtime: string;
  readonly state: string;
  readonly reason: string | null;
  readonly generation: number | null;
  readonly owner: number | null;
  readonly position: number;
  readonly cursor: number;
  readonly attempt: number;
  readonly actor: string;
  readonly requested: JsonColumn;
  readonly granted: JsonColumn;
  readonly rung: string | null;
  readonly served_model: string | null;
  readonly trace_id: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_tokens: number;
  readonly cost_micros: number | null;
  readonly model_call_count: number;
  readonly tool_call_count: number;
  readonly model_call_limit: number;
  readonly tool_call_limit: number;
  readonly wall_clock_ms: number;
  readonly error: JsonColumn | null;
  readonly cancel_requested_at: Date | null;
  readonly cancel_cause: string | null;
  readonly cancel_strikes: GivenByDatabase<boolean>;
  readonly steer_into: string | null;
  readonly consumed_at: Date | null;
  readonly accepted_at: Date;
  readonly started_at: Date | null;
  readonly finished_at: Date | null;
  readonly log_kept: GivenByDatabase<string>;
  readonly suspended_at: GivenByDatabase<Date | null>;
  readonly suspended_ms: GivenByDatabase<number>;
  readonly sealed_at: GivenByDatabase<Date | null>;
}

export interface HoldTable {
  readonly id: string;
  readonly tenant_id: string;
  readonly conversation_id: string | null;
  readonly run_id: string | null;
  readonly gateway_call_id: GivenByDatabase<string | null>;
  readonly kind: string;
  readonly subject: JsonColumn;
  readonly digest: string | null;
  readonly state: GivenByDatabase<string>;
  readonly decision: string | null;
  readonly response: JsonColumn | null;
  readonly decided_by: string | null;
  readonly opened_at: GivenByDatabase<Date>;
  readonly expires_at: Date | null;
  readonly decided_at: Date | null;
}

export interface StopTable {
  readonly id: string;
  readonly tenant_id: string;
  readonly kind: string;
  readonly scope: string;
  readonly subject: string;
  readonly reason: string | null;
  readonly created_by: string;
  readonly created_at: GivenByDatabase<Date>;
  readonly lifted_by: string | null;
  readonly lifted_at: Date | null;
}

export interface PolicyTable {
  readonly id: string;
  readonly tenant_id: string;
  readonly hash: string;
  readonly document: string;
  readonly created_by: string;
  readonly created_at: GivenByDatabase<Date>;
  readonly active: ColumnType<boolean, never, boolean>;
  readonly activated_at: SetLater<Date | null>;
  readonly activated_by: SetLater<string | null>;
}

export interface IdempotencyTable {
  readonly tenant_id: string;
  readonly key: string;
  readonly route: string;
  readonly body_hash: string;
  readonly status: number | null;
  readonly body: string | null;
  readonly conversation_id: string | null;
  readonly run_id: string | null;
  readonly message_id: string | null;
  readonly accepted: string | null;
  readonly position: number | null;
  readonly cursor: number | null;
  readonly created_at: Generated<Date>;
}

export interface ToolTable {
  readonly tenant_id: string;
  readonly server: string;
  readonly tool: string;
  readonly title: string;
  readonly definition: JsonColumn;
  readonly definition_hash: string;
  readonly effect: string;
  readonly listed_at: Generated<Date>;
  readonly state: string;
  readonly origin: string | null;
  readonly origin_hash: string | null;
  readonly seen_definition: ColumnType<unknown, string | null | undefined, string | null>;
  readonly seen_hash: string | null;
  readonly seen_origin: string | null;
  readonly seen_origin_hash: string | null;
  readonly seen_at: Date | null;
  readonly offered: Generated<boolean>;
  readonly lints: JsonColumn;
  readonly approved_at: Date | null;
  readonly approved_by: string | null;
  readonly classified_by: string | null;
  readonly file_settings: ColumnType<unknown, string | null | undefined, string | null>;
  readonly approve: string;
  readonly trusted: boolean;
  readonly timeout_ms: number | null;
}

export interface ToolPinTable {
  readonly id: GivenByDatabase<number>;
  readonly tenant_id: string;
  readonly server: string;
  readonly tool: string;
  readonly event: string;
  readonly definition: JsonColumn;
  readonly definition_hash: string;
  readonly origin: string | null;
  readonly lints: JsonColumn;
  readonly actor: string | null;
  readonly at: GivenByDatabase<Date>;
}

export interface McpServerTable {
  readonly tenant_id: string;
  readonly server: string;
  readonly transport: string;
  readonly origin: string;
  readonly listed_at: Date | null;
  readonly failing_since: Date | null;
  readonly problem: string | null;
  readonly left_out: JsonColumn;
  readonly seen_at: Generated<Date>;
}

export interface WebhookTable {
  readonly id: string;
  readonly tenant_id: string;
  readonly url: string;
  readonly description: string;
  readonly events: readonly string[];
  readonly secret: Buffer;
  readonly secret_key: string;
  readonly previous_secret: SetLater<Buffer | null>;
  readonly previous_until: SetLater<Date | null>;
  readonly failing_since: SetLater<Date | null>;
  readonly disabled_at: Date | null;
  readonly disabled_cause: string | null;
  readonly created_at: GivenByDatabase<Date>;
  readonly updated_at: ColumnType<Date, never, Date>;
}

export interface WebhookDeliveryTable {
  readonly id: string;
  readonly tenant_id: string;
  readonly webhook_id: string;
  readonly type: string;
  readonly conversation_id: string | null;
  readonly run_id: string | null;
  readonly sequence: number | null;
  readonly payload: string;
  readonly state: Generated<string>;
  readonly attempt_count: GivenByDatabase<number>;
  readonly attempt_base: SetLater<number>;
  readonly next_at: SetLater<Date | null>;
  readonly begun: SetLater<boolean>;
  readonly created_at: GivenByDatabase<Date>;
  readonly finished_at: SetLater<Date | null>;
}

export interface WebhookAttemptTable {
  readonly delivery_id: string;
  readonly number: number;
  readonly tenant_id: string;
  readonly started_at: GivenByDatabase<Date>;
  readonly duration_ms: GivenByDatabase<number | null>;
  readonly status: GivenByDatabase<number | null>;
  readonly error_code: GivenByDatabase<string | null>;
  readonly response: GivenByDatabase<string | null>;
}

export interface Tables {
  readonly "signalbox.api_key": ApiKeyTable;
  readonly "signalbox.agent": AgentTable;
  readonly "signalbox.agent_revision": AgentRevisionTable;
  readonly "signalbox.snapshot": SnapshotTable;
  readonly "signalbox.conversation": ConversationTable;
  readonly "signalbox.ownership": OwnershipTable;
  readonly "signalbox.message": MessageTable;
  readonly "signalbox.run": RunTable;
  readonly "signalbox.hold": HoldTable;
  readonly "signalbox.stop": StopTable;
  readonly "signalbox.policy": PolicyTable;
  readonly "signalbox.idempotency": IdempotencyTable;
  readonly "signalbox.tool": ToolTable;
  readonly "signalbox.webhook": WebhookTable;
  readonly "signalbox.webhook_delivery": WebhookDeliveryTable;
  readonly "signalbox.webhook_attempt": WebhookAttemptTable;
  readonly "signalbox.tool_pin": ToolPinTable;
  readonly "signalbox.mcp_server": McpServerTable;
}
