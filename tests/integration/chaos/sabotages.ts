/** The negative control: each takes one promise away in the storm's own database, and the checker must find it. */
import { breakFence, sabotage, type Victim } from "../../../packages/server/src/cli/demo/sabotage.ts";

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
