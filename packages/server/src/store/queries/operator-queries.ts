/** Holds, pauses and stops, and what the record owes, as their viewers see them. */
import type {
  ConversationId,
  GatewayCallId,
  HoldId,
  HoldKind,
  HoldState,
  LedgerCall,
  Obligations,
  RunId,
  StopId,
  StopKind,
  StopScope,
  Actor,
} from "@signalbox/contract";
import type { ExplainedFacts } from "@signalbox/core";
import {
  clientHoldOf,
  countObligations,
  ledgerCall,
  obligationsOlderThan,
  reachedHold,
  reachedStop,
  runFacts,
  saidWith,
} from "../statements/operator-statements.ts";
import { beyond } from "../statements/tenant-statements.ts";
import type { Tenants, TenantTransaction } from "../tenant-database.ts";
import { decodeCursor, pageOf, type Page, type PageRequest } from "./page.ts";
import type { Viewer } from "./viewer.ts";

export interface HoldRow {
  readonly holdId: HoldId;
  readonly conversationId: ConversationId | null;
  readonly runId: RunId | null;
  readonly gatewayCallId: GatewayCallId | null;
  readonly kind: HoldKind;
  readonly subject: Readonly<Record<string, unknown>>;
  readonly digest: string | null;
  readonly state: HoldState;
  readonly decision: string | null;
  readonly response: unknown;
  readonly decidedBy: Actor | null;
  readonly openedAtMs: number;
  readonly expiresAtMs: number | null;
  readonly decidedAtMs: number | null;
}

export interface HoldFilter {
  readonly conversationId?: string;
  readonly runId?: string;
  readonly state?: HoldState;
  readonly kind?: HoldKind;
}

export interface StopRow {
  readonly stopId: StopId;
  readonly kind: StopKind;
  readonly scope: StopScope;
  readonly subject: string;
  readonly reason: string | null;
  readonly createdAtMs: number;
  readonly liftedAtMs: number | null;
}

export interface StopFilter {
  /** Only those that stand. */
  readonly standing?: boolean;
  readonly kind?: StopKind;
  readonly scope?: StopScope;
  readonly subject?: string;
}

/** What a person said with a run. */
export interface SaidRow {
  readonly conversationId: string;
  readonly text: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export class OperatorQueries {
  readonly #database: Tenants;

  constructor(database: Tenants) {
    this.#database = database;
  }

  async hold(viewer: Viewer, holdId: string): Promise<HoldRow | null> {
    const row = await this.#database.transaction(viewer.tenantId, (transaction) =>
      selectHolds(transaction, viewer.user).where("hold.id", "=", holdId).executeTakeFirst(),
    );
    return row === undefined ? null : holdRow(row);
  }

