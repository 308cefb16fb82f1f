/** The storm must be one: what the proofs say they survived has to happen in the histories they are told from. */
import { simulate } from "@signalbox/testkit";
import { expect, it } from "vitest";

const SEED_COUNT = 80;

/** What a history can show, by the line that tells of it. */
const SIGHTS = {
  "a process dies": / dies$/,
  "a process stands still": /: stall$/,
  "a reply is lost": /: lost_reply$/,
  "a call arrives twice": /: twice$/,
  "a process loses its presence and goes on": / loses its session$/,
  "a hold expires": /hold\.expired/,
  "the store is another one": /the store is another one$/,
  "what was approved is asked again": /open_era: .*hold\.opened/,
  "a dead process is buried": /process \d+ is dead/,
  "a run is taken over": /claim: .*run\.recovered/,
  "a run is found again after a lost reply": /reclaim: .*run\.recovered/,
  "a worker is replaced": /change_worker: .*run\.recovered/,
  "a worker is cut off and goes on": /cut off from its supervisor/,
  "a run is given back": /release: .*running → admitted/,
  "a cancel is marked": /cancel marked/,
  "a message ends the run it finds": /admit: .*is to end: superseded/,
  "a turn is struck": /(running|finalizing|admitted|suspended) → rolled_back/,
  "a message is taken in by the run it finds": /take_in: .*was taken in/,
  "a message ends with the run that took it in": /finish: .*queued → completed/,
  "a waiting message follows": /finish: .*queued → admitted/,
  "text is taken back": /text\.retracted/,
  "a transcript is left where it cannot be continued": /the next rung is tried/,
  "a transcript is seeded from the history": /was answered on the rung "rebuilt"/,
  "a turn is gone on with": /"rung":"repaired"|take_over: /,
  "an old owner is refused": /this generation is over/,
  "a process learns that it was declared dead": /declared dead/,
  "a lost call is closed as unknown": /executing → unknown/,
  "an effect cannot be vouched for": /finalizing → failed/,
} as const;

it(`shows everything it is meant to show within ${SEED_COUNT} seeds`, async () => {
  const missing = new Set(Object.keys(SIGHTS));
  for (let seed = 1; seed <= SEED_COUNT && missing.size > 0; seed += 1) {
    const lines: string[] = [];
    await simulate({ seed, scenario: "storm", onLine: (line) => lines.push(line) });
    const history = lines.join("\n");
    for (const [sight, line] of Object.entries(SIGHTS)) {
      if (new RegExp(line, "m").test(history)) missing.delete(sight);
    }
  }
  expect([...missing]).toEqual([]);
});
