/** P-11: `npm start` on a warm checkout, from its launch to its first answered message. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Bar, BarResult, BenchOptions } from "../bar.ts";
import { median, ms, rounded } from "../statistics.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const RUN_COUNT = 5;
const FIRST_ANSWER_MS = 5_000;
const STARTS_WITHIN_MS = 120_000;
/** What the main job prints when a run was answered. */
const ANSWERED = /^\s*completed · /;

export const start: Bar = {
  id: "P-11",
  title: "npm start, from launch to the first answer",
  cases: ["P-11", "P-11/new-data"],
  measure,
};

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  const runCount = Math.min(options.runCount ?? RUN_COUNT, RUN_COUNT);
  const folder = mkdtempSync(join(tmpdir(), "sbx-bench-start-"));
  // A database server that drops root must be able to walk through.
  chmodSync(folder, 0o755);
  try {
    const kept = join(folder, "kept");
    options.say("npm start, once to warm up");
    await firstAnswerMs(kept, options);
    if (options.wants("P-11")) {
      const times: number[] = [];
      for (let run = 0; run < runCount; run += 1) times.push(await firstAnswerMs(kept, options));
      yield resultOf("P-11", times, "data folder of an earlier start");
    }
    if (options.wants("P-11/new-data")) {
      const times: number[] = [];
      for (let run = 0; run < runCount; run += 1) times.push(await firstAnswerMs(join(folder, `new-${run}`), options));
      yield { ...resultOf("P-11/new-data", times, "new data folder, so with a new database"), bar: null, holds: null };
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function resultOf(id: string, times: readonly number[], what: string): BarResult {
  const value = rounded(median(times));
  const all = times.map((time) => ms(time)).join(", ");
  return {
    id,
    value,
    unit: "ms",
    bar: FIRST_ANSWER_MS,
    holds: value <= FIRST_ANSWER_MS,
    n: times.length,
    note: `from launch to the first line that says completed; ${what}; each: ${all}`,
  };
}

async function firstAnswerMs(dataDir: string, { say, interrupted }: BenchOptions): Promise<number> {
  interrupted.throwIfAborted();
  const port = await freePort();
  const startMs = performance.now();
  const child = spawn("npm", ["start", "--", "--once", "--port", String(port), "--data-dir", dataDir], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "inherit"],
    signal: AbortSignal.any([interrupted, AbortSignal.timeout(STARTS_WITHIN_MS)]),
  });
  const ended = once(child, "exit") as Promise<[code: number | null]>;
  let answeredMs = Number.NaN;
  const said: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    said.push(line);
    if (Number.isNaN(answeredMs) && ANSWERED.test(line)) answeredMs = performance.now() - startMs;
  }
  const [code] = await ended;
  if (code !== 0 || Number.isNaN(answeredMs)) throw new Error(`npm start did not answer:\n${said.join("\n")}`);
  say(`npm start: first answer after ${ms(answeredMs)}`);
  return answeredMs;
}

/** A port whose neighbour above is free as well, which the gates take. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = await listened(0);
    if (port !== null && (await listened(port + 1)) !== null) return port;
  }
}

function listened(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(null));
    probe.listen(port, "127.0.0.1", () => {
      // A listening TCP server has an address of this kind.
      const { port: given } = probe.address() as AddressInfo;
      probe.close(() => resolve(given));
    });
  });
}
