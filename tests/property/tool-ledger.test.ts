import { EFFECT_CLASSES, TOOL_CALL_STATES } from "@signalbox/contract";
import { blocksRepetition, CALL_EVENTS, isRepeatable, nextCallState, proposedAgain } from "@signalbox/core";
import fc from "fast-check";
import { expect, it } from "vitest";

const anyState = fc.constantFrom(...TOOL_CALL_STATES);
const anyEffect = fc.constantFrom(...EFFECT_CLASSES);

it("a call takes effect at most once, however it is asked, denied, withdrawn, lost and proposed again", () => {
  const step = fc.oneof(fc.constantFrom(...CALL_EVENTS), fc.constant("propose" as const));
  fc.assert(
    fc.property(anyEffect, fc.array(step, { maxLength: 40 }), (effect, steps) => {
      let state: (typeof TOOL_CALL_STATES)[number] = "proposed";
      let mayHaveTakenEffect = false;
      for (const each of steps) {
        if (each === "propose") {
          if (proposedAgain({ state, effect }) === "propose") state = "proposed";
          continue;
        }
        const next = nextCallState(state, each);
        if (next === null) continue;
        if (next === "executing") expect(mayHaveTakenEffect && !isRepeatable(effect)).toBe(false);
        // Somebody has looked, and says that it did not take effect.
        if (state === "unknown" && (next === "failed" || next === "withdrawn")) mayHaveTakenEffect = false;
        state = next;
        if (state === "succeeded" || state === "unknown") mayHaveTakenEffect = true;
      }
    }),
    { numRuns: 5_000 },
  );
});

it("a turn may not run again exactly while an effect is out or lost", () => {
  fc.assert(
    fc.property(anyState, anyEffect, (state, effect) => {
      const hasEffect = effect === "write" || effect === "irreversible";
      const isOut = state === "executing" || state === "unknown";
      expect(blocksRepetition({ state, effect })).toBe(hasEffect && isOut);
    }),
  );
});
