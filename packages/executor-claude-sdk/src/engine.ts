/**
 * One engine process and the way in and out of it: messages go in one at a time, what it says comes out in order; it
 * can be asked to stop a turn, and it is left so that nothing remains. Ending it is a ladder: the turn is interrupted,
 * the input closed, the process group killed, and each rung has its limit.
 */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import type { McpServerStatus, Options, Query, SDKMessage, SDKUserMessage } from "@anthropic-ai/claude-agent-sdk";
import { PlatformError } from "@signalbox/contract";
import { EngineProcess, type DeathTie } from "./engine-process.ts";
import type { Sdk } from "./installation.ts";
import { LIMITS } from "./limits.ts";
import { MessageInput } from "./message-input.ts";
import { settlesWithin } from "./time-limit.ts";

export interface EngineStart {
  readonly sdk: Sdk;
  readonly options: Options;
  readonly tie: DeathTie;
  /** Called when the process ended although nobody asked it to, with how it did and its last words. */
  readonly onDeath: (report: string) => void;
}

interface Parts {
  readonly query: Query;
  readonly input: MessageInput;
  readonly process: EngineProcess;
  readonly ending: { isExpected: boolean };
}

export class Engine {
  readonly #parts: Parts;
  readonly #output: AsyncIterator<SDKMessage>;

  private constructor(parts: Parts) {
    this.#parts = parts;
    this.#output = parts.query[Symbol.asyncIterator]();
  }

  /** Starts the process and waits until it could take a message. Nothing has been sent to a model by then. */
  static async start(start: EngineStart): Promise<Engine> {
    const ending = { isExpected: false };
    const started: { process: EngineProcess | null } = { process: null };
    const spawnClaudeCodeProcess: NonNullable<Options["spawnClaudeCodeProcess"]> = ({ cwd, ...request }) => {
      const process = new EngineProcess({ ...request, cwd }, start.tie);
      process.child.on("exit", (code, signal) => {
        if (!ending.isExpected) {
          start.onDeath(`${signal ?? `code ${String(code)}`} ${process.complaints}`.trim());
        }
      });
      started.process = process;
      return process.child;
    };
    try {
      const warm = await start.sdk.startup({
        options: { ...start.options, spawnClaudeCodeProcess },
        initializeTimeoutMs: LIMITS.startMs,
      });
      assert(started.process !== null, "the engine answered without a process of ours");
      const input = new MessageInput();
      return new Engine({ query: warm.query(input), input, process: started.process, ending });
    } catch (cause) {
      ending.isExpected = true;
      started.process?.kill();
      await started.process?.isGone(LIMITS.killMs);
      started.process?.release();
      throw new PlatformError("engine_failed", "The engine process could not be started.", { cause });
    }
  }

  /** The end of what the process wrote to its error output. */
  get lastWords(): string {
    return this.#parts.process.complaints;
  }

  send(message: SDKUserMessage): void {
    this.#parts.input.push(message);
  }

  /** The next thing it says, or `null` when it will say no more. */
  async next(): Promise<SDKMessage | null> {
    try {
      const step = await this.#output.next();
      return step.done === true ? null : step.value;
    } catch {
      // The process has ended; how is told by `onDeath`, and what the turn came to by what it said before.
      return null;
    }
  }

  /** Waits, within a limit, for the engine to have connected its tool server. */
  async toolServerStatus(name: string): Promise<McpServerStatus["status"]> {
    const deadlineMs = performance.now() + LIMITS.toolConnectMs;
    for (;;) {
      const servers = await this.#parts.query.mcpServerStatus();
      const status = servers.find((server) => server.name === name)?.status ?? "failed";
      if (status !== "pending" || performance.now() > deadlineMs) {
        return status;
      }
      await delay(LIMITS.toolConnectPollMs);
    }
  }

  /**
   * Asks the running turn to stop, again and again until `ended` settles. Whether it did; if it did not within the
   * limit, the process has been killed.
   */
  async interrupt(ended: Promise<unknown>): Promise<boolean> {
    const deadlineMs = performance.now() + LIMITS.interruptMs;
    while (performance.now() < deadlineMs) {
      // A process that hangs does not answer, so the answer itself is not waited for.
      const asked = this.#parts.query.interrupt().catch(() => undefined);
      if (await settlesWithin(ended, LIMITS.interruptRepeatMs)) {
        // Read before the next message is sent, it cannot stop that one's turn.
        await settlesWithin(asked, LIMITS.interruptRepeatMs);
        return true;
      }
    }
    this.kill();
    return false;
  }

  /** Kills the process group at once. */
  kill(): void {
    this.#parts.ending.isExpected = true;
    this.#parts.process.kill();
  }

  /** Resolves when the process is gone: by itself if it leaves in time, killed otherwise. */
  async leave(): Promise<void> {
    const { ending, input, query, process } = this.#parts;
    ending.isExpected = true;
    input.close();
    query.close();
    if (!(await process.isGone(LIMITS.closeMs))) {
      process.kill();
      await process.isGone(LIMITS.killMs);
    }
    process.release();
  }
}
