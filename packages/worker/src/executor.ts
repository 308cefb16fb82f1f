/**
 * What an engine must offer to run behind a worker. An executor translates: whatever an SDK or provider says is
 * turned into the words below, and no SDK type passes this line.
 */
import type { ErrorCode, HistoryEntry, Rung, Snapshot } from "@signalbox/contract";

/** What an executor says about itself; the worker announces it to the platform. */
export interface RuntimeDescription {
  readonly name: string;
  /** Version of the engine package, as announced to the platform. */
  readonly version: string;
  /** False when the engine is not installed; `problem` then tells the operator what to do. */
  readonly available: boolean;
  readonly problem: string;
  readonly capabilities: readonly string[];
}

/** Where an engine reaches the model and its tools. The record is the worker's to reach. */
export interface GateUrls {
  /** Base URL for the Anthropic wire; the engine appends `/v1/messages`. */
  readonly model: string;
  /** The MCP endpoint. */
  readonly tool: string;
}

/** An `item` stays for good; a `state` is replaced by the next of its stream once the turn is over. */
export type EntryKind = "item" | "state";

/** One entry of the transcript. `entryId` is chosen by the engine and unique within its stream. */
export interface TranscriptEntry {
  readonly kind: EntryKind;
  readonly entryId: string;
  /** Empty for the main stream. */
  readonly stream: string;
  readonly body: Uint8Array;
}

/**
 * What an engine has compacted it reads no more. Once the turn is true, nothing of the turns before is kept in the main
 * stream but these entries: a late session loads what its model reads, and not all that was ever said.
 */
export interface Compaction {
  /** The entry the engine begins anew with, of the main stream. */
  readonly entryId: string;
  /** Entries of the main stream before it that the engine reads all the same. */
  readonly keptEntryIds: readonly string[];
}

/** What the ledger says of one tool call. */
export interface CallOutcome {
  readonly toolUseId: string;
  /** `succeeded`, `failed`, `unknown`, `denied`, `withdrawn` … */
  readonly state: string;
  /** The MCP result; empty when there is none. */
  readonly resultJson: string;
}

/** The record gate as an engine sees it. Authenticated and fenced by the session's slot. */
export interface TranscriptLog {
  /** What became of tool calls of this run, by the ids their model gave them; what the ledger does not have is left out. */
  outcomes(toolUseIds: readonly string[]): Promise<readonly CallOutcome[]>;
  /**
   * Makes entries durable, in order. Resolves once they are committed. Rejects with `stale_generation` when the
   * session's owner no longer owns the conversation: the session must then end at once and write nothing more.
   * `compaction` names the one among them with which the engine begins anew.
   */
  append(entries: readonly TranscriptEntry[], compaction?: Compaction): Promise<void>;
  /**
   * The same, in place of what this turn has behind the entry `behind` of the main stream: a tail that cannot be
   * continued is cut in the transaction that appends. One append, so it must fit into one message.
   */
  replaceTail(behind: string, entries: readonly TranscriptEntry[]): Promise<void>;
  /** What the current owner may continue from, in order. */
  load(): Promise<readonly TranscriptEntry[]>;
}

/** Where a session begins. */
export interface Continuity {
  readonly rung: Rung;
  /** The last entry to go on from; on `repaired` it is of a turn that was not finished. */
  readonly leaf: string | null;
  /** On `repaired`, the last entry of the turns before; `null` when there is none. */
  readonly finalized: string | null;
  /** On `rebuilt`, what was said so far. */
  readonly history: readonly HistoryEntry[];
}

/** All that an engine is given for one session: the agent, where to continue from, and the ways out. */
export interface SessionContext {
  readonly tenantId: string;
  readonly conversationId: string;
  readonly generation: number;
  readonly snapshot: Snapshot;
  readonly snapshotHash: string;
  /** The only credential an engine gets: API key of the model gate and bearer of the tool gate. */
  readonly slotToken: string;
  readonly gates: GateUrls;
  readonly continuity: Continuity;
  readonly transcript: TranscriptLog;
  /** Makes an id for a new item (`itm_…`). */
  newItemId(): string;
  /**
   * Called when the session can no longer work. `worker_lost` when its engine's process is gone: the platform then runs
   * the turn again. `detail` may be shown to a caller; `report`, such as a program's last words, only goes to the log.
   */
  onLost(cause: ErrorCode, detail: string, report?: string): void;
}

/** What a step begins with: a person's message, or the reason to go on with the turn without one. */
export type StepInput =
  | { readonly kind: "message"; readonly turnId: string; readonly runId: string; readonly parts: readonly string[] }
  | { readonly kind: "continue"; readonly turnId: string; readonly runId: string; readonly reason: string }
  | {
      /** Goes on with the turn that the transcript ends in, on the rung `repaired`. */
      readonly kind: "recover";
      readonly turnId: string;
      readonly runId: string;
      readonly reason: string;
      /** Items of the turn that readers see. `digest` is the SHA-256 (hex) of the text. */
      readonly shown: readonly ShownItem[];
    };

