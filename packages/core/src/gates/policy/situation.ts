/** One judgement: the call, the facts, and what is worked out from them at most once. */
import type { SeenKind } from "@signalbox/contract";
import { effectOf } from "./decision.ts";
import type { CallToJudge, RunFacts } from "./facts.ts";
import { placeArguments, type PlacedValue } from "./provenance.ts";

export class Situation {
  readonly call: CallToJudge;
  readonly facts: RunFacts;
  readonly effect: ReturnType<typeof effectOf>;
  #placed: readonly PlacedValue[] | null = null;

  constructor(call: CallToJudge, facts: RunFacts) {
    this.call = call;
    this.facts = facts;
    this.effect = effectOf(call);
  }

  get placed(): readonly PlacedValue[] {
    this.#placed ??= placeArguments(this.call, this.facts);
    return this.#placed;
  }

  hasSeen(what: SeenKind): boolean {
    const { sources, areSourcesCut } = this.facts;
    // What was not loaded was a result or a passage.
    return areSourcesCut || sources.some((each) => (what === "private" ? each.isPrivate : isUntrusted(each)));
  }
}

function isUntrusted(source: { readonly kind: string; readonly isTrusted: boolean }): boolean {
  return (source.kind === "tool" || source.kind === "passage") && !source.isTrusted;
}
