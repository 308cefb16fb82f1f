/**
 * The policy in place as the judge of a message's calls: it reads what the policy needs to know of the run, and nothing
 * where it needs nothing. Whatever fails here has denied every call of the message.
 */
import { PlatformError, type Posture } from "@signalbox/contract";
import {
  assembleFacts,
  callToJudge,
  callVerdict,
  isPendingCall,
  judgeBatch,
  wordAbout,
  type BatchCall,
  type CallToJudge,
  type CallVerdict,
  type Clock,
  type JsonObject,
  type KeptFacts,
  type PolicyRecord,
  type RunFacts,
  type ToolBatch,
  type ToolClassification,
  type ToolDecision,
  type ToolJudge,
  type ToolPolicy,
  type ToolWord,
  type ToolWords,
} from "@signalbox/core";
import type { PolicySource } from "./policy-source.ts";

export interface PolicyJudgeParts {
  readonly source: Pick<PolicySource, "version" | "current">;
  readonly record: Pick<PolicyRecord, "facts">;
  readonly words: ToolWords;
  /** Names what operators say of tools at the moment; when it is another one, calls are judged again. */
  readonly wordsVersion: () => string;
  readonly posture: Posture;
  readonly clock: Pick<Clock, "nowMs">;
}

type View = ToolBatch["view"];

export function createPolicyJudge(parts: PolicyJudgeParts): ToolJudge {
  const { source, wordsVersion } = parts;
  return {
    version: () => `${source.version()}.${wordsVersion()}`,
    async judge({ view, calls }) {
      const policy = await source.current();
      const asked = calls.filter(({ server, state }) => server !== null && isPendingCall(state));
      const judged = asked.map((call) => toJudge(parts, view, call));
      const facts = await factsOf(parts, { view, policy, judged });
      const decisions = judgeBatch(policy, judged, facts);
      const byCall = new Map(asked.map((call, index) => [call, decisions[index]]));
      return calls.map((call) => verdictOf(byCall.get(call)));
    },
  };
}

function toJudge({ words }: PolicyJudgeParts, view: View, call: BatchCall): CallToJudge {
  const { name, server, tool, definitionHash, toolCallId, argumentsJson } = call;
  const frozen = view.snapshot.tools.find((each) => each.name === name);
  const inputSchema = frozen?.inputSchema ?? {};
  const plain = { name, server: server ?? "", tool: tool ?? "", definitionHash: definitionHash ?? "", inputSchema };
  // Gates record objects only, as canonical JSON.
  const given = JSON.parse(argumentsJson) as JsonObject;
  return callToJudge(plain, { toolCallId, arguments: given }, wordAbout(frozen, words(plain.server, plain.tool)));
}

interface Asked {
  readonly view: View;
  readonly policy: ToolPolicy;
  readonly judged: readonly CallToJudge[];
}

async function factsOf(parts: PolicyJudgeParts, { view, policy, judged }: Asked): Promise<RunFacts> {
  const { run, tenantId, actor, snapshot } = view;
  if (run === null) throw new PlatformError("slot_unknown");
  const needs = judged.map((call) => policy.needsOf(call));
  const sources = needs.some((each) => each.sources);
  const history = needs.some((each) => each.history);
  // Ids of calls of this batch, as they came.
  const besides = judged.map(({ toolCallId }) => toolCallId as BatchCall["toolCallId"]);
  const kept: KeptFacts =
    sources || history
      ? await parts.record.facts({ runId: run.runId, besides, needs: { sources, history }, asOf: null })
      : { texts: [], areTextsCut: false, history: [], nowMs: parts.clock.nowMs() };
  const { agentName, runtime, instructions } = snapshot;
  const { words, posture } = parts;
  return assembleFacts({ run: { tenantId, actor, agentName, runtime, instructions }, kept, words, posture });
}

/** A decision of the policy as the gates carry it on; without one the call is denied. */
export function verdictOf(decision: ToolDecision | undefined): CallVerdict {
  if (decision === undefined) {
    return callVerdict({
      verdict: "deny",
      reason: "This call cannot be made any more, or its tool is not the agent's.",
    });
  }
  const { verdict, code, reason, rules, conditions, provenance } = decision;
  const approval = conditions.find((each) => each.kind === "approval");
  const carried = conditions.filter((each) => each.kind !== "approval");
  return callVerdict({
    verdict,
    code,
    reason,
    rules,
    ...(approval === undefined ? {} : { approver: approval.by ?? "anyone" }),
    ...(approval?.withinMs === undefined ? {} : { expiresInMs: approval.withinMs }),
    conditions: carried,
    origins: provenance,
  });
}

/** What operators say of tools, as the record keeps it. */
export function wordOf(said: ToolClassification): ToolWord {
  const { effect, isClassified, approve, isTrusted } = said;
  return { effect, isClassified, approve, isTrusted, unit: null, clearance: 0 };
}
