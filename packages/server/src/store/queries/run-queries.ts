/** Runs as their viewers see them. */
import type {
  AgentId,
  ConversationId,
  EndReason,
  ErrorObject,
  MessageId,
  RunId,
  Rung,
  RunState,
  Usage,
  Wait,
} from "@signalbox/contract";
import { waitingFor } from "../statements/operator-statements.ts";
import { beyond } from "../statements/tenant-statements.ts";
import type { Tenants, TenantTransaction } from "../tenant-database.ts";
import { decodeCursor, pageOf, type Page, type PageRequest } from "./page.ts";
import type { Viewer } from "./viewer.ts";

export interface RunRow {
  readonly runId: RunId;
  readonly conversationId: ConversationId;
  readonly messageId: MessageId;
  readonly answerMessageId: MessageId | null;
  readonly agentId: AgentId;
  readonly agentName: string;
  readonly agentRevision: number;
  readonly snapshotHash: string;
  readonly runtime: string;
  readonly state: RunState;
  readonly reason: EndReason | null;
  /** 0 until the run is owned for the first time. */
  readonly generation: number;
  readonly owner: number | null;
  readonly attempt: number;
  readonly requested: Readonly<Record<string, unknown>>;
  readonly granted: Readonly<Record<string, unknown>>;
  readonly rung: Rung | null;
  readonly servedModel: string | null;
  readonly traceId: string;
  readonly usage: Usage;
  readonly costMicros: number | null;
  readonly modelCallCount: number;
  readonly toolCallCount: number;
  readonly error: ErrorObject | null;
  /** Sequence just before the first event of the run. */
  readonly cursor: number;
  readonly cancelRequestedAtMs: number | null;
  readonly acceptedAtMs: number;
  readonly startedAtMs: number | null;
  readonly finishedAtMs: number | null;
  /** Its open holds, oldest first. */
  readonly waitingFor: readonly Wait[];
}

export interface RunFilter {
  readonly conversationId?: string;
  readonly states?: readonly RunState[];
}

export class RunQueries {
  readonly #database: Tenants;

  constructor(database: Tenants) {
    this.#database = database;
  }

  async find(viewer: Viewer, runId: string): Promise<RunRow | null> {
    const row = await this.#database.transaction(viewer.tenantId, (transaction) =>
      selectRuns(transaction, viewer.user).where("run.id", "=", runId).executeTakeFirst(),
    );
    return row === undefined ? null : runRow(row);
  }

  async list(viewer: Viewer, page: PageRequest, filter: RunFilter = {}): Promise<Page<RunRow>> {
    const { conversationId, states } = filter;
    const list = { name: "runs", ...viewer, order: page.order, filter: { conversationId, states } };
    const after = decodeCursor(page.cursor, list);
    const rows = await this.#database.transaction(viewer.tenantId, (transaction) =>
      selectRuns(transaction, viewer.user)
        .$if(conversationId !== undefined, (query) => query.where("run.conversation_id", "=", conversationId ?? ""))
        .$if(states !== undefined, (query) => query.where("run.state", "in", states ?? []))
        .$if(after !== null, (query) => query.where(beyond("run.id", page.order, after ?? "")))
        .orderBy("run.id", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, { limit: page.limit, list }, { key: (row) => row.id, item: runRow });
  }
}

function selectRuns(transaction: TenantTransaction, user: string | null) {
  return transaction
    .selectFrom("signalbox.run as run")
    .innerJoin("signalbox.conversation as conversation", "conversation.id", "run.conversation_id")
    .innerJoin("signalbox.agent as agent", "agent.id", "run.agent_id")
    .$if(user !== null, (query) => query.where("conversation.participant", "=", user))
    .select([
      "run.id",
      "run.conversation_id",
      "run.message_id",
      "run.answer_message_id",
      "run.agent_id",
      "agent.name as agent_name",
      "run.agent_revision",
      "run.snapshot_hash",
      "run.runtime",
      "run.state",
      "run.reason",
      "run.generation",
      "run.owner",
      "run.attempt",
      "run.requested",
      "run.granted",
      "run.rung",
      "run.served_model",
      "run.trace_id",
      "run.input_tokens",
      "run.output_tokens",
      "run.cache_read_tokens",
      "run.cache_write_tokens",
      "run.cost_micros",
      "run.model_call_count",
      "run.tool_call_count",
      "run.error",
      "run.cursor",
      "run.cancel_requested_at",
      "run.accepted_at",
      "run.started_at",
      "run.finished_at",
      waitingFor("run.id").as("waiting_for"),
    ]);
}

type RunRecord = Awaited<ReturnType<ReturnType<typeof selectRuns>["executeTakeFirstOrThrow"]>>;

function runRow(row: RunRecord): RunRow {
  return {
    // Ids, states, reasons and JSON values are what admission and finalization stored; tables constrain the words.
    runId: row.id as RunId,
    conversationId: row.conversation_id as ConversationId,
    messageId: row.message_id as MessageId,
    answerMessageId: row.answer_message_id as MessageId | null,
    agentId: row.agent_id as AgentId,
    agentName: row.agent_name,
    agentRevision: row.agent_revision,
    snapshotHash: row.snapshot_hash,
    runtime: row.runtime,
    state: row.state as RunState,
    reason: row.reason as EndReason | null,
    generation: row.generation ?? 0,
    owner: row.owner,
    attempt: row.attempt,
    requested: row.requested as Readonly<Record<string, unknown>>,
    granted: row.granted as Readonly<Record<string, unknown>>,
    rung: row.rung as Rung | null,
    servedModel: row.served_model,
    traceId: row.trace_id,
    usage: {
      inputTokens: row.input_tokens,
      outputTokens: row.output_tokens,
      cacheReadTokens: row.cache_read_tokens,
      cacheWriteTokens: row.cache_write_tokens,
    },
    costMicros: row.cost_micros,
    modelCallCount: row.model_call_count,
    toolCallCount: row.tool_call_count,
    error: row.error as ErrorObject | null,
    cursor: row.cursor,
    cancelRequestedAtMs: row.cancel_requested_at?.getTime() ?? null,
    acceptedAtMs: row.accepted_at.getTime(),
    startedAtMs: row.started_at?.getTime() ?? null,
    finishedAtMs: row.finished_at?.getTime() ?? null,
    waitingFor: row.waiting_for,
  };
}
