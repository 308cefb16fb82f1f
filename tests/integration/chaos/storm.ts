/** What goes wrong: processes are killed, frozen and restarted, the database too, until the time is over; then all heal. */
import { setTimeout as pause } from "node:timers/promises";
import type { Cast, Member } from "./cast.ts";
import type { Dice } from "./dice.ts";

export interface Fault {
  readonly atMs: number;
  readonly what: string;
}

export interface StormOptions {
  readonly seconds: number;
  readonly dice: Dice;
  readonly note: (text: string) => void;
}

const QUIET_MS = [400, 2_500] as const;
const FROZEN_MS = [300, 14_000] as const;
const ABSENT_MS = [0, 1_500] as const;
const DATABASE_EVERY_MS = 25_000;

/** Resolves with what it did once everything stands again. */
export async function rage(cast: Cast, { seconds, dice, note }: StormOptions): Promise<readonly Fault[]> {
  const startedAtMs = performance.now();
  const faults: Fault[] = [];
  const healing = new Set<Promise<void>>();
  const busy = new Set<Member>();
  let databaseAtMs = startedAtMs;
  const fault = (what: string): void => {
    faults.push({ atMs: Math.round(performance.now() - startedAtMs), what });
    note(what);
  };
  while (performance.now() - startedAtMs < seconds * 1_000) {
    await pause(dice.between(...QUIET_MS));
    if (performance.now() - databaseAtMs > DATABASE_EVERY_MS) {
      databaseAtMs = performance.now();
      fault("database killed");
      cast.crashDatabase();
      continue;
    }
    const free = cast.members.filter((member) => !busy.has(member));
    if (free.length <= cast.members.length / 2) continue;
    const member = dice.one(free);
    busy.add(member);
    const heal = (dice.fraction() < 0.5 ? kill(member) : freeze(member)).finally(() => {
      busy.delete(member);
      healing.delete(heal);
    });
    healing.add(heal);
  }
  await Promise.all(healing);
  return faults;

  async function kill(member: Member): Promise<void> {
    fault(`${member.name} killed`);
    await member.process.kill("SIGKILL");
    await pause(dice.between(...ABSENT_MS));
    member.process = await revived(member);
  }

  async function freeze(member: Member): Promise<void> {
    const frozenMs = dice.between(...FROZEN_MS);
    fault(`${member.name} frozen for ${frozenMs} ms`);
    member.process.child.kill("SIGSTOP");
    await pause(frozenMs);
    member.process.child.kill("SIGCONT");
    // One that gave up meanwhile, as it should when its lease was over, is started like a killed one.
    if (!member.process.running) member.process = await revived(member);
  }
}

/** A process may not come up while the database is away: it is tried again, as whoever operates it would. */
async function revived(member: Member): Promise<Member["process"]> {
  for (let tryCount = 1; ; tryCount += 1) {
    try {
      return await member.restart();
    } catch (thrown) {
      if (tryCount >= 10) throw thrown;
      await pause(500);
    }
  }
}

/** Whoever has ended by itself is started again, so that what was acknowledged can be answered. */
export async function mend(cast: Cast): Promise<void> {
  for (const member of cast.members) {
    if (!member.process.running) member.process = await revived(member);
  }
}
