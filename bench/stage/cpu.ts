/** CPU time of processes, from the system: the measure that other work on the machine disturbs least. */
import { readdirSync, readFileSync } from "node:fs";

const TICK_MS = 10;
const USER_TICKS = 11;
const SYSTEM_TICKS = 12;

/** User and system time of these processes so far; 0 for one that is gone, or where the system does not tell. */
export function cpuMsOf(pids: readonly number[]): number {
  return pids.reduce((total, pid) => total + cpuMsOfOne(pid), 0);
}

function cpuMsOfOne(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name stands in parentheses and may hold spaces.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[USER_TICKS]) + Number(fields[SYSTEM_TICKS])) * TICK_MS;
  } catch {
    return 0;
  }
}

/** The same, to the microsecond, of threads that still run: for what is too short to be counted in ticks. */
export function exactCpuMsOf(pids: readonly number[]): number {
  let nanoseconds = 0;
  for (const pid of pids) {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      try {
        nanoseconds += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
      } catch {
        // It ended while we looked.
      }
    }
  }
  return nanoseconds / 1e6;
}

/** The database server of this data folder and its children. */
export function postgresPids(folder: string): readonly number[] {
  const parents = new Map<number, number>();
  let server = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      parents.set(Number(pid), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
      if (command.includes(folder) && command.includes("postgres")) server = Number(pid);
    } catch {
      // It ended while we looked.
    }
  }
  return [server, ...[...parents].filter(([, parent]) => parent === server && server !== 0).map(([pid]) => pid)];
}
