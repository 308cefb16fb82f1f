/** Joins policies to the store: versions, the one in place, and what each decides about calls that were recorded. */
import {
  canonicalJson,
  isId,
  PlatformError,
  type BackTest,
  type ExplainedCall,
  type KeptPolicy,
  type Posture,
  type RunId,
  type Snapshot,
  type ToolCallId,
  type ToolVerdict,
} from "@signalbox/contract";
import {
  assembleFacts,
  callToJudge,
  compilePolicy,
  explainDecision,
  historyWindowMs,
  judgeBatch,
  NO_WORD,
  wordAbout,
  type CallToJudge,
  type DecisionExplanation,
  type Digest,
  type JsonObject,
  type PolicyRecord,
  type RunFacts,
  type ToolDecision,
  type ToolPolicy,
  type ToolWord,
  type ToolWords,
} from "@signalbox/core";
import type { Scope } from "../api/api-record.ts";
import type { PolicyDesk } from "../api/policy-desk.ts";
import { defaultPolicy } from "../gates/policy-source.ts";
import type { PolicyQueries, PolicyRow } from "../store/queries/policy-queries.ts";
import type { RecordedCall } from "../store/statements/policy-statements.ts";
import { wireName } from "../tool-gate/tool-definition.ts";
import { timeOf, timeOrNull } from "./api-shapes.ts";
import { clientCallFacts } from "./client-call-facts.ts";
import { present } from "./present.ts";
import { simulatedFacts } from "./simulated-facts.ts";

export interface KnownTool {
  readonly word: ToolWord;
  readonly definitionHash: string;
  readonly inputSchema: JsonObject;
}

export interface PolicyParts {
  readonly queries: PolicyQueries;
  readonly record: PolicyRecord;
  readonly snapshot: (tenantId: string, hash: string) => Promise<Snapshot>;
  /** Tools of a tenant as they are pinned and classified now, by the name agents know them by. */
  readonly tools: (tenantId: string) => Promise<ReadonlyMap<string, KnownTool>>;
  readonly posture: Posture;
  readonly digest: Digest;
}

/** A back-test that takes longer answers with what it has. */
const BACK_TEST_MS = 20_000;

export function createPolicyDesk(parts: PolicyParts, monotonicMs: () => number): PolicyDesk {
  const { queries, digest } = parts;
  return {
    async create({ tenantId }, { id, document, actor }, once) {
      // Compiled before it is kept, so that whatever is kept can be put in place.
      compilePolicy(document, "");
      const text = canonicalJson(document);
      const row = { tenantId, policyId: id, hash: digest.sha256Hex(text), document: text, actor };
      const kept = await queries.create(
        row,
        once === null ? null : { ...once, answer: (made) => once.answer(shown(made)) },
      );
      return kept.kind === "replayed" ? kept : { kind: "created", value: shown(kept.value) };
    },
    policy: (scope, name) => find(parts, scope, name),
    async policies({ tenantId }, { limit, order, cursor = null }) {
      const page = await queries.list(tenantId, { limit, order, cursor });
      return { data: page.items.map(shown), nextCursor: page.nextCursor };
    },
    async activate(scope, { name, replaces, actor }, once) {
      const target = await find(parts, scope, name);
      const policyId = target.id === DEFAULT ? null : target.id;
      const wanted = replaces === undefined ? undefined : replaces === DEFAULT ? null : replaces;
      const activation = { tenantId: scope.tenantId, policyId, replaces: wanted, actor };
      const show = (row: PolicyRow | null): KeptPolicy => (row === null ? shipped(parts, true) : shown(row));
      const kept = await queries.activate(
        activation,
        once === null ? null : { ...once, answer: (row) => once.answer(show(row)) },
      );
      return kept.kind === "replayed" ? kept : { kind: "created", value: show(kept.value) };
    },
    async explain(scope, name, toolCallId) {
      const policy = await compiled(parts, scope, name);
      const asked = { scope, policy, gatewayCallId: toolCallId };
      if (isId("gatewayCall", toolCallId)) return explainClientCall(parts, asked);
      const which = { toolCallId, days: null, limit: 1 };
      const [call] = isId("toolCall", toolCallId) ? await queries.calls(scope.tenantId, which) : [];
      if (call === undefined) throw new PlatformError("not_found", "There is no tool call of this id.");
      const known = await knownOf(parts, { scope, tools: await parts.tools(scope.tenantId) }, call);
      return explained(explainDecision(policy, known.call, known.facts), call);
    },
    async simulate(scope, name, given) {
      const policy = await compiled(parts, scope, name);
      const known = (await parts.tools(scope.tenantId)).get(given.tool) ?? null;
      const { call, facts } = simulatedFacts(given, { known, tenantId: scope.tenantId, posture: parts.posture });
      return explained(explainDecision(policy, call, facts), { toolCallId: null, name: given.tool, state: null });
    },
    backTest: (scope, name, query) =>
      backTest(parts, { scope, name, untilMs: monotonicMs() + BACK_TEST_MS, monotonicMs }, query),
    keep: ({ tenantId }, once, value) => queries.keep(tenantId, once, value),
  };
}

