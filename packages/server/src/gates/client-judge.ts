/**
 * The policy in place as the judge of calls that clients make by themselves. What cannot be known of a client counts
 * against its call, in words it can read; whatever fails here has denied the call.
 */
import type { Actor, GatewayCallId, Posture } from "@signalbox/contract";
import {
  assembleClientFacts,
  callToJudge,
  callVerdict,
  historyWindowMs,
  isWithinReach,
  judgeBatch,
  LIMITS,
  POLICY_UNAVAILABLE,
  type CallToJudge,
  type CallVerdict,
  type ClientHistory,
  type Clock,
  type GatewayRecord,
  type JsonObject,
  type Log,
  type ToolPolicy,
  type ToolWords,
} from "@signalbox/core";
import { verdictOf } from "./policy-judge.ts";
import type { PolicySource } from "./policy-source.ts";

export interface ClientJudgeParts {
  readonly source: Pick<PolicySource, "version" | "current">;
  readonly record: Pick<GatewayRecord, "history">;
  readonly words: ToolWords;
  /** Names what operators say of tools at the moment. */
  readonly wordsVersion: () => string;
  /** A tool of a server as agents name it. */
  readonly nameOf: (server: string, tool: string) => string;
  readonly posture: Posture;
  readonly clock: Pick<Clock, "nowMs" | "sleep">;
  readonly log: Log;
}

export interface ClientAsking {
  readonly tenantId: string;
  readonly actor: Actor;
  /** Whose calls count together. */
  readonly principal: string;
}

export type ClientTool = Pick<CallToJudge["tool"], "name" | "server" | "tool" | "definitionHash" | "inputSchema">;

export interface ClientQuestion {
  readonly tool: ClientTool;
  readonly input: JsonObject;
  /** The call itself, where the ledger has it already. */
  readonly callId: GatewayCallId | null;
}

export interface ClientVerdict {
  readonly verdict: CallVerdict;
  readonly policyVersion: string;
  /** Whether a rule counts the calls of clients. */
  readonly isCounted: boolean;
  /** When the calls before it were looked at; `null` where it does not rest on them. */
  readonly asOf: string | null;
}

export interface ClientJudge {
  judge(asking: ClientAsking, call: ClientQuestion): Promise<ClientVerdict>;
  /** Which tools the policy can ever let this client have. Errors: `policy_unavailable`. */
  reach(asking: ClientAsking): Promise<(tool: ClientTool) => boolean>;
}

/** Calls of a client that are looked at; of one that makes more of them it is not known what they come to. */
const HISTORY_COUNT = 2_000;
const LATE = Symbol("late");
const UNKNOWN_TEXTS = "What this client has read is not known, so it counts as texts that nobody vouches for.";

export function createClientJudge(parts: ClientJudgeParts): ClientJudge {
  const { source, wordsVersion, words, posture, clock } = parts;
  return {
    async judge(asking, call) {
      try {
        return await judged(parts, { ...call, asking });
      } catch (thrown) {
        parts.log.error("the policy could not be asked about a client's call", thrown, { tool: call.tool.name });
        const policyVersion = `${source.version()}.${wordsVersion()}`;
        return { verdict: POLICY_UNAVAILABLE, policyVersion, isCounted: false, asOf: null };
      }
    },
    async reach({ tenantId, actor }) {
      const policy = await source.current();
      const facts = assembleClientFacts({ tenantId, actor, posture, history: [], nowMs: clock.nowMs() });
      return (tool) => {
        const call = callToJudge(tool, { toolCallId: "", arguments: {} }, words(tool.server, tool.tool));
        return isWithinReach(policy, call, facts);
      };
    },
  };
}

interface Question extends ClientQuestion {
  readonly asking: ClientAsking;
}

async function judged(parts: ClientJudgeParts, { asking, tool, input, callId }: Question): Promise<ClientVerdict> {
  const { source, words, wordsVersion, posture } = parts;
  const policy = await source.current();
  const call = callToJudge(tool, { toolCallId: tool.name, arguments: input }, words(tool.server, tool.tool));
  const needs = policy.needsOf(call);
  const known = needs.history ? await historyOf(parts, { policy, principal: asking.principal, besides: callId }) : null;
  const policyVersion = `${policy.id}.${wordsVersion()}`;
  const about = { policyVersion, isCounted: policy.needs.history, asOf: known?.asOf ?? null };
  if (known?.isCut === true) return { ...about, verdict: TOO_MANY };
  const history = (known?.history ?? []).map((each) => ({ ...each, name: parts.nameOf(each.server, each.tool) }));
  const nowMs = known?.nowMs ?? parts.clock.nowMs();
  const { tenantId, actor } = asking;
  const facts = assembleClientFacts({ tenantId, actor, posture, history, nowMs });
  const verdict = verdictOf(judgeBatch(policy, [call], facts)[0]);
  return { ...about, verdict: needs.sources ? explained(verdict) : verdict };
}

const TOO_MANY = callVerdict({
  verdict: "deny",
  code: "policy_unavailable",
  reason: "This client has made more calls than can be counted, and a rule of the policy counts them.",
});

/** Why it comes out otherwise than for a run. */
function explained(verdict: CallVerdict): CallVerdict {
  const { rules, reason } = verdict;
  if (verdict.verdict === "allow" || rules.some((rule) => rule.startsWith("guard."))) return verdict;
  return { ...verdict, reason: `${reason} ${UNKNOWN_TEXTS}` };
}

async function historyOf(
  { record, clock }: ClientJudgeParts,
  { policy, ...whose }: Pick<Parameters<GatewayRecord["history"]>[0], "principal" | "besides"> & { policy: ToolPolicy },
): Promise<ClientHistory> {
  const answered = new AbortController();
  try {
    const asked = record.history({ ...whose, windowMs: historyWindowMs(policy.document), limit: HISTORY_COUNT });
    const late = clock.sleep(LIMITS.judgeMs, answered.signal).then((): typeof LATE => LATE);
    const first = await Promise.race([asked, late]);
    if (first === LATE) throw new Error("the calls of a client could not be counted in time");
    return first;
  } finally {
    answered.abort("over");
  }
}