/** A closed item that an earlier generation said; it is taken back unless the transcript has its text. */
export interface ShownItem {
  readonly itemId: string;
  readonly kind: "text" | "thinking";
  readonly digest: string;
}

/** A message for a step that is running. */
export interface DeliveredInput {
  readonly messageId: string;
  readonly parts: readonly string[];
}

/**
 * What an engine tells while a step runs. `offset` counts UTF-16 units of the item's text; revisions are the platform's
 * to add.
 */
export type StepEvent =
  | {
      readonly type: "text.delta" | "thinking.delta";
      readonly itemId: string;
      readonly offset: number;
      readonly text: string;
    }
  | { readonly type: "text.completed" | "thinking.completed"; readonly itemId: string; readonly text: string }
  | { readonly type: "text.retracted"; readonly itemId: string; readonly cause: string }
  | {
      readonly type: "run.phase";
      readonly phase: "thinking" | "writing" | "using_tool" | "waiting_provider" | "compacting";
    }
  /** A delivered message is in the model's context now. Told before the model can answer it. */
  | { readonly type: "input.consumed"; readonly messageId: string };

/** How a step ended; `error` gives the reason when it failed. */
export interface StepResult {
  readonly outcome: "done" | "continue" | "hold_required" | "failed" | "interrupted";
  /** The final answer, or what there was of it when the step was interrupted. */
  readonly answer: string;
  /** As the model said it: `end_turn`, `max_tokens`, `refusal` …; empty when it did not. */
  readonly stopReason: string;
  /** Last durable transcript entry of the main stream, or `null` when the step wrote none. */
  readonly leaf: string | null;
  readonly servedModel: string;
  readonly error: { readonly code: ErrorCode; readonly detail: string } | null;
}

/** What a checkpoint made durable: the format of the state, the entry to continue from, the size of the state. */
export interface CheckpointHeader {
  readonly schemaVersion: number;
  readonly leaf: string | null;
  readonly sizeBytes: number;
}

/** One conversation in one engine, from its opening until it is disposed. One step at a time. */
export interface EngineSession extends AsyncDisposable {
  /** Last durable entry of the main stream. */
  readonly leaf: string | null;
  /**
   * Goes on under a higher generation after the platform has bound the same slot to it; only called when `leaf`
   * equals the continuity the platform sent.
   */
  rebind(generation: number): void;
  /**
   * Runs one step. `emit` hands out events in order and returns a promise when the reader is slow; an engine must
   * wait for it. When `signal` aborts, the step still resolves, as `interrupted`, with the partial answer, within
   * two seconds or the session is disposed. Never throws for what a provider or tool does: that is a `failed` result. A
   * step that throws anything but a `PlatformError` has failed because of the engine itself; its session is disposed.
   */
  step(input: StepInput, emit: (event: StepEvent) => Promise<void> | void, signal: AbortSignal): Promise<StepResult>;
  /**
   * Takes a message for the step that is running, to be used at its next model call. False when the step has none coming
   * that could use it. An engine with this method announces the capability `steering`; what it accepted and did not
   * report as consumed by the end of the step, it forgets.
   */
  deliver?(input: DeliveredInput): boolean;
  /** Makes the state durable now. */
  checkpoint(): Promise<CheckpointHeader>;
}

/** An engine behind a worker: says whether it can run here, and opens sessions. */
export interface Executor {
  describe(): Promise<RuntimeDescription>;
  /** Rejects with `SDK_UNAVAILABLE` when the engine is missing, `transcript_corrupt` when it cannot go on natively. */
  open(context: SessionContext): Promise<EngineSession>;
  /** Loads what the first session would otherwise wait for. Called once, after the worker has announced itself. */
  warm?(): Promise<void>;
  /** Called when the worker ends, after every session has been disposed. */
  [Symbol.asyncDispose]?(): Promise<void>;
}

/** What an executor package exports under the name `createExecutor`. */
export type CreateExecutor = (options: ExecutorOptions) => Executor | Promise<Executor>;

/** The part of an executor package a worker needs. */
export interface ExecutorModule {
  readonly createExecutor: CreateExecutor;
}

/** Imports an executor package, for example `() => import("@signalbox/executor-langgraph")`. */
export type LoadExecutor = () => Promise<ExecutorModule>;

/** What the worker gives an executor when it makes one. */
export interface ExecutorOptions {
  /** Private directory of this worker for scratch files; removed at its end. */
  readonly scratchDir: string;
}
