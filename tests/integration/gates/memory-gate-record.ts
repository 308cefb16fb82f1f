/**
 * The gates' record in memory, for tests of the gates alone: the rules of the port without a database. What a test
 * wants to see is kept in plain lists; what it wants to go wrong is put into `failures`.
 */
import {
  PlatformError,
  type ErrorCode,
  type ModelCallId,
  type Snapshot,
  type ToolCallId,
  type ToolCallState,
} from "@signalbox/contract";
import {
  proposedAgain,
  type GateRecord,
  type ModelIntent,
  type ModelSettlement,
  type Proposal,
  type SlotView,
  type ToolDenial,
  type ToolGrant,
  type ToolIntent,
  type ToolSettlement,
  type TranscriptRow,
} from "@signalbox/core";

export interface ToolRow {
  readonly proposal: Proposal;
  state: ToolCallState;
  resultJson: string;
  errorCode: string | null;
  denial: string | null;
}

interface ModelRow {
  readonly intent: ModelIntent;
  readonly view: SlotView;
  settlement: ModelSettlement | null;
}

type Method = "slot" | "openModelCall" | "settleModelCall" | "openToolCall" | "settleToolCall" | "appendTranscript";

export class MemoryGateRecord implements GateRecord {
  readonly slots = new Map<string, SlotView>();
  readonly modelCalls = new Map<ModelCallId, ModelRow>();
  readonly toolCalls: ToolRow[] = [];
  readonly denials: ToolDenial[] = [];
  readonly transcript: TranscriptRow[] = [];
  /** Errors that the next calls of a method end with, in order. */
  readonly failures: Partial<Record<Method, ErrorCode[]>> = {};
  /** How often each method was called. */
  readonly counts: Partial<Record<Method, number>> = {};
  /** Runs whose cancel was requested. */
  readonly cancelled = new Set<string>();
  pageRows = 2;

  bind(tokenHash: string, view: SlotView): void {
    this.slots.set(tokenHash, view);
  }

  unbind(tokenHash: string): void {
    const view = this.slots.get(tokenHash);
    if (view !== undefined) this.slots.set(tokenHash, { ...view, run: null });
  }

  get settlements(): readonly ModelSettlement[] {
    return [...this.modelCalls.values()].flatMap((row) => (row.settlement === null ? [] : [row.settlement]));
  }

  get intents(): readonly ModelIntent[] {
    return [...this.modelCalls.values()].map((row) => row.intent);
  }

  slot(tokenHash: string): Promise<SlotView> {
    return this.#attempt("slot", () => this.#slot(tokenHash));
  }

