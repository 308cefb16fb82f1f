/** Where a play is played: one step of the scripted engine, with its items, its gates and its interrupt. */
import { existsSync, watch, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@signalbox/contract";
import {
  ModelClient,
  ToolClient,
  type DeliveredInput,
  type GateConnections,
  type SessionContext,
  type StepEvent,
} from "@signalbox/worker";
import { AgentLoop } from "./agent-loop.ts";
import type { Action } from "./play.ts";

export type Emit = (event: StepEvent) => Promise<void> | void;

export interface StageParts {
  readonly context: SessionContext;
  readonly connections: GateConnections;
  readonly emit: Emit;
  readonly signal: AbortSignal;
  readonly parts: readonly string[];
  readonly rememberedCount: number;
}

export class Stage {
  stopReason = "end_turn";
  servedModel = "scripted";
  readonly #parts: StageParts;
  readonly #inbox: DeliveredInput[] = [];
  #onInput: () => void = () => undefined;
  #itemId: string | null = null;
  #text = "";

  constructor(parts: StageParts) {
    this.#parts = parts;
  }

  /** Text of the last item, which is the answer. */
  get text(): string {
    return this.#text;
  }

  async play(actions: readonly Action[]): Promise<void> {
    for (const action of actions) {
      this.#parts.signal.throwIfAborted();
      await this.#act(action);
    }
  }

  /** Closes the open item, if there is one. */
  async close(): Promise<void> {
    if (this.#itemId !== null) {
      await this.#parts.emit({ type: "text.completed", itemId: this.#itemId, text: this.#text });
      this.#itemId = null;
    }
  }

  async say(text: string): Promise<void> {
    if (this.#itemId === null) {
      this.#itemId = this.#parts.context.newItemId();
      this.#text = "";
    }
    const offset = this.#text.length;
    this.#text += text;
    await this.#parts.emit({ type: "text.delta", itemId: this.#itemId, offset, text });
  }

  async #act(action: Action): Promise<void> {
    const { signal, context } = this.#parts;
    if ("say" in action) return this.#sayInPieces(action);
    if ("think" in action) return this.#think(action.think);
    if ("closeItem" in action) return this.close();
    if ("retract" in action) return this.#retract(action.retract);
    if ("sayRemembered" in action) return this.say(String(this.#parts.rememberedCount));
    if ("tool" in action) return this.#callTool(action);
    if ("model" in action) return this.#runLoop();
    if ("stop" in action) {
      this.stopReason = action.stop;
      return undefined;
    }
    if ("fail" in action) throw new PlatformError(action.fail, action.detail);
    if ("throw" in action) throw new Error(action.throw);
    if ("hang" in action) return hang(action.hang === "deaf" ? null : signal);
    if ("waitForFile" in action) return fileThere(action.waitForFile, signal);
    if ("takeInput" in action) return this.#takeInput();
    if ("crashAtInput" in action) {
      await this.#inputThere();
      if (existsSync(action.crashAtInput)) return undefined;
      writeFileSync(action.crashAtInput, "");
    }
    process.kill(process.pid, "SIGKILL");
    // The signal arrives at once; nothing may follow it.
    return hang(null).then(() => context.onLost("worker_lost", "the process was to die"));
  }

  async #sayInPieces(action: Extract<Action, { readonly say: string }>): Promise<void> {
    const { say, chunkChars = say.length, delayMs = 0, times = 1 } = action;
    for (let time = 0; time < times; time += 1) {
      for (let at = 0; at < say.length; at += chunkChars) {
        if (delayMs > 0) {
          await sleep(delayMs, undefined, { signal: this.#parts.signal });
        }
        this.#parts.signal.throwIfAborted();
        await this.say(say.slice(at, at + chunkChars));
      }
    }
  }

  async #think(text: string): Promise<void> {
    const itemId = this.#parts.context.newItemId();
    await this.#parts.emit({ type: "thinking.delta", itemId, offset: 0, text });
    await this.#parts.emit({ type: "thinking.completed", itemId, text });
  }

  async #retract(cause: string): Promise<void> {
    if (this.#itemId !== null) {
      await this.#parts.emit({ type: "text.retracted", itemId: this.#itemId, cause });
      this.#itemId = null;
      this.#text = "";
    }
  }

  async #callTool(action: Extract<Action, { readonly tool: string }>): Promise<void> {
    await this.#parts.emit({ type: "run.phase", phase: "using_tool" });
    const { signal } = this.#parts;
    const outcome = await this.#tools().call({ ...action, name: action.tool, signal });
    await this.say(outcome.content.map((block) => block.text ?? "").join(""));
  }

  async #runLoop(): Promise<void> {
    const { context, connections, signal, parts } = this.#parts;
    const loop = new AgentLoop({
      snapshot: context.snapshot,
      model: new ModelClient(connections, context.gates.model, context.slotToken),
      tools: this.#tools(),
      say: (text) => this.say(text),
      close: () => this.close(),
      signal,
    });
    const message = await loop.run(parts);
    this.stopReason = message.stopReason;
    this.servedModel = message.servedModel;
  }

  /** A message for the step that is being played. */
  deliver(input: DeliveredInput): boolean {
    this.#inbox.push(input);
    this.#onInput();
    return true;
  }

  async #inputThere(): Promise<void> {
    if (this.#inbox.length === 0) {
      const arrived = Promise.withResolvers<void>();
      this.#onInput = arrived.resolve;
      await Promise.race([arrived.promise, hang(this.#parts.signal)]);
    }
  }

  async #takeInput(): Promise<void> {
    const { emit } = this.#parts;
    await this.#inputThere();
    const input = this.#inbox.shift();
    if (input !== undefined) {
      await emit({ type: "input.consumed", messageId: input.messageId });
      await this.say(input.parts.join(" "));
    }
  }

  #tools(): ToolClient {
    const { connections, context } = this.#parts;
    const gate = { toolUrl: context.gates.tool, slotToken: context.slotToken };
    return new ToolClient(connections, gate, { name: "signalbox-scripted", version: "1" });
  }
}

function hang(signal: AbortSignal | null): Promise<void> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener("abort", () => reject(asError(signal.reason)), { once: true });
  });
}

async function fileThere(path: string, signal: AbortSignal): Promise<void> {
  const appeared = Promise.withResolvers<void>();
  const watcher = watch(dirname(path), (_kind, name) => {
    if (name === basename(path)) {
      appeared.resolve();
    }
  });
  const onAbort = (): void => appeared.reject(asError(signal.reason));
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    if (!existsSync(path)) {
      await appeared.promise;
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    watcher.close();
  }
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new PlatformError("run_cancelled");
}
