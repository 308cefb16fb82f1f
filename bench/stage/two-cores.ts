/**
 * Both sides of a comparison get the same two cores: on a machine with more, this process and all it starts afterwards
 * stay on the first two until it is disposed of.
 */
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";

const CORES = 2;

export function onTwoCores(): Disposable & { readonly note: string } {
  const all = availableParallelism();
  if (all <= CORES) return { note: `${all} cores`, [Symbol.dispose]: () => undefined };
  const pinned = pin("0,1");
  return {
    note: pinned ? `2 of ${all} cores` : `${all} cores, for want of taskset`,
    [Symbol.dispose]: () => {
      if (pinned) pin(`0-${all - 1}`);
    },
  };
}

function pin(cores: string): boolean {
  return spawnSync("taskset", ["-a", "-c", "-p", cores, String(process.pid)], { stdio: "ignore" }).status === 0;
}
