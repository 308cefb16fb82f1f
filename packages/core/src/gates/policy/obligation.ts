/** What is attached to a verdict: merged from every rule that matched, and carried out on a result. */
import type { PolicyObligation } from "@signalbox/contract";
import { partsOf } from "./json-values.ts";

type Kind = PolicyObligation["kind"];
type Of<Wanted extends Kind> = Extract<PolicyObligation, { readonly kind: Wanted }>;

/** One of each kind at most, and what one rule asks for is not lifted by another. */
export function mergeConditions(all: readonly PolicyObligation[]): readonly PolicyObligation[] {
  if (all.length === 0) return [];
  return [...redacted(ofKind(all, "redact")), ...limited(ofKind(all, "limit")), ...approved(ofKind(all, "approval"))];
}

function ofKind<Wanted extends Kind>(all: readonly PolicyObligation[], kind: Wanted): readonly Of<Wanted>[] {
  return all.filter((each): each is Of<Wanted> => each.kind === kind);
}

function redacted(all: readonly Of<"redact">[]): readonly PolicyObligation[] {
  return all.length === 0 ? [] : [{ kind: "redact", at: [...new Set(all.flatMap(({ at }) => at))].sort() }];
}

function limited(all: readonly Of<"limit">[]): readonly PolicyObligation[] {
  if (all.length === 0) return [];
  const resultBytes = least(all.map((each) => each.resultBytes));
  const timeoutMs = least(all.map((each) => each.timeoutMs));
  return [
    {
      kind: "limit",
      ...(resultBytes === null ? {} : { resultBytes }),
      ...(timeoutMs === null ? {} : { timeoutMs }),
    },
  ];
}

function approved(all: readonly Of<"approval">[]): readonly PolicyObligation[] {
  if (all.length === 0) return [];
  const withinMs = least(all.map((each) => each.withinMs));
  const by = all.some((each) => each.by === "other") ? "other" : "anyone";
  return [{ kind: "approval", by, ...(withinMs === null ? {} : { withinMs }) }];
}

function least(bounds: readonly (number | undefined)[]): number | null {
  const given = bounds.filter((each) => each !== undefined);
  return given.length === 0 ? null : Math.min(...given);
}

const REDACTED = "[redacted]";

/** A copy without what stands at the pointers; `*` in a pointer is every member or item there. */
export function redact(value: unknown, pointers: readonly string[]): unknown {
  return pointers.reduce((left, pointer) => without(left, partsOf(pointer)), value);
}

function without(value: unknown, parts: readonly string[]): unknown {
  const [part, ...rest] = parts;
  if (part === undefined) return REDACTED;
  if (Array.isArray(value)) {
    return value.map((each: unknown, index) => (part === "*" || part === String(index) ? without(each, rest) : each));
  }
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [name, part === "*" || part === name ? without(each, rest) : each]),
  );
}
