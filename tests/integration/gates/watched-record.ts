/**
 * The memory record with one conversation whose run is under way and a slot bound to it. It keeps what the gates asked
 * and told, and can be made to fail: what a test of the gates wants to see and to provoke.
 */
import {
  makeId,
  PlatformError,
  uuidV7Bytes,
  type ErrorCode,
  type MessageId,
  type RunId,
  type Snapshot,
  type ToolCallId,
} from "@signalbox/contract";
import type {
  BegunIntent,
  CallOutcome,
  GateRecord,
  ModelIntent,
  ModelSettlement,
  Ownership,
  SlotView,
  ToolDenial,
  ToolGrant,
  ToolIntent,
  ToolSettlement,
  AppendManner,
  TranscriptRow,
  ToBeJudged,
  VerdictRecord,
} from "@signalbox/core";
import {
  MemoryDatabase,
  memoryAdmissionRecord,
  memoryGateRecord,
  memoryOwnershipRecord,
  memoryProcessRecord,
} from "@signalbox/testkit";
import { systemDigest, systemRandomness } from "../../../packages/server/src/system/ports.ts";

export const TOKEN = "slot-token-of-the-engine";
export const TOKEN_HASH = systemDigest.sha256Hex(TOKEN);

type Method = Exclude<keyof GateRecord, "loadTranscript">;
type ToolRow = ReturnType<MemoryDatabase["toolCalls"]["all"]>[number];

const ACTOR = { keyId: "key_1", user: null, roles: [], units: [] };
const TENANT = "default";

export class WatchedRecord implements GateRecord {
  readonly db = new MemoryDatabase({ nowMs: () => Date.now() });
  readonly intents: ModelIntent[] = [];
  readonly settlements: ModelSettlement[] = [];
  readonly toolIntents: ToolIntent[] = [];
  readonly toolSettlements: ToolSettlement[] = [];
  readonly denials: ToolDenial[] = [];
  /** Errors that the next calls of a method end with, in order. */
  readonly failures: Partial<Record<Method, ErrorCode[]>> = {};
  /** How often each method was called. */
  /** How many of the next intents of a tool call are committed without a reply. */
  lostReplyCount = 0;
  readonly counts: Partial<Record<Method, number>> = {};
  readonly conversationId = makeId("conversation", freshBytes());
  readonly runId: RunId = makeId("run", freshBytes());
  process = 0;
  readonly #gates = memoryGateRecord(this.db);
  #ownership: Ownership | null = null;

  static async open(snapshot: Snapshot): Promise<WatchedRecord> {
    const record = new WatchedRecord();
    const { db, conversationId, runId } = record;
    record.process = (await memoryProcessRecord(db).register(["gates"])).process;
    db.createConversation({ id: conversationId, tenantId: TENANT });
    const messageId: MessageId = makeId("message", freshBytes());
    const { claim } = await memoryAdmissionRecord(db).admit({
      tenantId: TENANT,
      conversationId,
      messageId,
      runId,
      actor: ACTOR,
      text: "Hello",
      metadata: {},
      whenBusy: "reject",
      snapshot,
      snapshotHash: hashOf(snapshot),
      requested: {},
      granted: {},
      traceId: "0af7651916cd43dd8448eb211c80319c",
      idempotency: null,
      queueLimit: 1,
      minuteLimit: 1_000_000,
      tenantLimit: 1_000_000,
      steerable: [],
      claimFor: record.process,
    });
    if (claim === null) throw new Error("the run was not claimed");
    record.#ownership = memoryOwnershipRecord(db).adopt(claim);
    await record.bind();
    return record;
  }

  get toolCalls(): readonly ToolRow[] {
    return this.db.toolCalls.all();
  }

  get generation(): number {
    return this.#owned().claim.generation;
  }

  /** Binds the slot to the run under the generation of today. */
  async bind(): Promise<void> {
    await this.#owned().bindSlot({ tokenHash: TOKEN_HASH, workerId: "worker" });
  }

  /** Another worker is to go on: the generation grows, the slot is unbound. */
  async changeWorker(): Promise<void> {
    this.#ownership = await this.#owned().changeWorker({ attemptLimit: 10 });
  }

  async cancel(): Promise<void> {
    await memoryAdmissionRecord(this.db).requestCancel({ tenantId: TENANT, runId: this.runId, actor: ACTOR });
  }

  /** The step is over: the slot stays and serves nobody. */
  unbind(): void {
    this.#changeSlot({ runId: null, generation: null });
  }

