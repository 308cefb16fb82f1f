/** Gates as thin as they can be: an intent before, an outcome after, and in between the effect on the world outside. */
import { createHash } from "node:crypto";
import { makeId, NO_USAGE, PlatformError, uuidV7Bytes, type HoldId, type ModelCallId } from "@signalbox/contract";
import {
  judgeToolCall,
  type CallOutcome,
  type GateRecord,
  type HoldRecord,
  type Proposal,
  type TranscriptRow,
} from "@signalbox/core";
import type { Snapshot } from "@signalbox/contract";
import { collect } from "./collect.ts";
import type { Machine } from "./machine.ts";
import type { Asked } from "./plan.ts";

/** Something that happened outside and cannot be taken back. */
export interface Effect {
  readonly runId: string;
  readonly tool: string;
  readonly argumentsJson: string;
  readonly repeatable: boolean;
}

export interface PlannedCall {
  readonly name: string;
  readonly argumentsJson: string;
}

export interface GatesOptions {
  readonly record: GateRecord;
  readonly holds: HoldRecord;
  readonly machine: Machine;
  /** This process's incarnation while it is sure of its lease. */
  readonly process: () => number | null;
  readonly onEffect: (effect: Effect) => void;
}

export class SimGates {
  readonly #options: GatesOptions;
  /** Open model calls by the engine connection they came over. */
  readonly #open = new Map<ModelCallId, string>();

  constructor(options: GatesOptions) {
    this.#options = options;
  }

  async openModelCall(tokenHash: string, model: string, connection: string): Promise<ModelCallId> {
    const modelCallId = makeId("modelCall", this.#id());
    this.#open.set(modelCallId, connection);
    const process = this.#process();
    const intent = {
      tokenHash,
      modelCallId,
      process,
      wire: "anthropic",
      requestedModel: model,
      requestBytes: 1,
      rules: [],
    } as const;
    try {
      await this.#options.record.openModelCall(intent);
    } catch (thrown) {
      if (thrown instanceof PlatformError && thrown.code === "database_unavailable") {
        // The intent may be recorded all the same; the call was not made, and is closed as such.
        await this.settleModelCall(modelCallId, null);
      }
      throw thrown;
    }
    return modelCallId;
  }

  /** Asks a person, once: the same hold however often the turn is run. Answers whether nothing keeps the run. */
  async ask(tokenHash: string, holdId: HoldId, { expiresInMs }: Asked): Promise<boolean> {
    const process = this.#process();
    const request = {
      tokenHash,
      process,
      holdId,
      kind: "approval",
      subject: {},
      digest: null,
      expiresInMs,
    } as const;
    const { holds } = this.#options;
    return holds.isHoldOver(await holds.openHold(request));
  }

  /** An engine's connection is gone: what it had open is cut, and closed as such. */
  async hangUp(connection: string): Promise<void> {
    for (const [modelCallId, by] of this.#open) if (by === connection) await this.settleModelCall(modelCallId, null);
  }

  async settleModelCall(
    modelCallId: ModelCallId,
    message: {
      readonly snapshot: Snapshot;
      readonly calls: readonly (PlannedCall & { readonly toolUseId: string })[];
    } | null,
  ): Promise<boolean> {
    this.#open.delete(modelCallId);
    const settled = await this.#persistently(() =>
      this.#options.record.settleModelCall({
        modelCallId,
        state: message === null ? "failed" : "succeeded",
        servedModel: "sim/one",
        usage: NO_USAGE,
        costMicros: 0,
        priceVersion: null,
        stopReason: message === null ? null : "end_turn",
        errorCode: null,
        proposals: message === null ? [] : message.calls.map((call) => this.#proposal(message.snapshot, call)),
      }),
    );
    return settled.proposalsAccepted;
  }

  async callTool(tokenHash: string, call: PlannedCall & { readonly toolUseId: string }): Promise<string> {
    const { toolUseId, name, argumentsJson } = call;
    const { record, machine, onEffect } = this.#options;
    const process = this.#process();
    const grant = await record.openToolCall({
      tokenHash,
      process,
      toolUseId,
      name,
      argumentsDigest: digestOf(argumentsJson),
      policyVersion: null,
    });
    if (grant.kind === "judge") throw new PlatformError("policy_unavailable");
    if (grant.kind === "replay") return grant.resultJson;
    await machine.clock.sleep(machine.randomness.fraction() * 40);
    const repeatable = grant.effect === "read" || grant.effect === "egress_read";
    onEffect({ runId: grant.runId, tool: grant.tool, argumentsJson, repeatable });
    await machine.clock.sleep(machine.randomness.fraction() * 40);
    const resultJson = JSON.stringify({ content: [{ type: "text", text: `done ${argumentsJson}` }] });
    const { toolCallId } = grant;
    await this.#persistently(() =>
      record.settleToolCall({ toolCallId, state: "succeeded", resultJson, resultSummary: "done", errorCode: null }),
    );
    return resultJson;
  }

  appendTranscript(tokenHash: string, rows: readonly TranscriptRow[]): Promise<{ readonly leaf: string | null }> {
    return this.#options.record.appendTranscript(tokenHash, rows);
  }

  callOutcomes(tokenHash: string, toolUseIds: readonly string[]): Promise<readonly CallOutcome[]> {
    return this.#options.record.callOutcomes(tokenHash, toolUseIds);
  }

  async loadTranscript(tokenHash: string): Promise<readonly TranscriptRow[]> {
    return (await collect(this.#options.record.loadTranscript(tokenHash))).flat();
  }

  /** A gate that is not sure of its own lease denies. */
  #process(): number {
    const process = this.#options.process();
    if (process === null) throw new PlatformError("stale_generation");
    return process;
  }

  #proposal(snapshot: Snapshot, call: PlannedCall & { readonly toolUseId: string }): Proposal {
    const verdict = judgeToolCall(snapshot, call.name);
    const known = verdict.kind === "allow" ? verdict.value : null;
    return {
      toolCallId: makeId("toolCall", this.#id()),
      toolUseId: call.toolUseId,
      name: call.name,
      server: known?.server ?? null,
      tool: known?.tool ?? null,
      effect: known?.effect ?? "irreversible",
      definitionHash: known?.definitionHash ?? null,
      argumentsJson: call.argumentsJson,
      argumentsDigest: digestOf(call.argumentsJson),
      callDigest: null,
      judged: null,
    };
  }

  /** An outcome belongs to the call: the gate that opened it goes on until the record has it. */
  async #persistently<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (thrown) {
        if (!(thrown instanceof PlatformError) || thrown.code !== "database_unavailable") throw thrown;
      }
      await this.#options.machine.clock.sleep(200);
    }
  }

  #id(): Uint8Array {
    const { clock, randomness } = this.#options.machine;
    return uuidV7Bytes(clock.nowMs(), randomness.bytes(10));
  }
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
