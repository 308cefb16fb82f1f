/**
 * One conversation on one engine process. The process is kept from turn to turn for as long as the platform keeps the
 * session; everything needed to go on elsewhere is in the record. When the conversation has another owner, a row could
 * not be kept or the tools are gone, the turn is stopped and the session is at its end: it never carries on without.
 */
import type { SDKMessage, SDKResultMessage, SDKUserMessage } from "@anthropic-ai/claude-agent-sdk";
import { PlatformError, wellFormed, type ErrorCode } from "@signalbox/contract";
import {
  compareShown,
  type CheckpointHeader,
  type EngineSession,
  type SessionContext,
  type ShownItem,
  type StepEvent,
  type StepInput,
  type StepResult,
} from "@signalbox/worker";
import type { Engine } from "./engine.ts";
import { LIMITS } from "./limits.ts";
import { removePrivateDirectories } from "./private-directories.ts";
import { uuidFrom } from "./stable-id.ts";
import { settlesWithin } from "./time-limit.ts";
import type { TranscriptMirror } from "./transcript-mirror.ts";
import { keepsPartial, stepResultOf, type StepFailure } from "./turn-outcome.ts";
import { Turn } from "./turn.ts";
import type { UnfinishedTurn } from "./unfinished-turn.ts";

/** Form of the stored transcript: one entry per row of the engine's own. */
const SCHEMA_VERSION = 1;

/** The turn can be run again with another process. */
export const ENGINE_GONE: StepFailure = {
  code: "worker_lost",
  detail: "The engine's process ended before its turn did.",
};

type Emit = (event: StepEvent) => Promise<void> | void;

export interface SessionParts {
  readonly context: SessionContext;
  readonly engine: Engine;
  readonly mirror: TranscriptMirror;
  readonly directory: string;
  /** Earlier messages that go along with the next one. */
  readonly unanswered: readonly string[];
  /** The turn to go on with; its first step does. */
  readonly unfinished: UnfinishedTurn | null;
}

