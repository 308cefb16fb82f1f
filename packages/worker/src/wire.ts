/** Our words as messages of the worker protocol, and back. Parsing happens here, once, where a call comes in. */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { PlatformError, RUNGS, type HistoryEntry, type Rung, type Snapshot } from "@signalbox/contract";
import {
  StepResult_Outcome,
  type ExecuteStepRequest,
  type ExecuteStepResponse,
  ExecuteStepResponseSchema,
  type InitWorkerSessionRequest,
  type InitWorkerSessionResponseSchema,
  type RuntimeSchema,
} from "@signalbox/contract/worker-protocol";
import type { StepOutput } from "./event-queue.ts";
import type { OpenedSession } from "./sessions.ts";
import type { GateUrls, RuntimeDescription, StepEvent, StepInput, StepResult } from "./executor.ts";

/** What the platform asks a session for, parsed. */
export interface SessionOrder {
  readonly tenantId: string;
  readonly conversationId: string;
  readonly generation: number;
  readonly snapshotJson: string;
  readonly snapshotHash: string;
  readonly slotToken: string;
  readonly rung: Rung;
  readonly leaf: string | null;
  readonly finalized: string | null;
  readonly history: readonly HistoryEntry[];
  readonly gates: GateUrls & { readonly record: string };
}

export function readSessionOrder(request: InitWorkerSessionRequest): SessionOrder {
  const { continuity, gates } = request;
  if (continuity === undefined || gates === undefined) {
    throw new PlatformError("invalid_request", "A session is opened with its continuity and its gates.");
  }
  if (request.conversationId === "" || request.slotToken === "") {
    throw new PlatformError("invalid_request", "A session is opened for a conversation, with a slot token.");
  }
  return {
    tenantId: request.tenantId,
    conversationId: request.conversationId,
    generation: readGeneration(request.generation),
    snapshotJson: request.snapshotJson,
    snapshotHash: request.snapshotHash,
    slotToken: request.slotToken,
    rung: readRung(continuity.rung),
    leaf: continuity.leaf === "" ? null : continuity.leaf,
    finalized: continuity.finalized === "" ? null : continuity.finalized,
    history: continuity.history.map((entry) => ({ role: readRole(entry.role), text: entry.text })),
    gates: { model: gates.modelUrl, tool: gates.toolUrl, record: gates.recordUrl },
  };
}

/** The session a step brings along, or `null`. */
export function readStepSession(request: ExecuteStepRequest): SessionOrder | null {
  const { session } = request;
  if (session === undefined) {
    return null;
  }
  if (session.conversationId !== request.conversationId || session.generation !== request.generation) {
    throw new PlatformError("invalid_request", "A step brings along its own session and no other.");
  }
  return readSessionOrder(session);
}

export function readGeneration(generation: bigint): number {
  if (generation > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new PlatformError("invalid_request", "The generation is out of range.");
  }
  return Number(generation);
}

export function readStepInput(request: ExecuteStepRequest): StepInput {
  const { turnId, runId, input } = request;
  switch (input.case) {
    case "message":
      return { kind: "message", turnId, runId, parts: input.value.parts };
    case "continue":
      return { kind: "continue", turnId, runId, reason: input.value.reason };
    case "recover": {
      const shown = input.value.shown.map((item) => ({ ...readShown(item), digest: item.digest }));
      return { kind: "recover", turnId, runId, reason: input.value.reason, shown };
    }
    case undefined:
      throw new PlatformError("invalid_request", "A step has an input: a message or a reason to go on.");
  }
}

function readShown({ itemId, kind }: { readonly itemId: string; readonly kind: string }) {
  if (kind === "text" || kind === "thinking") {
    return { itemId, kind } as const;
  }
  throw new PlatformError("invalid_request", "A shown item is text or thinking.");
}

/** The snapshot's text has been hashed already; what the hash covers was checked by whoever froze it. */
export function readSnapshot(json: string): Snapshot {
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value === "object" && value !== null && "model" in value && "tools" in value) {
      // Frozen, validated and hashed by the platform; the hash is compared before this is used.
      return value as Snapshot;
    }
  } catch (cause) {
    throw new PlatformError("snapshot_mismatch", "The snapshot is not valid JSON.", { cause });
  }
  throw new PlatformError("snapshot_mismatch", "The snapshot has not the form of one.");
}

const OUTCOMES: Readonly<Record<StepResult["outcome"], StepResult_Outcome>> = {
  done: StepResult_Outcome.DONE,
  continue: StepResult_Outcome.CONTINUE,
  hold_required: StepResult_Outcome.HOLD_REQUIRED,
  failed: StepResult_Outcome.FAILED,
  interrupted: StepResult_Outcome.INTERRUPTED,
};

export function writeOutput(output: StepOutput): ExecuteStepResponse {
  return create(ExecuteStepResponseSchema, {
    event: output.kind === "result" ? { case: "result", value: writeResult(output.result) } : writeEvent(output.event),
  });
}

export function writeOpened(opened: OpenedSession): MessageInitShape<typeof InitWorkerSessionResponseSchema> {
  return { rebound: opened.rebound, slotHash: opened.slotHash, leaf: opened.leaf ?? "" };
}

export function writeOpenedEvent(opened: OpenedSession): ExecuteStepResponse {
  return create(ExecuteStepResponseSchema, { event: { case: "opened", value: writeOpened(opened) } });
}

type WireEvent = NonNullable<MessageInitShape<typeof ExecuteStepResponseSchema>["event"]>;

function writeEvent(event: StepEvent): WireEvent {
  switch (event.type) {
    case "text.delta":
      return { case: "textDelta", value: { itemId: event.itemId, offset: BigInt(event.offset), text: event.text } };
    case "thinking.delta":
      return { case: "thinkingDelta", value: { itemId: event.itemId, offset: BigInt(event.offset), text: event.text } };
    case "text.completed":
      return { case: "textCompleted", value: { itemId: event.itemId, text: event.text } };
    case "thinking.completed":
      return { case: "thinkingCompleted", value: { itemId: event.itemId, text: event.text } };
    case "text.retracted":
      return { case: "textRetracted", value: { itemId: event.itemId, cause: event.cause } };
    case "run.phase":
      return { case: "phase", value: { phase: event.phase } };
    case "input.consumed":
      return { case: "consumed", value: { messageId: event.messageId } };
  }
}

function writeResult(result: StepResult): Extract<WireEvent, { readonly case: "result" }>["value"] {
  return {
    outcome: OUTCOMES[result.outcome],
    answer: result.answer,
    stopReason: result.stopReason,
    leaf: result.leaf ?? "",
    servedModel: result.servedModel,
    ...(result.error === null ? {} : { error: { code: result.error.code, detail: result.error.detail } }),
  };
}

export function writeRuntime(runtime: RuntimeDescription): MessageInitShape<typeof RuntimeSchema> {
  return { ...runtime, capabilities: [...runtime.capabilities] };
}

function readRung(text: string): Rung {
  const rung = RUNGS.find((each) => each === text);
  if (rung === undefined) {
    throw new PlatformError("invalid_request", "The continuity names no rung of the resume ladder.");
  }
  return rung;
}

function readRole(text: string): HistoryEntry["role"] {
  if (text === "user" || text === "assistant") {
    return text;
  }
  throw new PlatformError("invalid_request", "A line of the history is from the user or the assistant.");
}
