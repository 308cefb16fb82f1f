/** Short ways to the situations that the suite looks at. */
import { createHash, randomBytes } from "node:crypto";
import {
  canonicalJson,
  makeId,
  NO_USAGE,
  snapshotHashText,
  uuidV7Bytes,
  type Actor,
  type IdKind,
  type ModelCallId,
  type OwnerEvent,
  type RunId,
  type Snapshot,
  type TurnId,
} from "@signalbox/contract";
import type {
  AdmitCommand,
  CallVerdict,
  Conclusion,
  Finalization,
  Ownership,
  Proposal,
  TranscriptRow,
} from "@signalbox/core";
import { expect } from "vitest";
import type { BenchConversation, BenchProcess, RecordBench, Started } from "./bench.ts";

export const ACTOR: Actor = { keyId: "key_1", user: null, roles: [], units: [] };

export function newId<K extends IdKind>(kind: K): ReturnType<typeof makeId<K>> {
  return makeId(kind, uuidV7Bytes(Date.now(), randomBytes(10)));
}

export const TURN: TurnId = newId("turn");

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function snapshotOf(place: BenchConversation): Snapshot {
  const tool = (server: string, name: string, effect: "read" | "irreversible") => ({
    name: `${server}__${name}`,
    server,
    tool: name,
    title: name,
    description: name,
    effect,
    definitionHash: sha256(name),
    inputSchema: { type: "object" },
  });
  return {
    agentId: place.agentId,
    agentName: "support",
    revision: 1,
    runtime: place.runtime,
    instructions: "Help.",
    model: "sim/echo",
    maxOutputTokens: 1_000,
    tools: [tool("files", "read", "read"), tool("pay", "refund", "irreversible")],
    limits: { modelCallCount: 100, toolCallCount: 100, wallClockMs: 3_600_000 },
  };
}

export function command(place: BenchConversation, changes: Partial<AdmitCommand> = {}): AdmitCommand {
  const snapshot = snapshotOf(place);
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

/** A message in a conversation of its own, claimed by this process on the way, with a slot. */
export async function start(bench: RecordBench, process: BenchProcess): Promise<Started> {
  return await startIn(await bench.conversation(), process);
}

export async function startIn(place: BenchConversation, process: BenchProcess): Promise<Started> {
  const admission = await process.admission.admit(command(place, { claimFor: process.incarnation }));
  expect(admission.claim).not.toBeNull();
  return await bind(place, process.owners.adopt(admission.claim!));
}

export async function bind(place: BenchConversation, ownership: Ownership): Promise<Started> {
  const tokenHash = sha256(randomBytes(32).toString("hex"));
  await ownership.bindSlot({ tokenHash, workerId: "w1" });
  return { place, runId: ownership.claim.runId, ownership, tokenHash };
}

export async function claimOne(process: BenchProcess, place: BenchConversation): Promise<Ownership> {
  const room = { [place.runtime]: 100 };
  const claimed = await process.owners.claim({ process: process.incarnation, room, limit: 100 });
  const mine = claimed.find(({ claim }) => claim.conversationId === place.conversationId);
  expect(mine).toBeDefined();
  return mine!;
}

export async function openModel(process: BenchProcess, tokenHash: string): Promise<ModelCallId> {
  const modelCallId = newId("modelCall");
  const call = {
    tokenHash,
    modelCallId,
    process: process.incarnation,
    wire: "anthropic",
    requestedModel: "sim/echo",
  } as const;
  await process.gates.openModelCall({ ...call, requestBytes: 10, rules: [] });
  return modelCallId;
}

export function settlement(modelCallId: ModelCallId, proposals: readonly Proposal[] = []) {
  return {
    modelCallId,
    state: "succeeded" as const,
    servedModel: "echo",
    usage: { ...NO_USAGE, inputTokens: 3, outputTokens: 4 },
    costMicros: 5,
    priceVersion: "v1",
    stopReason: "end_turn",
    errorCode: null,
    proposals,
  };
}

export async function propose(
  process: BenchProcess,
  tokenHash: string,
  proposals: readonly Proposal[],
): Promise<boolean> {
  const modelCallId = await openModel(process, tokenHash);
  return (await process.gates.settleModelCall(settlement(modelCallId, proposals))).proposalsAccepted;
}

export function proposal(changes: Partial<Proposal> & { readonly effect?: Proposal["effect"] } = {}): Proposal {
  const argumentsJson = changes.argumentsJson ?? canonicalJson({ path: "a.txt" });
  const [server, tool] = changes.effect === "irreversible" ? ["pay", "refund"] : ["files", "read"];
  return {
    toolCallId: newId("toolCall"),
    toolUseId: `toolu_${randomBytes(8).toString("hex")}`,
    name: `${server}__${tool}`,
    server,
    tool,
    effect: "read",
    definitionHash: sha256(tool ?? ""),
    argumentsJson,
    argumentsDigest: sha256(argumentsJson),
    callDigest: null,
    judged: null,
    ...changes,
  };
}

export function openTool(process: BenchProcess, tokenHash: string, { toolUseId, name, argumentsDigest }: Proposal) {
  const intent = { tokenHash, process: process.incarnation, toolUseId, name, argumentsDigest };
  return process.gates.openToolCall({ ...intent, policyVersion: null });
}

export function toolOutcome({ toolCallId }: Proposal, state: "succeeded" | "failed" | "unknown" = "succeeded") {
  return { toolCallId, state, resultJson: `"${state}"`, resultSummary: state, errorCode: null };
}

export function text(
  words: string,
  changes: { readonly itemId?: string; readonly revision?: number } = {},
): OwnerEvent {
  return { type: "text.completed", itemId: newId("item"), revision: 1, data: { text: words }, ...changes };
}

export function entry(entryId: string, body = entryId): TranscriptRow {
  return { kind: "item", entryId, stream: "", body: new TextEncoder().encode(body) };
}

export function conclusion(ownership: Ownership, changes: Partial<Conclusion> = {}): Conclusion {
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

export function finalization(changes: Partial<Finalization> = {}): Finalization {
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

/** Seals and finishes with what was sealed. */
export async function finish(ownership: Ownership, changes: Partial<Finalization> = {}): Promise<RunId | null> {
  const { leaf, digest } = await ownership.seal(conclusion(ownership, { rung: changes.rung ?? "fresh" }));
  const continuity = leaf === null ? "kept" : "moved";
  return (await ownership.finish(finalization({ continuity, leaf, digest, ...changes }))).nextRunId;
}

export async function load(process: BenchProcess, tokenHash: string): Promise<readonly string[]> {
  const ids: string[] = [];
  for await (const page of process.gates.loadTranscript(tokenHash)) ids.push(...page.map((row) => row.entryId));
  return ids;
}

export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "accepted";
  } catch (thrown) {
    return thrown instanceof Error && "code" in thrown ? String(thrown.code) : String(thrown);
  }
}

/** As the gate of a model records it: with what its policy says of the call. */
export function judged(call: Proposal, verdict: CallVerdict, policyVersion = "policy-1"): Proposal {
  const callDigest = sha256(`${call.name} ${call.argumentsJson}`);
  return { ...call, callDigest, judged: { ...verdict, callDigest, policyVersion } };
}
