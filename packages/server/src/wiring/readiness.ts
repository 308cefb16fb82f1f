/** What keeps a process from doing its part, by the roles it has. */
import type { Supervisor } from "@signalbox/core";
import type { ProcessRole } from "../config/roles.ts";
import type { ConnectedWorkers } from "../workers/pool.ts";
import type { Offers } from "./offers.ts";
import type { PlatformRecord } from "./record.ts";

export interface ReadinessParts {
  readonly roles: readonly ProcessRole[];
  readonly record: Pick<PlatformRecord, "ping">;
  readonly runSide: {
    readonly supervisor: Supervisor | null;
    readonly workers: Pick<ConnectedWorkers, "runtimes"> | null;
  };
  readonly offers: Pick<Offers, "runtimes" | "providers">;
  /** This process in the record while it is sure of its lease. */
  readonly process: () => number | null;
}

/** Everybody needs the database; gates and supervisor a lease; who answers clients, workers anywhere; a supervisor, its own. */
export function unreadinessOf(parts: ReadinessParts): () => Promise<readonly string[]> {
  const { roles, record, runSide, offers, process } = parts;
  const registered = roles.includes("gates") || roles.includes("supervisor");
  const answersClients = roles.includes("api");
  return async () => {
    const problems: string[] = [];
    await record.ping().catch(() => problems.push("the database does not answer"));
    if (registered && process() === null) problems.push("this process is not sure of its lease");
    const runtimes = answersClients ? offers.runtimes() : (runSide.workers?.runtimes() ?? null);
    if (runtimes !== null && !runtimes.some((runtime) => runtime.available)) problems.push("no worker is connected");
    return problems;
  };
}
