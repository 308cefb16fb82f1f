/**
 * Intents of tool calls, and the calls of this gate that are begun and not yet closed. When the reply to an intent is
 * lost, the record may have begun the call all the same: nobody but this gate would ever close it, and nothing has left.
 */
import { asPlatformError, PlatformError, type RunId, type ToolCallId } from "@signalbox/contract";
import type { Log, ToolIntent } from "@signalbox/core";
import type { KeptRecord } from "../gates/kept-calls.ts";
import type { Settling } from "../gates/settling.ts";
import { errorResult } from "./tool-result.ts";

export interface BegunCallsPorts {
  readonly record: KeptRecord;
  readonly log: Log;
  readonly settling: Settling;
}

type KeptGrant = Awaited<ReturnType<KeptRecord["openToolCall"]>>;

const NOT_MADE = "The call was not made: the record went away when it was to begin. (database_unavailable)";

export class BegunCalls {
  readonly #ports: BegunCallsPorts;
  readonly #begun = new Set<ToolCallId>();
  /** How many intents of one call are under way. */
  readonly #asking = new Map<string, number>();

  constructor(ports: BegunCallsPorts) {
    this.#ports = ports;
  }

  /** As the record's `openToolCall`; what is granted is this gate's until `ended`. */
  async open(intent: ToolIntent, runId: RunId | null): Promise<KeptGrant> {
    const { toolUseId, name, argumentsDigest } = intent;
    const key = JSON.stringify([runId, toolUseId, name, argumentsDigest]);
    this.#asking.set(key, this.#askingCount(key) + 1);
    try {
      const grant = await this.#ports.record.openToolCall(intent);
      if (grant.kind === "execute") this.#begun.add(grant.toolCallId);
      return grant;
    } catch (thrown) {
      if (runId !== null && asPlatformError(thrown).facts.retryable) await this.#withdraw(intent, { runId, key });
      throw thrown;
    } finally {
      const left = this.#askingCount(key) - 1;
      if (left > 0) this.#asking.set(key, left);
      else this.#asking.delete(key);
    }
  }

  ended(toolCallId: ToolCallId): void {
    this.#begun.delete(toolCallId);
  }

  #askingCount(key: string): number {
    return this.#asking.get(key) ?? 0;
  }

  /** Never rejects: the intent has failed already. */
  async #withdraw(intent: ToolIntent, { runId, key }: { readonly runId: RunId; readonly key: string }): Promise<void> {
    const { record, log, settling } = this.#ports;
    const settle = async (): Promise<void> => {
      const { process, toolUseId, name, argumentsDigest } = intent;
      const found = await record.begunToolCalls({ runId, process, toolUseId, name, argumentsDigest });
      const unanswered = found.filter((toolCallId) => !this.#begun.has(toolCallId));
      if (unanswered.length === 0) return;
      // It may be granted to another request for the same call whose reply is still on its way.
      if (this.#askingCount(key) > 1) throw new PlatformError("database_unavailable");
      const { json: resultJson, summary: resultSummary } = errorResult(NOT_MADE);
      const outcome = { state: "failed", errorCode: "database_unavailable", resultJson, resultSummary } as const;
      for (const toolCallId of unanswered) await record.settleToolCall({ ...outcome, toolCallId });
    };
    await settling
      .firmly(settle)
      .catch((lost: unknown) =>
        log.error("an intent of a tool call may be left open", lost, { runId, toolUseId: intent.toolUseId }),
      );
  }
}
