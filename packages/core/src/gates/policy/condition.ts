/** Conditions of a rule, compiled once into functions that are asked for every call. */
import {
  PlatformError,
  POLICY_LIMITS,
  type Origin,
  type PolicyCondition,
  type PolicyScalar,
} from "@signalbox/contract";
import { checkArgument, problemOfValues } from "./argument-test.ts";
import { measure } from "./history.ts";
import { valueAt } from "./json-values.ts";
import type { PlacedValue } from "./provenance.ts";
import { selectsPrincipal, selectsTool } from "./selector.ts";
import type { PolicyNeeds } from "./decision.ts";
import type { Situation } from "./situation.ts";

/** Throws when it cannot be judged. */
export type Holds = (situation: Situation) => boolean;

type Kind = PolicyCondition["kind"];
type Of<Wanted extends Kind> = Extract<PolicyCondition, { readonly kind: Wanted }>;

/** Throws `policy_invalid` with the place. */
export function compileCondition(condition: PolicyCondition, at: string): Holds {
  if (countOf(condition, 0, at) > POLICY_LIMITS.conditionCount) throw invalid(at, "This rule has too many conditions.");
  return compiled(condition, at);
}

/** The same without counting again. */
function compiled(condition: PolicyCondition, at: string): Holds {
  switch (condition.kind) {
    case "all":
      return allOf(condition.of.map((each, index) => compiled(each, `${at}/of/${index}`)));
    case "any":
      return anyOf(condition.of.map((each, index) => compiled(each, `${at}/of/${index}`)));
    case "not":
      return negated(compiled(condition.of, `${at}/of`));
    case "argument":
      return argument(condition, at);
    case "provenance":
      return provenance(condition);
    case "seen":
      return (situation) => condition.what.every((each) => situation.hasSeen(each));
    case "history":
      return history(condition);
    case "tool":
      return ({ call, effect }) => selectsTool(condition.is, { call, effect });
    case "principal":
      return ({ facts }) => selectsPrincipal(condition.is, facts);
    case "posture":
      return ({ facts }) => facts.posture === condition.is;
  }
}

function allOf(parts: readonly Holds[]): Holds {
  return (situation) => parts.every((part) => part(situation));
}

function anyOf(parts: readonly Holds[]): Holds {
  return (situation) => parts.some((part) => part(situation));
}

function negated(part: Holds): Holds {
  return (situation) => !part(situation);
}

function argument(condition: Of<"argument">, at: string): Holds {
  const values = listOf(condition.value);
  const problem = problemOfValues(condition.test, values);
  if (problem !== null) throw invalid(`${at}/value`, problem);
  return ({ call }) => checkArgument(condition.test, valueAt(call.arguments, condition.at), values);
}

function listOf(value: PolicyScalar | readonly PolicyScalar[] | undefined): readonly PolicyScalar[] {
  if (value === undefined) return [];
  // An array is the list itself; `isArray` does not narrow a readonly one.
  return Array.isArray(value) ? (value as readonly PolicyScalar[]) : [value as PolicyScalar];
}

/** Origins that show that somebody meant a value; of those a common value shows nothing. */
const MEANT: ReadonlySet<Origin> = new Set(["user", "system", "trusted_tool"]);

function provenance({ of, are, from }: Of<"provenance">): Holds {
  const wanted = new Set(from);
  const chosen = of === "all" || of === "destinations" ? () => true : pointersOf(of);
  const isOne = (value: PlacedValue): boolean => wanted.has(value.origin) && !(value.isWeak && MEANT.has(value.origin));
  return ({ placed }) => {
    const values = placed.filter((value) => (of === "destinations" ? value.isDestination : chosen(value.at)));
    return are === "some"
      ? values.some(isOne)
      : values.every((value) => value.origin === "constant" || wanted.has(value.origin));
  };
}

function pointersOf(pointers: readonly string[]): (at: string) => boolean {
  return (at) => pointers.some((each) => at === each || at.startsWith(`${each}/`) || at === `${each}#`);
}

function history({ calls, sum, includesThis = false, moreThan }: Of<"history">): Holds {
  return (situation) => measure({ calls, sum, includesThis }, situation) > moreThan;
}

function countOf(condition: PolicyCondition, depth: number, at: string): number {
  if (depth >= POLICY_LIMITS.conditionDepth) throw invalid(at, "Conditions are nested too deeply.");
  if (condition.kind === "not") return 1 + countOf(condition.of, depth + 1, at);
  if (condition.kind !== "all" && condition.kind !== "any") return 1;
  return 1 + condition.of.reduce((sum, each) => sum + countOf(each, depth + 1, at), 0);
}

export function needsOfCondition(condition: PolicyCondition): PolicyNeeds {
  const parts = condition.kind === "all" || condition.kind === "any" ? condition.of : [];
  const inner = condition.kind === "not" ? [condition.of] : parts;
  const needs = inner.map(needsOfCondition);
  return {
    sources: condition.kind === "provenance" || condition.kind === "seen" || needs.some((each) => each.sources),
    history: condition.kind === "history" || needs.some((each) => each.history),
  };
}

export function invalid(pointer: string, detail: string): PlatformError {
  return new PlatformError("policy_invalid", detail, { fields: [{ pointer, detail }] });
}
