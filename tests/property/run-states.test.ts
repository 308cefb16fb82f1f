import { isTerminal, RUN_STATES, type RunState } from "@signalbox/contract";
import {
  ACTIVE_STATES,
  isActive,
  isOwned,
  nextInLine,
  nextState,
  RUN_EVENTS,
  RUN_TRANSITIONS,
  runsAhead,
  transition,
  type RunEvent,
} from "@signalbox/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

/** The design's sentence, told as arrows; the table must say the same and nothing else. */
const ARROWS: readonly (readonly [from: RunState, event: RunEvent, to: RunState])[] = [
  ["queued", "admit", "admitted"],
  ["queued", "merge", "completed"],
  ["admitted", "claim", "running"],
  // Asked again after a restore.
  ["admitted", "suspend", "suspended"],
  ["running", "take_over", "running"],
  ["running", "release", "admitted"],
  ["running", "suspend", "suspended"],
  ["running", "seal", "finalizing"],
  ["suspended", "resume", "admitted"],
  ["finalizing", "take_over", "finalizing"],
  ["finalizing", "seal", "finalizing"],
  ["finalizing", "complete", "completed"],
  // Without an owner a run may end directly; with one only once its gates are closed.
  ...(["queued", "admitted", "suspended", "finalizing"] as const).flatMap((from) => [
    [from, "cancel", "cancelled"] as const,
    [from, "fail", "failed"] as const,
    [from, "roll_back", "rolled_back"] as const,
  ]),
];

const anyState = fc.constantFrom(...RUN_STATES);
const anyEvent = fc.constantFrom(...RUN_EVENTS);

describe("the states of a run", () => {
  it("say for every state what every event does", () => {
    for (const state of RUN_STATES) {
      expect(Object.keys(RUN_TRANSITIONS[state]).toSorted()).toEqual(RUN_EVENTS.toSorted());
    }
    fc.assert(
      fc.property(anyState, anyEvent, (state, event) => {
        const arrow = ARROWS.find(([from, by]) => from === state && by === event);
        expect(nextState(state, event)).toBe(arrow?.[2] ?? null);
      }),
      { numRuns: 500 },
    );
  });

  it("end once: nothing leaves a terminal state, and from every other one an end can be reached", () => {
    fc.assert(
      fc.property(fc.array(anyEvent, { maxLength: 40 }), (events) => {
        let state: RunState = "queued";
        let ended: RunState | null = null;
        for (const event of events) {
          if (nextState(state, event) === null) {
            expect(() => transition(state, event)).toThrow(expect.objectContaining({ code: "internal" }));
            continue;
          }
          state = transition(state, event);
          expect(ended).toBeNull();
          if (isTerminal(state)) ended = state;
          // An owner writes only in `running` and `finalizing`, and nobody gets there without a claim.
          if (isOwned(state)) expect(events).toContain("claim");
        }
      }),
    );
    for (const state of RUN_STATES) expect(reachesAnEnd(state)).toBe(true);
  });
});

function reachesAnEnd(state: RunState, seen: ReadonlySet<RunState> = new Set()): boolean {
  if (isTerminal(state)) return true;
  return RUN_EVENTS.some((event) => {
    const next = nextState(state, event);
    return next !== null && !seen.has(next) && reachesAnEnd(next, new Set([...seen, state]));
  });
}

/** A conversation in the simplest words: a line of people, and one of them at the counter. */
describe("the queue of a conversation", () => {
  it("serves in order of arrival, one at a time, whoever leaves the line", () => {
    const step = fc.oneof(fc.constant("arrive" as const), fc.constant("end" as const), fc.nat({ max: 5 }));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const runs: { position: number; state: RunState }[] = [];
        const line: number[] = [];
        for (const each of steps) {
          if (each === "arrive") {
            expect(runsAhead(runs)).toBe(line.length);
            runs.push({ position: runs.length + 1, state: "queued" });
            line.push(runs.length);
          } else {
            const gone = each === "end" ? line[0] : line[each];
            const run = runs.find(({ position }) => position === gone);
            if (run === undefined) continue;
            run.state = "cancelled";
            line.splice(line.indexOf(run.position), 1);
          }
          const next = nextInLine(runs);
          if (next !== null) {
            expect(next.position).toBe(line[0]);
            next.state = "admitted";
          }
          const active = runs.filter(({ state }) => isActive(state));
          expect(active.map(({ position }) => position)).toEqual(line.slice(0, 1));
        }
      }),
    );
    expect(ACTIVE_STATES).toEqual(["admitted", "running", "suspended", "finalizing"]);
  });
});