/** Earlier calls of a client that are looked at. */
const CLIENT_HISTORY_COUNT = 2_000;
const DEFAULT = "default";
const CURRENT = "current";

async function find(parts: PolicyParts, { tenantId }: Scope, name: string): Promise<KeptPolicy> {
  const { queries } = parts;
  if (name === DEFAULT) return shipped(parts, (await queries.active(tenantId)) === null);
  if (name === CURRENT) {
    const row = await queries.active(tenantId);
    return row === null ? shipped(parts, true) : shown(row);
  }
  return shown(present(isId("policy", name) ? await queries.find(tenantId, name) : null));
}

async function compiled(parts: PolicyParts, scope: Scope, name: string): Promise<ToolPolicy> {
  const { document, hash } = await find(parts, scope, name);
  return compilePolicy(document, hash);
}

function shipped({ digest }: PolicyParts, active: boolean): KeptPolicy {
  const { id: hash, document } = defaultPolicy(digest);
  return { id: DEFAULT, hash, document, active, createdAt: null, createdBy: null, activatedAt: null };
}

function shown(row: PolicyRow): KeptPolicy {
  const { keyId, user } = row.createdBy;
  return {
    id: row.policyId,
    hash: row.hash,
    // Nothing is kept that was not compiled first.
    document: row.document as KeptPolicy["document"],
    active: row.isActive,
    createdAt: timeOf(row.createdAtMs),
    createdBy: { keyId, user },
    activatedAt: timeOrNull(row.activatedAtMs),
  };
}

async function explainClientCall(
  { queries, tools, posture }: PolicyParts,
  asked: { readonly scope: Scope; readonly policy: ToolPolicy; readonly gatewayCallId: string },
): Promise<ExplainedCall> {
  const { policy, gatewayCallId } = asked;
  const { tenantId } = asked.scope;
  const windowMs = historyWindowMs(policy.document);
  const row = present(await queries.clientCall(tenantId, { gatewayCallId, windowMs, limit: CLIENT_HISTORY_COUNT }));
  const known = (await tools(tenantId)).get(row.name) ?? { word: NO_WORD, inputSchema: {} };
  const { call, facts } = clientCallFacts(row, { known, tenantId, posture });
  return explained(explainDecision(policy, call, facts), row);
}

interface Known {
  readonly call: CallToJudge;
  readonly facts: RunFacts;
}

interface Within {
  readonly scope: Scope;
  readonly tools: ReadonlyMap<string, KnownTool>;
}

