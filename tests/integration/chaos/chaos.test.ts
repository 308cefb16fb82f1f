/** A minute of everything going wrong at once; `npm run chaos` has more of it. */
import { expect, test } from "vitest";
import type { Cast } from "./cast.ts";
import { perform } from "./perform.ts";
import { SABOTAGES } from "./sabotages.ts";

const BOUND_MS = 420_000;

test("whatever is killed, frozen or restarted, every promise holds afterwards", { timeout: BOUND_MS }, async () => {
  const seed = Number(process.env.SIGNALBOX_CHAOS_SEED ?? Date.now() % 1_000_000);
  // Before anything can fail: whoever sees it fail wants the same faults again.
  process.stdout.write(`chaos: seed ${seed}; the same faults again with SIGNALBOX_CHAOS_SEED=${seed}\n`);
  const { faults, messages, ghosts, breaches } = await perform({ seed, seconds: 60 });
  process.stdout.write(`chaos: ${faults.length} faults, ${messages} acknowledged messages, ${ghosts} stale tokens\n`);
  // As the message, which is printed whole where a difference is cut.
  if (breaches.length > 0) throw new Error(breaches.map(({ promise, where }) => `${promise}: ${where}`).join("\n"));
  expect(faults.length).toBeGreaterThan(10);
  expect(messages).toBeGreaterThan(20);
  expect(ghosts).toBeGreaterThan(0);
});

// What is left queued takes its time to be found; `npm run chaos` storms under that sabotage, too.
test("the checker finds two promises that were taken away", { timeout: BOUND_MS }, async () => {
  const sabotage = async (cast: Cast): Promise<void> => {
    for (const promise of ["INV-06", "INV-09"] as const) await SABOTAGES[promise]!(cast);
  };
  const { breaches } = await perform({ seed: 1, seconds: 12, settledMs: 20_000, sabotage });
  expect(breaches.map(({ promise }) => promise)).toEqual(expect.arrayContaining(["INV-06", "INV-09"]));
});
