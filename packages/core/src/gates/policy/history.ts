/** Rates, sums and sequences over the earlier calls of a run, those under way among them. */
import type { HistorySelector } from "@signalbox/contract";
import type { PastCall } from "./facts.ts";
import { NotComparable } from "./argument-test.ts";
import { valueAt } from "./json-values.ts";
import type { Situation } from "./situation.ts";

/** Calls that did something, do it, or are about to. One that was refused or withdrawn did nothing. */
const COUNTED: ReadonlySet<PastCall["state"]> = new Set([
  "proposed",
  "awaiting_approval",
  "authorized",
  "executing",
  "succeeded",
  "failed",
  "unknown",
]);

export interface Measure {
  readonly calls: HistorySelector;
  readonly sum: string | undefined;
  readonly includesThis: boolean;
}

export function measure({ calls, sum, includesThis }: Measure, situation: Situation): number {
  const { call, facts } = situation;
  const same = calls.isSame === true ? fingerprint(call.tool.name, call.arguments) : null;
  const sinceMs = calls.withinMs === undefined ? -Infinity : facts.nowMs - calls.withinMs;
  let total = includesThis ? amount(sum, call.arguments) : 0;
  for (const past of facts.history) {
    if (past.atMs < sinceMs || !selects(calls, past)) continue;
    if (same !== null && fingerprint(past.name, past.arguments) !== same) continue;
    total += amount(sum, past.arguments);
  }
  return total;
}

function selects({ effects, servers, names, states }: HistorySelector, past: PastCall): boolean {
  return (
    (states?.includes(past.state) ?? COUNTED.has(past.state)) &&
    (effects?.includes(past.effect) ?? true) &&
    (servers?.includes(past.server) ?? true) &&
    (names?.includes(past.name) ?? true)
  );
}

/** One call, or the number at the pointer; a call that has none adds nothing, one that has something else is an error. */
function amount(sum: string | undefined, given: PastCall["arguments"]): number {
  if (sum === undefined) return 1;
  const value = valueAt(given, sum);
  if (value === undefined || value === null) return 0;
  if (typeof value !== "number" || !Number.isFinite(value)) throw new NotComparable();
  // What is taken back does not make room for more.
  return Math.max(0, value);
}

/** Arguments are kept as canonical JSON, so equal ones are written alike. */
function fingerprint(name: string, given: PastCall["arguments"]): string {
  return `${name}\n${ordered(given)}`;
}

function ordered(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(ordered).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "";
  const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${ordered(member)}`).join(",")}}`;
}
