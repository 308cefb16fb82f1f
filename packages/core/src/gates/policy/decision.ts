/** What a policy answers, and what a policy is to those who ask it. */
import type {
  EffectClass,
  ErrorCode,
  Origin,
  PolicyDocument,
  PolicyObligation,
  ToolVerdict,
} from "@signalbox/contract";
import type { CallToJudge, RunFacts } from "./facts.ts";

/** Where the value at a pointer of the arguments comes from. */
export interface ArgumentOrigin {
  readonly at: string;
  readonly origin: Origin;
  /** The tool whose result it stands in, when that is its origin. */
  readonly tool: string | null;
  /** Whether it says where something goes: an address, a number of an account or a phone, a link. */
  readonly isDestination: boolean;
}

export interface ToolDecision {
  readonly verdict: ToolVerdict;
  /** Of a denial; `null` otherwise. */
  readonly code: ErrorCode | null;
  /** Written for the model and for whoever is asked; empty for `allow`. */
  readonly reason: string;
  /** Ids of the rules that gave the verdict, sorted. */
  readonly rules: readonly string[];
  /** Attached to the verdict: the call may be carried out only so. */
  readonly conditions: readonly PolicyObligation[];
  /** Of every value of the arguments, for whoever is asked; empty for a verdict that was reached without it. */
  readonly provenance: readonly ArgumentOrigin[];
}

/** Which facts a judgement can depend on, so that others need not be loaded. */
export interface PolicyNeeds {
  readonly sources: boolean;
  readonly history: boolean;
}

export interface ToolPolicy {
  /** Hash of the document. */
  readonly id: string;
  readonly document: PolicyDocument;
  /** What any call may need. */
  readonly needs: PolicyNeeds;
  /** What calls of this tool need. */
  needsOf(call: Pick<CallToJudge, "tool" | "approve" | "isClassified">): PolicyNeeds;
  /** Pure. May throw when it cannot decide: ask through `judgeBatch`, which makes a denial of that. */
  decide(call: CallToJudge, facts: RunFacts): ToolDecision;
}

/** Of a call that nobody classified, whatever its server says. */
export function effectOf(call: Pick<CallToJudge, "tool" | "isClassified">): EffectClass {
  return call.isClassified ? call.tool.effect : "irreversible";
}

const UNDECIDED_REASON = "The policy could not be judged, so this call was refused. It was not carried out.";

/** The answer in place of one that could not be had. */
export function undecided(reason: string = UNDECIDED_REASON): ToolDecision {
  return { verdict: "deny", code: "policy_unavailable", reason, rules: [], conditions: [], provenance: [] };
}
