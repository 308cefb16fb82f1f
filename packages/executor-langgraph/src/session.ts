/** A conversation's graph on this worker: opened from its transcript, run step by step, ended without a trace. */
import { randomBytes } from "node:crypto";
import { setImmediate as turnOfEventLoop } from "node:timers/promises";
import { PlatformError, wellFormed } from "@signalbox/contract";
import {
  compareShown,
  ModelClient,
  resultsOfLostCalls,
  ToolClient,
  type CheckpointHeader,
  type DeliveredInput,
  type EngineSession,
  type GateConnections,
  type SessionContext,
  type StepInput,
  type StepResult,
  type TranscriptEntry,
} from "@signalbox/worker";
import { upTo } from "./entries-up-to.ts";
import { buildGraph, type AgentGraph, type GraphParts } from "./graph.ts";
import { textOf, userMessage, type Message } from "./message.ts";
import { ModelCaller } from "./model-caller.ts";
import type { Emit } from "./spoken-message.ts";
import { STATE_SCHEMA_VERSION } from "./state-entry.ts";
import { answered, answerOf, cancelOf, errorOf, failed, FENCED, NO_RESULT } from "./step-result.ts";
import { StepScope } from "./step-scope.ts";
import { TranscriptSaver } from "./transcript-saver.ts";
import { beginOfTurn, repairedTurn, saidIn, type UnfinishedTurn } from "./unfinished-turn.ts";

const SALT_BYTES = 6;
/** Calls of one message that run at the same time. */
const CALLS_AT_ONCE_MAX = 16;
/** A token that was told leaves the process a turn or two later; until then nothing long may begin. */
const TURNS_UNTIL_SENT = 2;
const SUPERSTEPS_PER_MODEL_CALL = 2;

export interface SessionParts {
  readonly connections: GateConnections;
  readonly client: { readonly name: string; readonly version: string };
}

/** Opens a session on the rung the platform found. Rejects with `transcript_corrupt` when it cannot go on from there. */
export async function openSession(context: SessionContext, parts: SessionParts): Promise<EngineSession> {
  const session = new LanggraphSession(context, parts);
  const { rung, leaf, finalized, history } = context.continuity;
  if ((rung === "native" || rung === "repaired") && leaf !== null) {
    const entries = upTo(leaf, await context.transcript.load());
    readable(() => session.resume(entries));
    if (rung === "repaired") {
      readable(() => session.findTurn(finalized === null ? [] : upTo(finalized, entries)));
    }
  } else if (rung === "rebuilt") {
    session.seed(history.map(({ role, text }) => ({ role, content: [{ type: "text", text: wellFormed(text) }] })));
  }
  return session;
}

class LanggraphSession implements EngineSession {
  readonly #context: SessionContext;
  readonly #saver: TranscriptSaver;
  readonly #model: ModelCaller;
  readonly #graphParts: GraphParts;
  #builtGraph: AgentGraph | null = null;
  readonly #recursionLimit: number;
  #scope: StepScope | null = null;
  /** Messages a rebuilt session starts with; they enter the state with the first input. */
  #seed: readonly Message[] = [];
  /** Where the turn begins that is to be gone on with. */
  #turnBegin = 0;