  openModelCall(intent: ModelIntent): Promise<SlotView> {
    return this.#attempt("openModelCall", () => {
      const view = this.#bound(intent.tokenHash);
      this.modelCalls.set(intent.modelCallId, { intent, view, settlement: null });
      return view;
    });
  }

  settleModelCall(settlement: ModelSettlement): Promise<{ readonly proposalsAccepted: boolean }> {
    return this.#attempt("settleModelCall", () => {
      const row = this.modelCalls.get(settlement.modelCallId);
      if (row === undefined) throw new Error("settled a call that was never opened");
      if (row.settlement !== null) return { proposalsAccepted: false };
      row.settlement = settlement;
      const current = this.slots.get(row.intent.tokenHash)?.run;
      const owns = current?.runId === row.view.run?.runId && current?.generation === row.view.run?.generation;
      const conflict = settlement.proposals.some((proposal) => {
        const known = this.#byUseId(proposal.toolUseId);
        return known !== undefined && known.proposal.argumentsDigest !== proposal.argumentsDigest;
      });
      if (!owns || conflict) return { proposalsAccepted: false };
      for (const proposal of settlement.proposals) this.#propose(proposal);
      return { proposalsAccepted: true };
    });
  }

  openToolCall(intent: ToolIntent): Promise<ToolGrant> {
    return this.#attempt("openToolCall", () => {
      const view = this.#bound(intent.tokenHash);
      const row = this.#find(intent);
      if (row === undefined) throw new PlatformError("tool_not_proposed");
      const { proposal } = row;
      if (row.state === "succeeded" || row.state === "failed" || row.state === "unknown") {
        return { kind: "replay", toolCallId: proposal.toolCallId, state: row.state, resultJson: row.resultJson };
      }
      if (row.state !== "proposed" || proposal.server === null || proposal.tool === null) {
        throw new PlatformError("tool_not_allowed");
      }
      row.state = "executing";
      return {
        kind: "execute",
        toolCallId: proposal.toolCallId,
        // Bound, so it has a run.
        runId: view.run!.runId,
        server: proposal.server,
        tool: proposal.tool,
        effect: proposal.effect,
        argumentsJson: proposal.argumentsJson,
        idempotencyKey: `key-of-${proposal.toolUseId}`,
      };
    });
  }

  denyToolCall(denial: ToolDenial): Promise<void> {
    return this.#attempt("openToolCall", () => {
      this.#bound(denial.tokenHash);
      this.denials.push(denial);
      const row = this.#find(denial);
      if (row?.state === "proposed") {
        row.state = "denied";
        row.denial = denial.reason;
      }
    });
  }

  settleToolCall(settlement: ToolSettlement): Promise<void> {
    return this.#attempt("settleToolCall", () => {
      const row = this.toolRow(settlement.toolCallId);
      if (row.state !== "executing") return;
      row.state = settlement.state;
      row.resultJson = settlement.resultJson;
      row.errorCode = settlement.errorCode;
    });
  }

  appendTranscript(tokenHash: string, rows: readonly TranscriptRow[]): Promise<{ readonly leaf: string | null }> {
    return this.#attempt("appendTranscript", () => {
      this.#bound(tokenHash);
      this.transcript.push(...rows);
      return { leaf: this.transcript.findLast((row) => row.stream === "")?.entryId ?? null };
    });
  }

  async *loadTranscript(tokenHash: string): AsyncIterable<readonly TranscriptRow[]> {
    this.#bound(tokenHash);
    for (let from = 0; from < this.transcript.length; from += this.pageRows) {
      yield this.transcript.slice(from, from + this.pageRows);
    }
  }

  toolRow(id: ToolCallId): ToolRow {
    const row = this.toolCalls.find((each) => each.proposal.toolCallId === id);
    if (row === undefined) throw new Error(`no tool call ${id}`);
    return row;
  }

  #byUseId(toolUseId: string): ToolRow | undefined {
    return this.toolCalls.find((each) => each.proposal.toolUseId === toolUseId);
  }

  #propose(proposal: Proposal): void {
    const known = this.#byUseId(proposal.toolUseId);
    const state = proposal.server === null ? "denied" : "proposed";
    if (known === undefined) {
      this.toolCalls.push({ proposal, state, resultJson: "", errorCode: null, denial: null });
    } else if (proposedAgain({ state: known.state, effect: known.proposal.effect }) === "propose") {
      known.state = state;
    }
  }

  #find(intent: Pick<ToolIntent, "toolUseId" | "name" | "argumentsDigest">): ToolRow | undefined {
    const matches = ({ proposal }: ToolRow): boolean =>
      proposal.name === intent.name && proposal.argumentsDigest === intent.argumentsDigest;
    return intent.toolUseId === null
      ? this.toolCalls.find((row) => row.state === "proposed" && matches(row))
      : this.toolCalls.find((row) => row.proposal.toolUseId === intent.toolUseId && matches(row));
  }

  #slot(tokenHash: string): SlotView {
    const view = this.slots.get(tokenHash);
    if (view === undefined) throw new PlatformError("slot_unknown");
    return view;
  }

  #bound(tokenHash: string): SlotView {
    const view = this.#slot(tokenHash);
    if (view.run === null) throw new PlatformError("slot_unknown");
    if (this.cancelled.has(view.run.runId)) throw new PlatformError("run_cancelled");
    return view;
  }

  async #attempt<T>(method: Method, action: () => T): Promise<T> {
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
