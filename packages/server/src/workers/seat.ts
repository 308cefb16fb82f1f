/** A place on a connected worker, held for one conversation from before the session opens until the turn is over. */
import { createHash } from "node:crypto";
import { isErrorCode, PlatformError, type ErrorCode } from "@signalbox/contract";
import {
  StepResult_Outcome,
  type ExecuteStepResponse,
  type StepResult as WireResult,
} from "@signalbox/contract/worker-protocol";
import type {
  CancelSignal,
  Randomness,
  Seat,
  SessionRequest,
  StepOutput,
  StepRequest,
  StepResult,
  WorkerEvent,
} from "@signalbox/core";
import type { WorkerConnection } from "./worker-connection.ts";

const SLOT_TOKEN_BYTES = 32;
const OPEN_TIMEOUT_MS = 60_000;
const CALL_TIMEOUT_MS = 10_000;
/** An interrupt can reach the worker before its step does; it is said again until there is something to stop. */
const INTERRUPT_AGAIN_MS = 50;
const INTERRUPT_LIMIT = 40;

/** An engine's only credential. Kept in memory here and in the engine; the record has its hash. */
export interface SlotToken {
  readonly secret: string;
  readonly hash: string;
}

export interface RemoteSeatOptions {
  readonly connection: WorkerConnection;
  readonly slot: SlotToken;
  readonly gates: { readonly modelUrl: string; readonly toolUrl: string; readonly recordUrl: string };
  readonly onOpened: (conversationId: string) => void;
  readonly onEnded: (conversationId: string) => void;
  readonly onLeft: () => void;
}

export class RemoteSeat implements Seat {
  readonly workerId: string;
  readonly slotTokenHash: string;
  readonly #options: RemoteSeatOptions;
  readonly #stand: () => void;
  #session: SessionRequest | null = null;

  constructor(options: RemoteSeatOptions) {
    this.#options = options;
    this.workerId = options.connection.id;
    this.slotTokenHash = options.slot.hash;
    this.#stand = options.connection.sit();
  }

  static mintSlot(randomness: Randomness): SlotToken {
    const secret = Buffer.from(randomness.bytes(SLOT_TOKEN_BYTES)).toString("base64url");
    return { secret, hash: createHash("sha256").update(secret).digest("hex") };
  }

  async open(request: SessionRequest): Promise<void> {
    const { connection, slot, gates } = this.#options;
    this.#session = request;
    const opened = await connection.call((signal) =>
      connection.client.initWorkerSession(
        {
          tenantId: request.tenantId,
          conversationId: request.conversationId,
          generation: BigInt(request.generation),
          snapshotJson: JSON.stringify(request.snapshot),
          snapshotHash: request.snapshotHash,
          slotToken: slot.secret,
          continuity: { rung: request.rung, leaf: request.leaf ?? "", history: [...request.history] },
          gates,
        },
        { signal, timeoutMs: OPEN_TIMEOUT_MS },
      ),
    );
    if (opened.slotHash !== slot.hash) {
      // Its engine would ask the gates with a token that is bound to nothing.
      await this.terminate("its slot is not the one that was bound");
      throw new PlatformError("engine_failed", "The worker kept a session whose slot is not bound to this run.");
    }
    this.#options.onOpened(request.conversationId);
  }

  async *step(request: StepRequest, signal: CancelSignal): AsyncIterable<StepOutput> {
    const { connection } = this.#options;
    const session = this.#opened();
    const ended = new AbortController();
    const interrupt = (): void => {
      // A lost worker ends the stream below by itself, so a failed interrupt needs no answer here.
      this.#interrupt(session, ended.signal).catch(() => undefined);
    };
    if (signal.aborted) interrupt();
    signal.addEventListener("abort", interrupt, { once: true });
    try {
      const stream = connection.client.executeStep(
        {
          conversationId: session.conversationId,
          generation: BigInt(session.generation),
          runId: request.runId,
          turnId: request.turnId,
          input: inputOf(request),
        },
        { signal: connection.lost, timeoutMs: 0 },
      );
      let finished = false;
      for await (const message of stream) {
        const output = translate(message);
        finished ||= output?.kind === "result";
        if (output !== null) yield output;
      }
      if (!finished) {
        const error = new PlatformError("worker_lost", "The worker's stream ended without a result.");
        connection.declareDead(error);
        throw error;
      }
    } catch (thrown) {
      throw connection.failed(thrown);
    } finally {
      ended.abort();
      signal.removeEventListener("abort", interrupt);
    }
  }