  /** Of a call that a client carries out. */
  async clientHold(viewer: Viewer, toolCallId: string): Promise<HoldId | null> {
    const { rows } = await this.#database.transaction(viewer.tenantId, (transaction) =>
      clientHoldOf(toolCallId, viewer).execute(transaction),
    );
    return rows[0]?.id ?? null;
  }

  async holds(viewer: Viewer, page: PageRequest, filter: HoldFilter = {}): Promise<Page<HoldRow>> {
    const { conversationId, runId, state, kind } = filter;
    const list = { name: "holds", ...viewer, order: page.order, filter: { conversationId, runId, state, kind } };
    const after = decodeCursor(page.cursor, list);
    const rows = await this.#database.transaction(viewer.tenantId, (transaction) =>
      selectHolds(transaction, viewer.user)
        .$if(conversationId !== undefined, (query) => query.where("hold.conversation_id", "=", conversationId ?? ""))
        .$if(runId !== undefined, (query) => query.where("hold.run_id", "=", runId ?? ""))
        .$if(state !== undefined, (query) => query.where("hold.state", "=", state ?? ""))
        .$if(kind !== undefined, (query) => query.where("hold.kind", "=", kind ?? ""))
        .$if(after !== null, (query) => query.where(beyond("hold.id", page.order, after ?? "")))
        .orderBy("hold.id", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, { limit: page.limit, list }, { key: (row) => row.id, item: holdRow });
  }

  async toolCall(viewer: Viewer, toolCallId: string): Promise<LedgerCall | null> {
    const { rows } = await this.#database.transaction(viewer.tenantId, (transaction) =>
      ledgerCall(toolCallId, viewer.user).execute(transaction),
    );
    return rows[0]?.call ?? null;
  }

  async stop(viewer: Viewer, stopId: string): Promise<StopRow | null> {
    const row = await this.#database.transaction(viewer.tenantId, (transaction) =>
      selectStops(transaction, viewer.user).where("stop.id", "=", stopId).executeTakeFirst(),
    );
    return row === undefined ? null : stopRow(row);
  }

  async stops(viewer: Viewer, page: PageRequest, filter: StopFilter = {}): Promise<Page<StopRow>> {
    const { standing, kind, scope, subject } = filter;
    const list = { name: "stops", ...viewer, order: page.order, filter: { standing, kind, scope, subject } };
    const after = decodeCursor(page.cursor, list);
    const rows = await this.#database.transaction(viewer.tenantId, (transaction) =>
      selectStops(transaction, viewer.user)
        .$if(standing === true, (query) => query.where("stop.lifted_at", "is", null))
        .$if(kind !== undefined, (query) => query.where("stop.kind", "=", kind ?? ""))
        .$if(scope !== undefined, (query) => query.where("stop.scope", "=", scope ?? ""))
        .$if(subject !== undefined, (query) => query.where("stop.subject", "=", subject ?? ""))
        .$if(after !== null, (query) => query.where(beyond("stop.id", page.order, after ?? "")))
        .orderBy("stop.id", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, { limit: page.limit, list }, { key: (row) => row.id, item: stopRow });
  }

  /** Everything that says why a run does not move; `null` for what the viewer may not see. */
  async explained(viewer: Viewer, runId: string): Promise<ExplainedFacts | null> {
    const { rows } = await this.#database.transaction(viewer.tenantId, (transaction) =>
      runFacts(runId, viewer.user).execute(transaction),
    );
    return rows[0]?.facts ?? null;
  }

  async obligations(viewer: Viewer, olderThanMs: number, limit: number): Promise<Obligations["data"]> {
    const { rows } = await this.#database.transaction(viewer.tenantId, (transaction) =>
      obligationsOlderThan(olderThanMs, { user: viewer.user, limit }).execute(transaction),
    );
    return rows.map((row) => ({ ...row }));
  }

  /** How many there are of each kind. */
  async obligationCounts(viewer: Viewer, olderThanMs: number): Promise<ReadonlyMap<string, number>> {
    const { rows } = await this.#database.transaction(viewer.tenantId, (transaction) =>
      countObligations(olderThanMs, viewer.user).execute(transaction),
    );
    return new Map(rows.map(({ kind, count }) => [kind, count]));
  }

  async said(viewer: Viewer, runId: string): Promise<SaidRow | null> {
    const { rows } = await this.#database.transaction(viewer.tenantId, (transaction) =>
      saidWith(runId, viewer.user).execute(transaction),
    );
    return rows[0] ?? null;
  }
}

function selectHolds(transaction: TenantTransaction, user: string | null) {
  return transaction
    .selectFrom("signalbox.hold as hold")
    .leftJoin("signalbox.conversation as conversation", "conversation.id", "hold.conversation_id")
    .$if(user !== null, (query) => query.where(reachedHold(user ?? "")))
    .selectAll("hold");
}

function selectStops(transaction: TenantTransaction, user: string | null) {
  return transaction
    .selectFrom("signalbox.stop as stop")
    .$if(user !== null, (query) => query.where(reachedStop(user ?? "")))
    .selectAll("stop");
}

type HoldRecord = Awaited<ReturnType<ReturnType<typeof selectHolds>["executeTakeFirstOrThrow"]>>;

function holdRow(row: HoldRecord): HoldRow {
  return {
    // Ids, kinds, states and JSON are what the record's own statements stored; the table constrains the words.
    holdId: row.id as HoldId,
    conversationId: row.conversation_id as ConversationId | null,
    runId: row.run_id as RunId | null,
    gatewayCallId: row.gateway_call_id as GatewayCallId | null,
    kind: row.kind as HoldKind,
    subject: row.subject as Readonly<Record<string, unknown>>,
    digest: row.digest,
    state: row.state as HoldState,
    decision: row.decision,
    response: row.response,
    decidedBy: row.decided_by === null ? null : (JSON.parse(row.decided_by) as Actor),
    openedAtMs: row.opened_at.getTime(),
    expiresAtMs: row.expires_at?.getTime() ?? null,
    decidedAtMs: row.decided_at?.getTime() ?? null,
  };
}

interface StopRecord {
  readonly id: string;
  readonly kind: string;
  readonly scope: string;
  readonly subject: string;
  readonly reason: string | null;
  readonly created_at: Date;
  readonly lifted_at: Date | null;
}

function stopRow(row: StopRecord): StopRow {
  return {
    // As above: the table constrains the words.
    stopId: row.id as StopId,
    kind: row.kind as StopKind,
    scope: row.scope as StopScope,
    subject: row.subject,
    reason: row.reason,
    createdAtMs: row.created_at.getTime(),
    liftedAtMs: row.lifted_at?.getTime() ?? null,
  };
}