  constructor(context: SessionContext, parts: SessionParts) {
    this.#context = context;
    const { slotToken, gates, snapshot } = context;
    this.#saver = this.#newSaver();
    this.#model = new ModelCaller(new ModelClient(parts.connections, gates.model, slotToken), snapshot);
    this.#graphParts = {
      model: this.#model,
      tools: new ToolClient(parts.connections, { toolUrl: gates.tool, slotToken }, parts.client),
      saver: this.#saver,
      scope: () => this.#running(),
    };
    this.#recursionLimit = SUPERSTEPS_PER_MODEL_CALL * snapshot.limits.modelCallCount;
  }

  /** Built when it is first needed, which is after the first token. */
  #graph(): AgentGraph {
    this.#builtGraph ??= buildGraph(this.#graphParts);
    return this.#builtGraph;
  }

  get leaf(): string | null {
    return this.#saver.leaf(this.#context.conversationId);
  }

  resume(entries: readonly TranscriptEntry[]): void {
    this.#saver.load(this.#context.conversationId, entries);
  }

  /** `finished` are the entries up to the end of the turn before. Throws when there is no turn to go on with. */
  findTurn(finished: readonly TranscriptEntry[]): void {
    const { conversationId } = this.#context;
    const before = this.#newSaver();
    before.load(conversationId, finished);
    this.#turnBegin = beginOfTurn(this.#messages(), messagesOf(before, conversationId));
  }

  seed(messages: readonly Message[]): void {
    this.#seed = messages;
  }

  rebind(): void {
    // The slot is the same and its row says which generation it is bound to: nothing here carries the number.
  }

  step(input: StepInput, emit: Emit, signal: AbortSignal): Promise<StepResult> {
    return input.kind === "recover" ? this.#recover(input, emit, signal) : this.#begin(input, emit, signal);
  }

  async #begin(
    input: Exclude<StepInput, { readonly kind: "recover" }>,
    emit: Emit,
    signal: AbortSignal,
  ): Promise<StepResult> {
    const scope = new StepScope({ emit, signal, newItemId: () => this.#context.newItemId() });
    const messages = [
      ...this.#seed,
      userMessage(input.kind === "message" ? input.parts.map(wellFormed) : [input.reason]),
    ];
    const before = { leaf: this.leaf, count: this.#messages().length };
    const taken = (): boolean => this.#messages().length > before.count;
    this.#saver.hold();
    const result = await this.#within(scope, {
      work: async () => {
        await this.#run([...this.#messages(), ...messages], { messages }, scope);
        this.#seed = [];
      },
      untaken: () => (taken() ? [] : messages),
    });
    return { ...result, leaf: this.leaf === before.leaf ? null : this.leaf };
  }

  /** Goes on with the turn that another worker left; its message is in the state already. */
  async #recover(
    input: Extract<StepInput, { readonly kind: "recover" }>,
    emit: Emit,
    signal: AbortSignal,
  ): Promise<StepResult> {
    const scope = new StepScope({ emit, signal, newItemId: () => this.#context.newItemId() });
    const result = await this.#within(scope, {
      work: async () => {
        const turn = await this.#repaired(scope.signal);
        const { gone, unseen } = compareShown(saidIn(turn.messages.slice(turn.begin)), input.shown);
        for (const { itemId } of gone) {
          await scope.emit({ type: "text.retracted", itemId, cause: "not_continued" });
        }
        for (const { kind, text } of unseen) {
          await scope.emit({ type: `${kind}.completed`, itemId: this.#context.newItemId(), text });
        }
        if (turn.answer === null) {
          await this.#run(turn.messages, null, scope);
        } else {
          scope.answer = answerOf(turn.answer);
        }
      },
      untaken: () => [],
    });
    // What was there before this step is of its turn as well.
    return { ...result, leaf: this.leaf };
  }

  /** The state with every call answered and nothing torn at its end; durable when it had to be changed. */
  async #repaired(signal: AbortSignal): Promise<UnfinishedTurn> {
    const graph = this.#graph();
    const place = this.#place();
    const state = await graph.getState(place);
    if (state.tasks.some((each) => each.name === "tools")) {
      await graph.updateState(place, { messages: [] }, "tools");
    }
    const before = this.#messages();
    const { transcript: ledger, snapshot } = this.#context;
    const turn = await repairedTurn(before, this.#turnBegin, (calls) =>
      resultsOfLostCalls(calls, { ledger, snapshot, tools: this.#graphParts.tools, signal }),
    );
    const goesOn = turn.answer !== null || (await graph.getState(place)).next.join() === "model";
    if (turn.messages.length !== before.length || !goesOn) {
      await graph.updateState(place, { messages: { instead: turn.messages } }, "tools");
    }
    return turn;
  }

  /** The frame of every step: whatever its work ends with is a result. */
  async #within(
    scope: StepScope,
    step: { readonly work: () => Promise<void>; readonly untaken: () => readonly Message[] },
  ): Promise<StepResult> {
    this.#scope = scope;
    try {
      await step.work();
      return answered(scope);
    } catch (thrown) {
      this.#saver.release();
      const told = cancelOf(thrown);
      return scope.signal.aborted || told !== null
        ? { ...(await this.#interrupted(scope, step.untaken())), error: scope.signal.aborted ? null : told }
        : await this.#failed(thrown, scope);
    } finally {
      scope.close();
      this.#saver.release();
      this.#scope = null;
    }
  }

  deliver(input: DeliveredInput): boolean {
    return this.#scope?.deliver(input) ?? false;
  }

  async checkpoint(): Promise<CheckpointHeader> {
    const { conversationId } = this.#context;
    await this.#saver.flush(conversationId);
    return {
      schemaVersion: STATE_SCHEMA_VERSION,
      leaf: this.leaf,
      sizeBytes: this.#saver.sizeBytes(conversationId),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#saver.idle(this.#context.conversationId);
  }

  /** `all` is what the model is asked with first: the state, and what `input` adds to it. */
  async #run(
    all: readonly Message[],
    input: { readonly messages: readonly Message[] } | null,
    scope: StepScope,
  ): Promise<void> {
    await scope.askAhead(all.length, () => this.#model.call(all, scope, scope.signal));
    for (let turns = 0; turns < TURNS_UNTIL_SENT; turns += 1) {
      await turnOfEventLoop();
    }
    await this.#graph().invoke(input, {
      ...this.#place(),
      durability: "sync",
      signal: scope.signal,
      recursionLimit: this.#recursionLimit,
      maxConcurrency: CALLS_AT_ONCE_MAX,
    });
  }

  /**
   * Takes the state back to what is durable, with the results that came. Rejects with what nobody expected: the state
   * may be the cause, so nothing goes on from it here.
   */
  async #failed(thrown: unknown, scope: StepScope): Promise<StepResult> {
    const { conversationId } = this.#context;
    const error = errorOf(thrown, this.#context.snapshot);
    await scope.speaking?.complete();
    if (error === null) {
      throw thrown;
    }
    const answer = scope.speaking?.text ?? "";
    if (FENCED.has(error.code) || this.#saver.refused(conversationId)) {
      this.#context.onLost(error.code, error.detail);
      return failed({ code: error.code, detail: error.detail }, answer);
    }
    await this.#saver.rollback(conversationId);
    await this.#keep([]);
    return failed({ code: error.code, detail: error.detail }, answer);
  }

  /** Keeps what there is: the input, results that came, and the partial answer. */
  async #interrupted(scope: StepScope, input: readonly Message[]): Promise<StepResult> {
    const { snapshot } = this.#context;
    await scope.speaking?.complete();
    const answer = scope.answer === null ? (scope.speaking?.text ?? "") : textOf(scope.answer.content);
    const partial: readonly Message[] =
      scope.answer !== null || answer.trim() === ""
        ? []
        : [{ role: "assistant", content: [{ type: "text", text: answer }], model: snapshot.model }];
    try {
      await this.#keep([...input, ...scope.takenAlong, ...partial]);
      this.#seed = [];
    } catch (thrown) {
      // A stale owner keeps nothing, and whoever found it stale ends this session.
      if (!(thrown instanceof PlatformError)) {
        throw thrown;
      }
    }
    return { ...NO_RESULT, outcome: "interrupted", answer };
  }

  /** Takes in what open nodes have written, and `unfinished` where the model was to speak; makes it durable. */
  async #keep(unfinished: readonly Message[]): Promise<void> {
    const { tasks: open } = await this.#graph().getState(this.#place());
    if (open.some((each) => each.name === "tools")) {
      await this.#graph().updateState(this.#place(), { messages: [] }, "tools");
    } else if (unfinished.length > 0) {
      await this.#graph().updateState(this.#place(), { messages: unfinished }, "model");
    } else {
      await this.#saver.flush(this.#context.conversationId);
    }
  }

  /** The messages of the newest checkpoint. */
  #messages(): readonly Message[] {
    return messagesOf(this.#saver, this.#context.conversationId);
  }

  #newSaver(): TranscriptSaver {
    const salt = randomBytes(SALT_BYTES).toString("base64url");
    return new TranscriptSaver({ logOf: () => this.#context.transcript, salt, keep: "newest" });
  }

  #place() {
    return { configurable: { thread_id: this.#context.conversationId } };
  }

  #running(): StepScope {
    if (this.#scope === null) {
      throw new PlatformError("engine_failed", "A node ran outside of a step.");
    }
    return this.#scope;
  }
}

function messagesOf(saver: TranscriptSaver, conversationId: string): readonly Message[] {
  // The channel is written by the graph alone.
  return (saver.newestValue(conversationId, "messages") ?? []) as readonly Message[];
}

/** Whatever is wrong with a stored transcript, it is the transcript that is wrong: the platform then rebuilds it. */
function readable(read: () => void): void {
  try {
    read();
  } catch (cause) {
    throw cause instanceof PlatformError
      ? cause
      : new PlatformError("transcript_corrupt", "The transcript cannot be read.", { cause });
  }
}
