/** The negative control: each takes one promise away in the storm's own database, and the checker must find it. */
import { breakFence, sabotage, type Victim } from "../../../packages/server/src/cli/demo/sabotage.ts";
import { perform } from "./perform.ts";

/** How long a control may storm, in turns with other seeds, until its sabotage is found. */
const CONTROL = { seconds: 20, tries: 3, settledMs: 30_000 } as const;

export const SABOTAGES: Readonly<Record<string, (victim: Victim) => Promise<void>>> = {
  // Whoever was queued behind a run that ended is forgotten.
  "INV-02": (victim) => sabotage(victim, { function: "hand_over", from: /r\.state = 'queued'/, to: "false" }),
  "INV-06": breakFence,
  // A place in the log is left out now and then.
  "INV-09": (victim) =>
    sabotage(victim, {
      function: "write_event",
      from: /last_sequence = last_sequence \+ 1/,
      to: "last_sequence = last_sequence + 1 + (random() < 0.05)::integer",
    }),
};

/** Storms under one sabotage until the checker names its promise; `null` when it never does. */
export async function foundAfter(
  promise: string,
  options: { readonly seed: number; readonly note: (text: string) => void },
): Promise<{ readonly seconds: number; readonly where: string } | null> {
  const sabotage = SABOTAGES[promise];
  if (sabotage === undefined) throw new Error(`there is no sabotage of ${promise}`);
  const { seconds, tries, settledMs } = CONTROL;
  const startedAtMs = performance.now();
  for (let tryCount = 0; tryCount < tries; tryCount += 1) {
    const seed = options.seed + tryCount;
    options.note(`without ${promise}: ${seconds} s of storm, seed ${seed}`);
    const { breaches } = await perform({ seed, seconds, settledMs, sabotage });
    const found = breaches.find((breach) => breach.promise === promise);
    if (found !== undefined) return { seconds: (performance.now() - startedAtMs) / 1_000, where: found.where };
  }
  return null;
}
