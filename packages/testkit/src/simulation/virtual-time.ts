/** Virtual time for a test of one piece: its clock, cancellation, randomness and log, and a way to let time pass. */
import { createMachine, type Machine } from "./machine.ts";
import { Scheduler, type Life } from "./scheduler.ts";
import { createSeeded } from "./seeded.ts";

/** The ports of one simulated process, and a way to let its time pass. */
export interface VirtualTime extends Machine {
  /** Lines the piece has logged. */
  readonly lines: readonly string[];
  /** Lets this much virtual time pass, with everything that happens in it. */
  pass(durationMs: number): Promise<void>;
  /** Lets time pass until `work` has settled, at most `limitMs`, and gives what it gave. */
  until<T>(work: Promise<T>, limitMs?: number): Promise<T>;
}

const LIMIT_MS = 3_600_000 * 2;

/** Makes virtual time that stands still until it is told to pass. The seed, 1 by default, decides the randomness. */
export function createVirtualTime(seed = 1): VirtualTime {
  const scheduler = new Scheduler();
  const life: Life = { name: "test", alive: true, stalledUntilMs: 0 };
  const lines: string[] = [];
  const tell = (_life: Life | null, what: () => string | null): void => {
    lines.push(what() ?? "");
  };
  // What is ready goes on before time does.
  const settle = (): Promise<boolean> => {
    let over = false;
    scheduler.after(0, null, () => (over = true));
    return scheduler.run(() => over, scheduler.nowMs);
  };
  const machine = createMachine({ scheduler, life, random: createSeeded(seed), skewMs: 0, tell });
  return {
    ...machine,
    lines,
    async pass(durationMs) {
      await settle();
      const untilMs = scheduler.nowMs + durationMs;
      let over = false;
      scheduler.after(durationMs, null, () => (over = true));
      await scheduler.run(() => over, untilMs);
    },
    async until(work, limitMs = LIMIT_MS) {
      const state = { settled: false };
      const note = (): void => {
        state.settled = true;
      };
      work.then(note, note);
      await settle();
      if (!(await scheduler.run(() => state.settled, scheduler.nowMs + limitMs)) && !state.settled) {
        throw new Error(`nothing came of it in ${limitMs} ms of virtual time`);
      }
      return await work;
    },
  };
}
