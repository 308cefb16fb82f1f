/** What is judged at the tool gate, what comes of it, and what an approval is bound to. Pure. */
import {
  canonicalJson,
  isErrorCode,
  type EffectClass,
  type ErrorCode,
  type ToolCallId,
  type ToolCallState,
} from "@signalbox/contract";
import { LIMITS } from "../kernel/limits.ts";

/** A call of a model message, as it stands when the message is judged. */
export interface BatchCall {
  readonly toolCallId: ToolCallId;
  readonly toolUseId: string;
  readonly name: string;
  /** `null` for a tool that the snapshot does not have; such a call is denied already. */
  readonly server: string | null;
  readonly tool: string | null;
  readonly effect: EffectClass;
  readonly definitionHash: string | null;
  /** Canonical; as a person changed them, where one did. */
  readonly argumentsJson: string;
  readonly state: ToolCallState;
}

/** The policy's word about one call. */
export interface CallVerdict {
  readonly verdict: "allow" | "deny" | "ask";
  /** Of a denial. */
  readonly code: ErrorCode | null;
  /** Written for the model when it denies, for whoever decides when it asks. */
  readonly reason: string;
  /** Ids of the rules that matched. */
  readonly rules: readonly string[];
  /** Who may approve: anyone with the right, or only somebody else than who asked for the run. */
  readonly approver: "anyone" | "other";
  /** How long an approval may take, and be used after it was given. */
  readonly expiresInMs: number;
  /** What the call may be carried out under only; the gate that does so acts by them. */
  readonly conditions: readonly unknown[];
  /** Where the values of the arguments come from, for whoever is asked. */
  readonly origins: readonly unknown[];
}

const VERDICTS: ReadonlySet<unknown> = new Set<CallVerdict["verdict"]>(["allow", "deny", "ask"]);
const REASON_CHARS_MAX = 2_000;

/** Text whose digest names exactly what is approved. */
export function callDigestText(call: {
  readonly server: string;
  readonly tool: string;
  readonly definitionHash: string | null;
  /** Canonical. */
  readonly argumentsJson: string;
}): string {
  const { server, tool, definitionHash, argumentsJson } = call;
  const parsed: unknown = JSON.parse(argumentsJson);
  return canonicalJson({ server, tool, definitionHash, arguments: parsed });
}

/** A verdict with everything that is not said at its default. */
export function callVerdict(said: Pick<CallVerdict, "verdict" | "reason"> & Partial<CallVerdict>): CallVerdict {
  return {
    code: said.verdict === "deny" ? "tool_not_allowed" : null,
    rules: [],
    approver: "anyone",
    expiresInMs: LIMITS.approvalExpiryMs,
    conditions: [],
    origins: [],
    ...said,
  };
}

/** A policy that does not answer, or not in words that are known, denies. */
export const POLICY_UNAVAILABLE: CallVerdict = callVerdict({
  verdict: "deny",
  code: "policy_unavailable",
  reason: "The policy could not be asked about this call, so it was refused.",
});

/**
 * What a judge answered about so many calls. One that answers for another number of them, or with anything that is no
 * verdict, has not answered at all.
 */
export function readVerdicts(answer: unknown, callCount: number): readonly CallVerdict[] {
  const unavailable = Array.from({ length: callCount }, () => POLICY_UNAVAILABLE);
  if (!Array.isArray(answer) || answer.length !== callCount) return unavailable;
  const read = answer.map((each: unknown) => readVerdict(each));
  const verdicts = read.filter((each) => each !== null);
  return verdicts.length === callCount ? verdicts : unavailable;
}

function readVerdict(answer: unknown): CallVerdict | null {
  if (typeof answer !== "object" || answer === null) return null;
  // Whether it has these members, and of which kind, is what is looked at.
  const { verdict, code, reason, rules, approver, expiresInMs, conditions, origins } = answer as Partial<
    Record<keyof CallVerdict, unknown>
  >;
  if (!VERDICTS.has(verdict) || typeof reason !== "string") return null;
  if (![rules, conditions, origins].every((each) => Array.isArray(each))) return null;
  if (code !== null && !(typeof code === "string" && isErrorCode(code))) return null;
  if (verdict === "deny" && code === null) return null;
  if (approver !== "anyone" && approver !== "other") return null;
  if (typeof expiresInMs !== "number" || !(expiresInMs > 0) || expiresInMs > LIMITS.approvalExpiryCapMs) return null;
  // Every member was looked at above.
  const known = answer as CallVerdict;
  return { ...known, reason: reason.slice(0, REASON_CHARS_MAX), expiresInMs: Math.round(expiresInMs) };
}