/** A recorded call and its run, as they were when it was proposed, under what is said of tools today. */
async function knownOf(parts: PolicyParts, { scope: { tenantId }, tools }: Within, call: RecordedCall): Promise<Known> {
  const [snapshot, kept] = await Promise.all([
    parts.snapshot(tenantId, call.snapshotHash),
    parts.record.facts({
      // Ids of rows are ids of ours.
      runId: call.runId as RunId,
      besides: [call.toolCallId as ToolCallId],
      needs: { sources: true, history: true },
      asOf: call.toolCallId as ToolCallId,
    }),
  ]);
  const words = wordsOf(tools, parts.digest);
  const { agentName, runtime, instructions } = snapshot;
  const run = { tenantId, actor: call.actor, agentName, runtime, instructions };
  const tool = snapshot.tools.find(({ name }) => name === call.name);
  const definition = { ...call, definitionHash: call.definitionHash ?? "", inputSchema: tool?.inputSchema ?? {} };
  const given = { toolCallId: call.toolCallId, arguments: argumentsOf(call.argumentsJson) };
  const facts = assembleFacts({ run, kept, words, posture: parts.posture });
  return { call: callToJudge(definition, given, wordAbout(tool, words(call.server, call.tool))), facts };
}

function wordsOf(tools: ReadonlyMap<string, KnownTool>, digest: Digest): ToolWords {
  return (server, tool) => tools.get(wireName(server, tool, digest))?.word ?? NO_WORD;
}

function argumentsOf(json: string): JsonObject {
  const given: unknown = JSON.parse(json);
  // Gates record objects only.
  return typeof given === "object" && given !== null ? (given as JsonObject) : {};
}

function explained(
  explanation: DecisionExplanation,
  call: { readonly toolCallId: string | null; readonly name: string; readonly state: ExplainedCall["state"] },
): ExplainedCall {
  const { decision, rules, facts, wouldChange } = explanation;
  return {
    toolCallId: call.toolCallId,
    tool: call.name,
    state: call.state,
    decision: {
      ...decision,
      rules: [...decision.rules],
      conditions: [...decision.conditions],
      provenance: [...decision.provenance],
    },
    rules: [...rules],
    facts,
    wouldChange: [...wouldChange],
  };
}

interface Tried {
  readonly scope: Scope;
  readonly name: string;
  readonly untilMs: number;
  readonly monotonicMs: () => number;
}

async function backTest(
  parts: PolicyParts,
  { scope, name, untilMs, monotonicMs }: Tried,
  { days, limit }: { readonly days: number; readonly limit: number },
): Promise<BackTest> {
  const [tried, inPlace] = [await find(parts, scope, name), await find(parts, scope, CURRENT)];
  const policies = [tried, inPlace].map(({ document, hash }) => compilePolicy(document, hash));
  const which = { toolCallId: null, days, limit: limit + 1 };
  const [calls, tools] = await Promise.all([parts.queries.calls(scope.tenantId, which), parts.tools(scope.tenantId)]);
  const differences: Record<ToolVerdict, BackTest["newlyAllowed"]> = { allow: [], ask: [], deny: [] };
  const verdicts = { allow: 0, ask: 0, deny: 0 };
  let callCount = 0;
  for (const call of calls.slice(0, limit)) {
    if (monotonicMs() > untilMs) break;
    callCount += 1;
    const { call: asked, facts } = await knownOf(parts, { scope, tools }, call);
    const [now, before] = policies.map((policy) => judgeBatch(policy, [asked], facts)[0]);
    if (now === undefined || before === undefined) continue;
    verdicts[now.verdict] += 1;
    if (now.verdict !== before.verdict) differences[now.verdict].push(difference(call, now, before));
  }
  return {
    policyId: tried.id,
    comparedWith: inPlace.id,
    callCount,
    isCut: callCount < calls.length,
    verdicts,
    newlyAllowed: differences.allow,
    newlyAsked: differences.ask,
    newlyDenied: differences.deny,
  };
}

function difference(call: RecordedCall, now: ToolDecision, before: ToolDecision): BackTest["newlyAllowed"][number] {
  return {
    toolCallId: call.toolCallId,
    runId: call.runId,
    tool: call.name,
    proposedAt: timeOf(call.proposedAtMs),
    was: before.verdict,
    wouldBe: now.verdict,
    rules: [...now.rules],
    reason: now.reason,
  };
}