  changeSnapshot(snapshot: Snapshot): void {
    const hash = hashOf(snapshot);
    this.db.transaction("test", {}, () => this.db.snapshots.set(hash, { hash, snapshot }));
    this.#changeSlot({ snapshotHash: hash });
  }

  slot(tokenHash: string): Promise<SlotView> {
    return this.#attempt("slot", () => this.#gates.slot(tokenHash));
  }

  openModelCall(intent: ModelIntent): Promise<SlotView> {
    return this.#attempt("openModelCall", async () => {
      const view = await this.#gates.openModelCall(intent);
      this.intents.push(intent);
      return view;
    });
  }

  settleModelCall(settlement: ModelSettlement): Promise<{ readonly proposalsAccepted: boolean }> {
    return this.#attempt("settleModelCall", () => {
      this.settlements.push(settlement);
      return this.#gates.settleModelCall(settlement);
    });
  }

  openToolCall(intent: ToolIntent): Promise<ToolGrant | ToBeJudged> {
    return this.#attempt("openToolCall", async () => {
      this.toolIntents.push(intent);
      const grant = await this.#gates.openToolCall(intent);
      if (grant.kind !== "execute" || this.lostReplyCount === 0) return grant;
      this.lostReplyCount -= 1;
      throw new PlatformError("database_unavailable");
    });
  }

  recordVerdicts(record: VerdictRecord): Promise<void> {
    return this.#attempt("recordVerdicts", () => this.#gates.recordVerdicts(record));
  }

  denyToolCall(denial: ToolDenial): Promise<void> {
    return this.#attempt("denyToolCall", () => {
      this.denials.push(denial);
      return this.#gates.denyToolCall(denial);
    });
  }

  settleToolCall(settlement: ToolSettlement): Promise<void> {
    return this.#attempt("settleToolCall", () => {
      this.toolSettlements.push(settlement);
      return this.#gates.settleToolCall(settlement);
    });
  }

  begunToolCalls(intent: BegunIntent): Promise<readonly ToolCallId[]> {
    return this.#attempt("begunToolCalls", () => this.#gates.begunToolCalls(intent));
  }

  cancelledRuns(runIds: readonly RunId[], forMs?: number): Promise<readonly RunId[]> {
    return this.#attempt("cancelledRuns", () => this.#gates.cancelledRuns(runIds, forMs));
  }

  appendTranscript(
    tokenHash: string,
    rows: readonly TranscriptRow[],
    manner?: AppendManner,
  ): Promise<{ readonly leaf: string | null }> {
    return this.#attempt("appendTranscript", () => this.#gates.appendTranscript(tokenHash, rows, manner));
  }

  callOutcomes(tokenHash: string, toolUseIds: readonly string[]): Promise<readonly CallOutcome[]> {
    return this.#attempt("callOutcomes", () => this.#gates.callOutcomes(tokenHash, toolUseIds));
  }

  loadTranscript(tokenHash: string): AsyncIterable<readonly TranscriptRow[]> {
    return this.#gates.loadTranscript(tokenHash);
  }

  #owned(): Ownership {
    if (this.#ownership === null) throw new Error("the record was not opened");
    return this.#ownership;
  }

  #changeSlot(changes: Partial<ReturnType<MemoryDatabase["slots"]["must"]>>): void {
    this.db.transaction("test", {}, () => this.db.slots.update(TOKEN_HASH, changes));
  }

  async #attempt<T>(method: Method, action: () => Promise<T>): Promise<T> {
    this.counts[method] = (this.counts[method] ?? 0) + 1;
    const failure = this.failures[method]?.shift();
    if (failure !== undefined) throw new PlatformError(failure);
    return action();
  }
}

export function snapshotWith(overrides: Partial<Snapshot>): Snapshot {
  return {
    agentId: "agt_1",
    agentName: "reader",
    revision: 1,
    runtime: "langgraph",
    instructions: "Answer.",
    model: "sim/sim-1",
    maxOutputTokens: 4_096,
    tools: [],
    limits: { modelCallCount: 50, toolCallCount: 50, wallClockMs: 3_600_000 },
    ...overrides,
  };
}

function hashOf(snapshot: Snapshot): string {
  return systemDigest.sha256Hex(JSON.stringify(snapshot));
}

function freshBytes(): Uint8Array {
  return uuidV7Bytes(Date.now(), systemRandomness.bytes(10));
}
