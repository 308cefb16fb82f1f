/** `sim` as a process of its own, for tests and measurements in which the double must not share one. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { PlatformError } from "@signalbox/contract";
import { objectOf, parseJson, stringOf } from "./json.ts";
import { nodeArguments } from "./node-entry.ts";
import type { RecordedRequest } from "./recording.ts";

/** `sim` in a process of its own. Disposing of it ends the process, and so does the end of this one. */
export interface SimProcess extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** What the process has recorded; without the values of authorising headers. */
  requests(): Promise<readonly RecordedRequest[]>;
  /** Ends the process and waits until it is gone. */
  close(): Promise<void>;
}

const STARTS_WITHIN_MS = 20_000;
const STOPS_WITHIN_MS = 5_000;

/** `options` are those of the command line. Ends with `internal` when the process does not come up. */
export async function startSimProcess(options: readonly string[] = []): Promise<SimProcess> {
  const child = spawn(process.execPath, [...nodeArguments("sim/main"), ...options, "--exit-with-parent"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const line = await firstLine(child);
  const up = objectOf(parseJson(line ?? ""));
  const url = stringOf(up.url);
  const close = () => end(child);
  if (child.pid === undefined || url === "") {
    await close();
    throw new PlatformError("internal", "The simulated model did not come up.");
  }
  return {
    url,
    pid: child.pid,
    requests: async () => {
      const response = await fetch(`${url}/sim/requests`);
      // Our own server on the other end; its shape is that of the record.
      return (await response.json()) as readonly RecordedRequest[];
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Null when the process ends, or stays silent for too long. */
async function firstLine(child: ChildProcess): Promise<string | null> {
  if (child.stdout === null) {
    return null;
  }
  const lines = createInterface(child.stdout);
  const signal = AbortSignal.timeout(STARTS_WITHIN_MS);
  try {
    const first = await Promise.race([once(lines, "line", { signal }), once(lines, "close", { signal })]);
    const text: unknown = first[0];
    return typeof text === "string" ? text : null;
  } catch {
    return null;
  } finally {
    lines.close();
    child.stdout.resume();
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) {
    return;
  }
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOPS_WITHIN_MS);
  await exited;
  clearTimeout(timer);
}
