/**
 * Names a process so that the name is never mistaken for a later process: a pid alone is used again, a pid with its
 * start time is not. Boot and pid namespace say where the pair means anything; a record from another container or
 * machine on the same folder is `elsewhere`, and nothing may be concluded from the pid in it.
 */
import { execFile } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { promisify } from "node:util";
import { errorCode } from "./database-error.ts";

export interface ProcessIdentity {
  readonly pid: number;
  /** Opaque; equal exactly when it is the same process. */
  readonly startedAt: string;
  readonly machine: string;
  readonly boot: string;
  readonly pidNamespace: string;
}

export type Judgement = "alive" | "dead" | "elsewhere";

type Place = Pick<ProcessIdentity, "machine" | "boot" | "pidNamespace">;

/** Null when there is no such process, or when it has ended and only waits to be reaped. */
export async function identify(pid: number): Promise<ProcessIdentity | null> {
  const startedAt = await startOf(pid);
  return startedAt === null ? null : { pid, startedAt, ...here() };
}

export async function identifySelf(): Promise<ProcessIdentity> {
  const self = await identify(process.pid);
  if (self === null) {
    throw new Error("this process cannot find itself in the process table");
  }
  return self;
}

export async function judge(identity: ProcessIdentity): Promise<Judgement> {
  const place = here();
  if (identity.boot !== place.boot) {
    // The same machine after a restart, or another machine that shares the folder over a network.
    return identity.machine === place.machine ? "dead" : "elsewhere";
  }
  if (identity.pidNamespace !== place.pidNamespace) {
    return "elsewhere";
  }
  return (await startOf(identity.pid)) === identity.startedAt ? "alive" : "dead";
}

export function parseIdentity(value: unknown): ProcessIdentity | null {
  if (typeof value !== "object" || value === null) {
    return null;
  }
  const fields = new Map<string, unknown>(Object.entries(value));
  const pid = fields.get("pid");
  const [startedAt, machine, boot, pidNamespace] = ["startedAt", "machine", "boot", "pidNamespace"].map((name) =>
    fields.get(name),
  );
  if (
    typeof pid !== "number" ||
    !Number.isSafeInteger(pid) ||
    pid <= 0 ||
    typeof startedAt !== "string" ||
    typeof machine !== "string" ||
    typeof boot !== "string" ||
    typeof pidNamespace !== "string"
  ) {
    return null;
  }
  return { pid, startedAt, machine, boot, pidNamespace };
}

let knownPlace: Place | null = null;

function here(): Place {
  knownPlace ??=
    process.platform === "linux"
      ? { machine: hostname(), boot: bootId(), pidNamespace: pidNamespace() }
      : // macOS changes its host name with the network, and a start time of the wall clock names the boot as well.
        { machine: process.platform, boot: "", pidNamespace: "" };
  return knownPlace;
}

function bootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}

/** A kernel without namespaces has one, and every process in it says the same. */
function pidNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return "only";
  }
}

async function startOf(pid: number): Promise<string | null> {
  return process.platform === "linux" ? startFromProc(pid) : startFromPs(pid);
}

const STATE_FIELD = 0;
const START_FIELD = 19;

async function startFromProc(pid: number): Promise<string | null> {
  let stat: string;
  try {
    stat = await readFile(`/proc/${pid}/stat`, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ESRCH") {
      return null;
    }
    throw error;
  }
  // The command's name stands in parentheses and may hold spaces and parentheses itself.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const state = fields[STATE_FIELD];
  return state === "Z" || state === "X" ? null : (fields[START_FIELD] ?? null);
}

async function startFromPs(pid: number): Promise<string | null> {
  try {
    const { stdout } = await promisify(execFile)("ps", ["-o", "state=,lstart=", "-p", String(pid)], {
      env: { LC_ALL: "C", TZ: "UTC", PATH: "/usr/bin:/bin" },
    });
    const [state = "", ...start] = stdout.trim().split(/\s+/);
    return state === "" || state.startsWith("Z") ? null : start.join(" ");
  } catch (error) {
    // `ps` ends with 1 when it finds nothing; anything else (no `ps` at all) must not read as "dead".
    if (error instanceof Error && "code" in error && error.code === 1) {
      return null;
    }
    throw error;
  }
}
