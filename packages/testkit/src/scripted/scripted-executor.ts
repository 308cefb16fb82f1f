/**
 * An engine without a mind of its own: plays what it is told through the same interface, gates and transcript as the
 * real ones. The reference for what a worker must do with any engine.
 */
import { createHash, randomBytes } from "node:crypto";
import { asPlatformError, PlatformError } from "@signalbox/contract";
import {
  GateConnections,
  type CheckpointHeader,
  type DeliveredInput,
  type EngineSession,
  type Executor,
  type SessionContext,
  type StepInput,
  type StepResult,
  type TranscriptEntry,
} from "@signalbox/worker";
import { playOf } from "./play.ts";
import { Stage, type Emit } from "./stage.ts";

const SCHEMA_VERSION = 1;

/**
 * Makes the executor of the runtime `scripted`. Its sessions play what `playMessage` put into a message, or what the
 * agent's instructions say; opening one ends with `transcript_corrupt` when the entry it should continue from is not
 * there.
 */
export function createScriptedExecutor(): Executor {
  return new ScriptedExecutor();
}

class ScriptedExecutor implements Executor {
  readonly #connections = new GateConnections();

  describe() {
    const capabilities = ["streaming", "tools", "interrupt", "steering", "native_resume", "rebuild"];
    return Promise.resolve({ name: "scripted", version: "1", available: true, problem: "", capabilities });
  }

