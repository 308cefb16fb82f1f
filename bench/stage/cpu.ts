/** CPU time of processes, from the system: the measure that other work on the machine disturbs least. */
import { readFileSync } from "node:fs";

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
