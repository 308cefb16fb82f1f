/** A place on a connected worker, held for one conversation from before the session opens until the turn is over. */
import { createHash } from "node:crypto";
import { asPlatformError, isErrorCode, PlatformError, type ErrorCode } from "@signalbox/contract";
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
  SteeredMessage,
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
  #isOpen = false;

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

  /** Only says which session: it is opened with the first step, in one call. */
  open(request: SessionRequest): Promise<void> {
    this.#session = request;
    this.#isOpen = false;
    return Promise.resolve();
  }

  async *step(request: StepRequest, signal: CancelSignal): AsyncIterable<StepOutput> {
    const { connection } = this.#options;
    const session = this.#asked();
    const ended = new AbortController();
    const opening = this.#opening();
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
          ...(this.#isOpen ? {} : { session: this.#orderOf(session) }),
        },
        { signal: opening.signal, timeoutMs: 0 },
      );
      let finished = false;
      for await (const message of stream) {
        connection.spoke();
        if (message.event.case === "opened") {
          opening.done();
          await this.#accept(message.event.value.slotHash);
          continue;
        }
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
      throw opening.isLate()
        ? new PlatformError("worker_lost", "The session was not opened in time.")
        : connection.failed(thrown);
    } finally {
      ended.abort();
      opening.done();
      signal.removeEventListener("abort", interrupt);
    }
  }

  async deliver({ messageId, text }: SteeredMessage): Promise<boolean> {
    const session = this.#session;
    if (session === null || !this.#isOpen) return false;
    const { connection } = this.#options;
    const { conversationId, generation } = session;
    const { accepted } = await connection.call((signal) =>
      connection.client.deliverInput(
        { conversationId, generation: BigInt(generation), messageId, parts: [text] },
        { signal, timeoutMs: CALL_TIMEOUT_MS },
      ),
    );
    return accepted;
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

  /** Bounds how long a worker may take to open the session, where the step has to. */
  #opening(): { readonly signal: AbortSignal; readonly isLate: () => boolean; readonly done: () => void } {
    const { connection } = this.#options;
    if (this.#isOpen) return { signal: connection.lost, isLate: () => false, done: () => undefined };
    const late = new AbortController();
    const opened = new AbortController();
    const watch = async (): Promise<void> => {
      if ((await connection.clock.sleep(OPEN_TIMEOUT_MS, opened.signal)) === "elapsed") late.abort();
    };
    // Ends with the opening or its bound, and cannot fail.
    watch().catch(() => undefined);
    const signal = AbortSignal.any([connection.lost, late.signal]);
    return { signal, isLate: () => late.signal.aborted, done: () => opened.abort() };
  }

  #orderOf(request: SessionRequest): SessionOrder {
    const { slot, gates } = this.#options;
    return {
      tenantId: request.tenantId,
      conversationId: request.conversationId,
      generation: BigInt(request.generation),
      snapshotJson: JSON.stringify(request.snapshot),
      snapshotHash: request.snapshotHash,
      slotToken: slot.secret,
      continuity: {
        rung: request.rung,
        leaf: request.leaf ?? "",
        finalized: request.finalized ?? "",
        history: [...request.history],
      },
      gates,
    };
  }

  async #accept(slotHash: string): Promise<void> {
    const { slot, onOpened } = this.#options;
    if (slotHash !== slot.hash) {
      // Its engine would ask the gates with a token that is bound to nothing.
      await this.terminate("its slot is not the one that was bound");
      throw new PlatformError("engine_failed", "The worker kept a session whose slot is not bound to this run.");
    }
    this.#isOpen = true;
    onOpened(this.#asked().conversationId);
  }

  async #interrupt(session: SessionRequest, ended: AbortSignal): Promise<void> {
    const { clock } = this.#options.connection;
    for (let count = 0; count < INTERRUPT_LIMIT && !ended.aborted; count += 1) {
      if (await this.#interruptOnce(session)) return;
      await clock.sleep(INTERRUPT_AGAIN_MS, ended);
    }
  }

  /** Whether there was something to stop. */
  async #interruptOnce({ conversationId, generation }: SessionRequest): Promise<boolean> {
    const { connection } = this.#options;
    const order = { conversationId, generation: BigInt(generation), reason: "cancelled" };
    const wasOpen = this.#isOpen;
    try {
      const { running } = await connection.call((signal) =>
        connection.client.interruptStep(order, { signal, timeoutMs: CALL_TIMEOUT_MS }),
      );
      return running;
    } catch (thrown) {
      // Until the step has opened its session, the worker knows none.
      if (!wasOpen && asPlatformError(thrown).code === "session_unknown") return false;
      throw thrown;
    }
  }

  #asked(): SessionRequest {
    if (this.#session === null) throw new PlatformError("internal", "A seat was used before its session was named.");
    return this.#session;
  }
}

type SessionOrder = NonNullable<Parameters<WorkerConnection["client"]["executeStep"]>[0]["session"]>;
type StepInput = NonNullable<Parameters<WorkerConnection["client"]["executeStep"]>[0]["input"]>;

function inputOf(request: StepRequest): StepInput {
  if (request.recovery !== null) {
    const { reason, shown } = request.recovery;
    return { case: "recover", value: { reason, shown: shown.map((item) => ({ ...item })) } };
  }
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
    case "consumed":
      return wrap({ type: "input.consumed", messageId: event.value.messageId });
    case "result":
      return { kind: "result", result: translateResult(event.value) };
    case "opened":
    case undefined:
      // Not for the turn; or an event of a newer worker that this release does not know.
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