  leave(): void {
    this.#stand();
    this.#options.onLeft();
  }

  async terminate(reason: string): Promise<void> {
    const session = this.#session;
    if (session === null) return;
    this.#options.onEnded(session.conversationId);
    const { connection } = this.#options;
    try {
      await connection.call((signal) =>
        connection.client.terminate(
          { conversationId: session.conversationId, generation: BigInt(session.generation), reason },
          { signal, timeoutMs: CALL_TIMEOUT_MS },
        ),
      );
    } catch {
      // The worker is lost or has no such session: either way there is nothing left to end.
    }
  }

  async #interrupt(session: SessionRequest, ended: AbortSignal): Promise<void> {
    const { connection } = this.#options;
    for (let count = 0; count < INTERRUPT_LIMIT && !ended.aborted; count += 1) {
      const { running } = await connection.call((signal) =>
        connection.client.interruptStep(
          { conversationId: session.conversationId, generation: BigInt(session.generation), reason: "cancelled" },
          { signal, timeoutMs: CALL_TIMEOUT_MS },
        ),
      );
      if (running) return;
      await connection.clock.sleep(INTERRUPT_AGAIN_MS, ended);
    }
  }

  #opened(): SessionRequest {
    if (this.#session === null) throw new PlatformError("internal", "A seat was used before its session was opened.");
    return this.#session;
  }
}

type StepInput = NonNullable<Parameters<WorkerConnection["client"]["executeStep"]>[0]["input"]>;

function inputOf(request: StepRequest): StepInput {
  return request.continueReason === null
    ? { case: "message", value: { parts: [...request.parts] } }
    : { case: "continue", value: { reason: request.continueReason } };
}

function translate(message: ExecuteStepResponse): StepOutput | null {
  const event = message.event;
  switch (event.case) {
    case "textDelta":
      return delta("text.delta", event.value);
    case "thinkingDelta":
      return delta("thinking.delta", event.value);
    case "textCompleted":
      return wrap({ type: "text.completed", itemId: event.value.itemId, text: event.value.text });
    case "thinkingCompleted":
      return wrap({ type: "thinking.completed", itemId: event.value.itemId, text: event.value.text });
    case "textRetracted":
      return wrap({ type: "text.retracted", itemId: event.value.itemId, cause: event.value.cause });
    case "phase":
      return wrap({ type: "run.phase", phase: event.value.phase });
    case "result":
      return { kind: "result", result: translateResult(event.value) };
    case undefined:
      // An event of a newer worker that this release does not know: additive by the protocol's rules.
      return null;
  }
}

function wrap(event: WorkerEvent): StepOutput {
  return { kind: "event", event };
}

function delta(
  type: "text.delta" | "thinking.delta",
  value: { itemId: string; offset: bigint; text: string },
): StepOutput {
  return wrap({ type, itemId: value.itemId, offset: Number(value.offset), text: value.text });
}

const OUTCOMES: Readonly<Record<number, StepResult["outcome"]>> = {
  [StepResult_Outcome.DONE]: "done",
  [StepResult_Outcome.CONTINUE]: "continue",
  [StepResult_Outcome.HOLD_REQUIRED]: "hold_required",
  [StepResult_Outcome.FAILED]: "failed",
  [StepResult_Outcome.INTERRUPTED]: "interrupted",
};

function translateResult(wire: WireResult): StepResult {
  const outcome = OUTCOMES[wire.outcome];
  return {
    outcome: outcome ?? "failed",
    answer: wire.answer,
    stopReason: wire.stopReason,
    leaf: wire.leaf === "" ? null : wire.leaf,
    servedModel: wire.servedModel,
    error:
      wire.error === undefined
        ? outcome === undefined
          ? { code: "engine_failed", detail: "The worker answered with an outcome this release does not know." }
          : null
        : { code: knownCode(wire.error.code), detail: wire.error.detail },
  };
}

function knownCode(code: string): ErrorCode {
  return isErrorCode(code) ? code : "engine_failed";
}