export class ClaudeSession implements EngineSession {
  readonly #parts: SessionParts;
  #generation: number;
  #stepCount = 0;
  #unanswered: readonly string[];
  #turn: Turn | null = null;
  #loss: StepFailure | null = null;
  #left: Promise<void> | null = null;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    this.#generation = parts.context.generation;
    this.#unanswered = parts.unanswered;
  }

  get leaf(): string | null {
    return this.#parts.mirror.leaf;
  }

  /** Whether a tool call may start now. */
  get isTakingCalls(): boolean {
    return this.#turn !== null && this.#turn.stop === null && this.#loss === null;
  }

  rebind(generation: number): void {
    if (generation <= this.#generation || this.#turn !== null) {
      throw new PlatformError("stale_generation", "A session is rebound between steps, and only to a later owner.");
    }
    this.#generation = generation;
    this.#stepCount = 0;
  }

  async step(input: StepInput, emit: Emit, signal: AbortSignal): Promise<StepResult> {
    if (this.#turn !== null) {
      throw new PlatformError("internal", "The session is running a step already.");
    }
    const turn = new Turn({ newItemId: () => this.#parts.context.newItemId(), emit });
    if (input.kind === "recover") {
      return this.#recover(turn, input.shown, signal);
    }
    const texts = [...this.#unanswered, ...(input.kind === "message" ? input.parts : [input.reason])];
    const spoken = texts.map((text) => wellFormed(text)).filter((text) => text.trim() !== "");
    if (this.#loss !== null) {
      turn.fail(this.#loss);
    } else if (spoken.length === 0) {
      turn.fail({ code: "invalid_request", detail: "The message has no text." });
    } else if (signal.aborted) {
      turn.stopFor({ kind: "caller" });
    } else {
      this.#unanswered = [];
      return this.#run(turn, this.#messageOf(input.turnId, spoken), signal);
    }
    return stepResultOf({ result: null, facts: turn.translation.facts(), stop: turn.stop, leaf: null });
  }

  /** Goes on with the turn at the end of the transcript, which the engine begins by itself when it has started. */
  async #recover(turn: Turn, shown: readonly ShownItem[], signal: AbortSignal): Promise<StepResult> {
    const { unfinished, mirror, context } = this.#parts;
    if (unfinished === null || this.#stepCount > 0) {
      throw new PlatformError("internal", "The session was not opened to go on with a turn.");
    }
    this.#stepCount += 1;
    const { gone, unseen } = compareShown(unfinished.said, shown);
    await turn.emitAll([
      ...gone.map(({ itemId }) => ({ type: "text.retracted", itemId, cause: "not_continued" }) as const),
      ...unseen.map(({ kind, text }) => ({ type: `${kind}.completed`, itemId: context.newItemId(), text }) as const),
    ]);
    if (unfinished.answer !== null) {
      const { text: answer, stopReason, servedModel } = unfinished.answer;
      return { outcome: "done", answer, stopReason, servedModel, leaf: mirror.leaf, error: null };
    }
    const result = await this.#run(turn, null, signal);
    return { ...result, leaf: mirror.leaf };
  }

  async checkpoint(): Promise<CheckpointHeader> {
    const { mirror } = this.#parts;
    await mirror.idle();
    if (this.#loss !== null) {
      throw new PlatformError(this.#loss.code, this.#loss.detail);
    }
    return { schemaVersion: SCHEMA_VERSION, leaf: mirror.leaf, sizeBytes: mirror.sizeBytes };
  }

  /**
   * The session can no longer work. With `isFenced` the process is killed on the spot; otherwise its turn is stopped
   * in order, so that what was said until then is kept.
   */
  lose(loss: StepFailure, reason: { readonly isFenced: boolean; readonly report?: string }): void {
    if (this.#loss !== null || this.#left !== null) {
      return;
    }
    this.#loss = loss;
    this.#turn?.fail(loss);
    if (reason.isFenced || this.#turn === null) {
      this.#parts.engine.kill();
    } else {
      this.#stopTurn(this.#turn);
    }
    const { context } = this.#parts;
    const report = wellFormed((reason.report ?? "").replaceAll(context.slotToken, "(slot token)"));
    context.onLost(loss.code, loss.detail, report);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#left ??= this.#leave();
    return this.#left;
  }

  async #leave(): Promise<void> {
    const { engine, mirror, directory } = this.#parts;
    const turn = this.#turn;
    if (turn !== null) {
      turn.stopFor({ kind: "caller" });
      this.#stopTurn(turn);
      await settlesWithin(turn.over, LIMITS.leaveTurnMs);
    }
    mirror.close();
    await engine.leave();
    await removePrivateDirectories(directory);
  }

  /** Without a message the engine goes on by itself. */
  async #run(turn: Turn, message: SDKUserMessage | null, signal: AbortSignal): Promise<StepResult> {
    const { engine, mirror } = this.#parts;
    const leafBefore = mirror.leaf;
    const onAbort = (): void => {
      turn.stopFor({ kind: "caller" });
      this.#stopTurn(turn);
    };
    this.#turn = turn;
    signal.addEventListener("abort", onAbort, { once: true });
    mirror.openTurn();
    try {
      if (message !== null) {
        engine.send(message);
      }
      const result = await this.#listen(turn, message?.uuid);
      mirror.closeTurn();
      turn.end();
      await turn.emitAll(turn.translation.end(keepsPartial(turn.stop)));
      await settlesWithin(mirror.idle(), LIMITS.settleMs);
      const leaf = mirror.leaf === leafBefore ? null : mirror.leaf;
      return stepResultOf({ result, facts: turn.translation.facts(), stop: turn.stop, leaf });
    } finally {
      signal.removeEventListener("abort", onAbort);
      mirror.closeTurn();
      turn.end();
      await turn.stopping;
      this.#turn = null;
    }
  }

  /** Reads until the turn has a result; `null` when the process ends without one. */
  async #listen(turn: Turn, messageId: string | undefined): Promise<SDKResultMessage | null> {
    for (;;) {
      const message = await this.#parts.engine.next();
      if (message === null) {
        // Also for a process that was killed because it would not stop.
        this.lose(ENGINE_GONE, { isFenced: true, report: this.#parts.engine.lastWords });
        return null;
      }
      if (message.type === "result") {
        const answered = message.user_message_uuids;
        if (answered === undefined || messageId === undefined || answered.includes(messageId)) {
          return message;
        }
      } else {
        this.#inspect(message);
        if (turn.stop?.kind !== "truncated") {
          await turn.emitAll(turn.translation.accept(message));
        }
        if (turn.translation.isTruncated) {
          // The engine asks for more, up to three times the length the agent may answer with. Nothing of that counts.
          turn.stopFor({ kind: "truncated" });
        }
        if (turn.stop !== null) {
          this.#stopTurn(turn);
        }
      }
    }
  }

  #inspect(message: SDKMessage): void {
    if (message.type !== "system") {
      return;
    }
    if (message.subtype === "init") {
      // Which tools there are is for the gate to say, and it may offer fewer than the agent was given, or none.
      if (message.mcp_servers.some((server) => server.status !== "connected")) {
        this.lose(failure("tool_upstream_failed", "The engine has no connection to the tool gate."), {
          isFenced: false,
        });
      }
    } else if (message.subtype === "mirror_error") {
      const detail = "A row of the transcript could not be made durable.";
      this.lose(failure("transcript_not_durable", detail), { isFenced: false, report: message.error });
    } else if (message.subtype === "session_writes_lost") {
      this.lose(failure("transcript_not_durable", "The engine's disk is full."), { isFenced: false });
    }
  }

  #stopTurn(turn: Turn): void {
    turn.stopping ??= this.#parts.engine.interrupt(turn.over);
  }

  #messageOf(turnId: string, texts: readonly string[]): SDKUserMessage {
    const { conversationId } = this.#parts.context;
    const place = String(this.#stepCount);
    this.#stepCount += 1;
    return {
      type: "user",
      // By generation too: a turn run again by another owner is another row than the one that was cut.
      uuid: uuidFrom("message", conversationId, turnId, String(this.#generation), place),
      session_id: "",
      parent_tool_use_id: null,
      message: { role: "user", content: texts.map((text) => ({ type: "text", text })) },
    };
  }
}

function failure(code: ErrorCode, detail: string): StepFailure {
  return { code, detail };
}