  async open(context: SessionContext): Promise<EngineSession> {
    const { rung, leaf, history } = context.continuity;
    const native = rung === "native" || rung === "repaired";
    const entries = native && leaf !== null ? upTo(leaf, await context.transcript.load()) : [];
    // A scripted step is kept at its end, so a turn that was left in the middle has nothing to go on from.
    const unfinished = rung === "repaired" ? readTurn(entries) : null;
    const messageCount = rung === "rebuilt" ? history.length : entries.filter((each) => each.kind === "item").length;
    return new ScriptedSession(context, {
      connections: this.#connections,
      leaf: native ? leaf : null,
      messageCount,
      answered: unfinished,
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#connections[Symbol.dispose]();
    return Promise.resolve();
  }
}

interface Opened {
  readonly connections: GateConnections;
  readonly leaf: string | null;
  readonly messageCount: number;
  /** What the turn that is to be gone on with has answered. */
  readonly answered: string | null;
}

class ScriptedSession implements EngineSession {
  leaf: string | null;
  readonly #context: SessionContext;
  readonly #connections: GateConnections;
  readonly #salt = randomBytes(6).toString("hex");
  #messageCount: number;
  #stage: Stage | null = null;
  #sizeBytes = 0;
  readonly #answered: string | null;

  constructor(context: SessionContext, opened: Opened) {
    this.#context = context;
    this.#connections = opened.connections;
    this.leaf = opened.leaf;
    this.#messageCount = opened.messageCount;
    this.#answered = opened.answered;
  }

  rebind(): void {
    // The slot stays, and its row says which generation it belongs to.
  }

  async step(input: StepInput, emit: Emit, signal: AbortSignal): Promise<StepResult> {
    if (input.kind === "recover") {
      return this.#recovered(input, emit);
    }
    const parts = input.kind === "message" ? input.parts : [input.reason];
    const stage = new Stage({
      context: this.#context,
      connections: this.#connections,
      emit,
      signal,
      parts,
      rememberedCount: this.#messageCount,
    });
    this.#stage = stage;
    try {
      const play = playOf(this.#context.snapshot.instructions, parts);
      await stage.play(play ?? [{ say: `You said: ${parts.at(-1) ?? ""}` }]);
      await stage.close();
      return await this.#remembered(parts, { ...resultOf(stage), outcome: "done" });
    } catch (thrown) {
      await stage.close();
      const { code, detail } = asPlatformError(thrown);
      if (signal.aborted || code === "run_cancelled" || code === "run_stopped") {
        // A gate may hear of a cancel or a stop before anybody has asked this step to stop.
        const error = signal.aborted ? null : { code, detail };
        return await this.#remembered(parts, { ...resultOf(stage), outcome: "interrupted", stopReason: "", error });
      }
      if (thrown instanceof PlatformError) {
        return { ...resultOf(stage), error: { code: thrown.code, detail: thrown.detail } };
      }
      throw thrown;
    } finally {
      this.#stage = null;
    }
  }

  deliver(input: DeliveredInput): boolean {
    return this.#stage?.deliver(input) ?? false;
  }

  /** The turn was over, only nobody had heard of it: what it answered stays, or is said again. */
  async #recovered(input: Extract<StepInput, { readonly kind: "recover" }>, emit: Emit): Promise<StepResult> {
    const text = this.#answered ?? "";
    const digest = createHash("sha256").update(text).digest("hex");
    const standing = input.shown.findLast((item) => item.kind === "text" && item.digest === digest);
    for (const { itemId } of input.shown.filter((item) => item !== standing)) {
      await emit({ type: "text.retracted", itemId, cause: "not_continued" });
    }
    if (standing === undefined && text !== "") {
      await emit({ type: "text.completed", itemId: this.#context.newItemId(), text });
    }
    const { leaf } = this;
    return { outcome: "done", answer: text, stopReason: "end_turn", leaf, servedModel: "scripted", error: null };
  }

  checkpoint(): Promise<CheckpointHeader> {
    return Promise.resolve({ schemaVersion: SCHEMA_VERSION, leaf: this.leaf, sizeBytes: this.#sizeBytes });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Nothing is started that a step does not end.
  }

  async #remembered(parts: readonly string[], result: StepResult): Promise<StepResult> {
    const spoken = [
      { role: "user", text: parts.join("\n") },
      { role: "assistant", text: result.answer },
    ];
    const items = spoken.map((message): TranscriptEntry => {
      this.#messageCount += 1;
      const body = Buffer.from(JSON.stringify(message));
      return { kind: "item", entryId: `m${this.#messageCount}.${this.#salt}`, stream: "", body };
    });
    const facts = { v: SCHEMA_VERSION, messageCount: this.#messageCount, outcome: result.outcome };
    const body = Buffer.from(JSON.stringify(facts));
    const state: TranscriptEntry = { kind: "state", entryId: `s${this.#messageCount}.${this.#salt}`, stream: "", body };
    await this.#context.transcript.append([...items, state]);
    this.leaf = state.entryId;
    this.#sizeBytes = body.byteLength;
    return { ...result, leaf: this.leaf };
  }
}

function resultOf(stage: Stage): StepResult {
  const { text, stopReason, servedModel } = stage;
  return { outcome: "failed", answer: text, stopReason, leaf: null, servedModel, error: null };
}

/** What the turn at the end answered. Throws `transcript_corrupt` unless it ended in order. */
function readTurn(entries: readonly TranscriptEntry[]): string {
  const read = (entry: TranscriptEntry | undefined): unknown =>
    entry === undefined ? null : JSON.parse(Buffer.from(entry.body).toString("utf8"));
  const state = read(entries.at(-1));
  const said = read(entries.at(-2));
  const isOver = typeof state === "object" && state !== null && "outcome" in state && state.outcome === "done";
  if (!isOver || typeof said !== "object" || said === null || !("text" in said) || typeof said.text !== "string") {
    throw new PlatformError("transcript_corrupt", "The turn at the end of the transcript was not finished.");
  }
  return said.text;
}

function upTo(leaf: string, entries: readonly TranscriptEntry[]): readonly TranscriptEntry[] {
  const end = entries.findIndex((entry) => entry.stream === "" && entry.entryId === leaf);
  if (end < 0) {
    throw new PlatformError("transcript_corrupt", "The transcript lacks the entry it should end with.");
  }
  return entries.slice(0, end + 1);
}
