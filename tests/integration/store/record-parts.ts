/** Commands, conclusions and proposals as flows and gates would make them, and short ways to a running run. */
import { createHash, randomBytes } from "node:crypto";
import {
  canonicalJson,
  makeId,
  snapshotHashText,
  uuidV7Bytes,
  type Actor,
  type AgentId,
  type ConversationId,
  type IdKind,
  type ModelCallId,
  type OwnerEvent,
  type RunId,
  type Snapshot,
} from "@signalbox/contract";
import type { Admission, AdmitCommand, Conclusion, Finalization, Ownership, Proposal } from "@signalbox/core";
import { expect } from "vitest";
import type { RecordProcess } from "./record-world.ts";

export const ACTOR: Actor = { keyId: "key_1", user: null, roles: [], units: [] };

export function newId<K extends IdKind>(kind: K): ReturnType<typeof makeId<K>> {
  return makeId(kind, uuidV7Bytes(Date.now(), randomBytes(10)));
}

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

export interface ConversationPlace {
  readonly tenantId: string;
  readonly conversationId: ConversationId;
  readonly agentId: AgentId;
  readonly runtime: string;
}

export function snapshotOf(place: ConversationPlace, limits: Partial<Snapshot["limits"]> = {}): Snapshot {
  return {
    agentId: place.agentId,
    agentName: "support",
    revision: 1,
    runtime: place.runtime,
    instructions: "Help.",
    model: "sim/echo",
    maxOutputTokens: 1_000,
    tools: [],
    limits: { modelCallCount: 100, toolCallCount: 100, wallClockMs: 3_600_000, ...limits },
  };
}

export function commandFor(place: ConversationPlace, changes: Partial<AdmitCommand> = {}): AdmitCommand {
  const snapshot = changes.snapshot ?? snapshotOf(place);
  return {
    tenantId: place.tenantId,
    conversationId: place.conversationId,
    messageId: newId("message"),
    runId: newId("run"),
    actor: ACTOR,
    text: "hello",
    metadata: {},
    whenBusy: "enqueue",
    snapshot,
    snapshotHash: sha256(snapshotHashText(snapshot)),
    requested: {},
    granted: {},
    traceId: randomBytes(16).toString("hex"),
    idempotency: null,
    queueLimit: 20,
    minuteLimit: 1_000,
    tenantLimit: 1_000,
    steerable: ["scripted"],
    claimFor: null,
    ...changes,
  };
}

/** A run of this conversation that the process owns. */
export async function startedRun(
  process: RecordProcess,
  place: ConversationPlace,
  changes: Partial<AdmitCommand> = {},
): Promise<{ readonly admission: Admission; readonly ownership: Ownership }> {
  const admission = await process.admission.admit(commandFor(place, { claimFor: process.incarnation, ...changes }));
  expect(admission.claim).not.toBeNull();
  return { admission, ownership: process.owners.adopt(admission.claim!) };
}

export function conclusionOf(ownership: Ownership, changes: Partial<Conclusion> = {}): Conclusion {
  return {
    generation: ownership.claim.generation,
    ending: "done",
    answer: "an answer",
    stopReason: "end_turn",
    leaf: null,
    servedModel: "echo",
    rung: "fresh",
    error: null,
    ...changes,
  };
}

export function finalizationOf(changes: Partial<Finalization> = {}): Finalization {
  return {
    outcome: "completed",
    reason: "answered",
    error: null,
    answer: { messageId: newId("message"), text: "an answer", partial: false },
    rung: "fresh",
    continuity: "kept",
    leaf: null,
    digest: null,
    servedModel: "echo",
    ...changes,
  };
}

export async function finishRun(ownership: Ownership, changes: Partial<Finalization> = {}): Promise<RunId | null> {
  const seal = await ownership.seal(conclusionOf(ownership, { rung: changes.rung ?? "fresh" }));
  const continuity = seal.leaf === null ? "kept" : "moved";
  const { leaf, digest } = seal;
  const { nextRunId } = await ownership.finish(finalizationOf({ continuity, leaf, digest, ...changes }));
  return nextRunId;
}

export function textEvent(text: string, revision = 1, itemId: string = newId("item")): OwnerEvent {
  return { type: "text.completed", itemId, revision, data: { text } };
}

export const TURN = newId("turn");

export function proposalOf(changes: Partial<Proposal> = {}): Proposal {
  const argumentsJson = changes.argumentsJson ?? canonicalJson({ path: "a.txt" });
  return {
    toolCallId: newId("toolCall"),
    toolUseId: `toolu_${randomBytes(8).toString("hex")}`,
    name: "files__read",
    server: "files",
    tool: "read",
    effect: "read",
    definitionHash: sha256("definition"),
    argumentsJson,
    argumentsDigest: sha256(argumentsJson),
    callDigest: null,
    judged: null,
    ...changes,
  };
}

export function modelSettlement(modelCallId: ModelCallId, proposals: readonly Proposal[] = []) {
  return {
    modelCallId,
    state: "succeeded" as const,
    servedModel: "echo",
    usage: { inputTokens: 10, outputTokens: 5, cacheReadTokens: 2, cacheWriteTokens: 1 },
    costMicros: 7,
    priceVersion: "v1",
    stopReason: "end_turn",
    errorCode: null,
    proposals,
  };
}

export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "accepted";
  } catch (thrown) {
    return thrown instanceof Error && "code" in thrown ? String(thrown.code) : String(thrown);
  }
}
