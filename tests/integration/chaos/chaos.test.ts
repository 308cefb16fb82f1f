/** A minute of everything going wrong at once; `npm run chaos` has more of it. */
import { expect, test } from "vitest";
import { perform } from "./perform.ts";
import { SABOTAGES } from "./sabotages.ts";

const BOUND_MS = 420_000;

test("whatever is killed, frozen or restarted, every promise holds afterwards", { timeout: BOUND_MS }, async () => {
  const seed = Number(process.env.SIGNALBOX_CHAOS_SEED ?? Date.now() % 1_000_000);
  // Before anything can fail: whoever sees it fail wants the same faults again.
  process.stdout.write(`chaos: seed ${seed}; the same faults again with SIGNALBOX_CHAOS_SEED=${seed}\n`);
  const { faults, messages, breaches } = await perform({ seed, seconds: 60 });
  process.stdout.write(`chaos: ${faults.length} faults, ${messages} acknowledged messages\n`);
  expect(breaches).toEqual([]);
  expect(faults.length).toBeGreaterThan(10);
  expect(messages).toBeGreaterThan(20);
});

test("the checker finds a promise that was taken away", { timeout: BOUND_MS }, async () => {
  const sabotage = SABOTAGES["INV-09"];
  expect(sabotage).toBeDefined();
  const { breaches } = await perform({ seed: 1, seconds: 10, ...(sabotage === undefined ? {} : { sabotage }) });
  expect(breaches.map(({ promise }) => promise)).toContain("INV-09");
});
