import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Log } from "@signalbox/core";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Environment } from "../config/environment.ts";
import { WorkerChildren } from "./worker-children.ts";

/** Starting a process takes what a busy machine lets it take. */
const BOUND_MS = 30_000;
const PATIENTLY = { timeout: BOUND_MS - 2_000, interval: 20 };

vi.setConfig({ testTimeout: BOUND_MS });

let folder: string;
let warnings: Readonly<Record<string, unknown>>[];
let log: Log;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "children-"));
  warnings = [];
  log = {
    info: () => undefined,
    warn: (_message, facts = {}) => void warnings.push(facts),
    error: () => undefined,
  };
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** A worker that writes down how it was started, then does `what`. */
function binary(what: string): string {
  const path = join(folder, "worker.mjs");
  const note = `appendFileSync(${JSON.stringify(join(folder, "starts"))}, JSON.stringify({ pid: process.pid, words: process.argv.slice(2), env: process.env }) + "\\n");`;
  writeFileSync(path, `import { appendFileSync } from "node:fs";\n${note}\n${what}\n`);
  return path;
}

interface Start {
  readonly pid: number;
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

function starts(): readonly Start[] {
  try {
    const lines = readFileSync(join(folder, "starts"), "utf8").trim().split("\n");
    return lines.map((line) => JSON.parse(line) as Start);
  } catch {
    return [];
  }
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function childrenOf(path: string, environment: Environment = {}): WorkerChildren {
  return new WorkerChildren({ binary: path, environment, logLevel: "warn", log });
}

const WAIT = "process.stdin.resume(); process.on('SIGTERM', () => process.exit(0));";

it("a worker knows where the platform is and nothing else that is secret", async () => {
  const environment = { PATH: "/bin", HOME: "/h", ANTHROPIC_API_KEY: "sk-ant", DATABASE_URL: "postgresql://u:p@h/d" };
  await using children = childrenOf(binary(WAIT), environment);
  children.start("langgraph");
  await expect.poll(() => starts().length, PATIENTLY).toBe(1);
  const [start] = starts();
  expect(start?.words).toEqual(["worker", "--runtime", "langgraph", "--platform", "-", "--stop-with-parent"]);
  expect(start?.env).toEqual({ PATH: "/bin", HOME: "/h", SIGNALBOX_LOG_LEVEL: "warn" });
});

it("a worker hears where the platform is once it stands, also one that is started again", async () => {
  const hearing = `process.stdin.once("data", (line) => { appendFileSync(${JSON.stringify(join(folder, "heard"))}, line); process.exit(3); });`;
  const heard = (): string => (existsSync(join(folder, "heard")) ? readFileSync(join(folder, "heard"), "utf8") : "");
  await using children = childrenOf(binary(hearing));
  children.start("langgraph", 10);
  await expect.poll(() => starts().length, PATIENTLY).toBe(1);
  expect(heard()).toBe("");
  children.welcome({ platformUrl: "http://127.0.0.1:4621", joinToken: "join" });
  await expect
    .poll(heard, PATIENTLY)
    .toContain('{"platformUrl":"http://127.0.0.1:4621","joinToken":"join"}\n'.repeat(2));
});

it("a worker that dies is started again, later each time it dies young", async () => {
  await using children = childrenOf(binary("process.exit(3);"));
  children.start("langgraph", 10);
  await expect.poll(() => warnings.length, PATIENTLY).toBeGreaterThanOrEqual(4);
  expect(warnings.slice(0, 4).map(({ code, afterMs }) => [code, afterMs])).toEqual([
    [3, 10],
    [3, 20],
    [3, 40],
    [3, 80],
  ]);
});

it("all of them are gone at the end, and none comes back", async () => {
  const children = childrenOf(binary(WAIT));
  children.start("langgraph");
  children.start("claude_sdk");
  await expect.poll(() => starts().length, PATIENTLY).toBe(2);
  await children[Symbol.asyncDispose]();
  expect(starts().map(({ pid }) => lives(pid))).toEqual([false, false]);
  expect(warnings).toEqual([]);
});

it("leaves nothing on disk of one that was killed", async () => {
  const scratch = new URL("../../../worker/src/scratch.ts", import.meta.url).href;
  const making = `await (await import(${JSON.stringify(scratch)})).makeScratch(); ${WAIT}`;
  const left = (): readonly string[] => readdirSync(folder).filter((name) => name.startsWith("signalbox-worker-"));
  const children = childrenOf(binary(making), { TMPDIR: folder });
  children.start("langgraph", 60_000);
  await expect.poll(() => left().length, PATIENTLY).toBe(1);
  for (const { pid } of starts()) process.kill(pid, "SIGKILL");
  await expect.poll(() => warnings.length, PATIENTLY).toBe(1);
  expect(left()).toHaveLength(1);
  await children[Symbol.asyncDispose]();
  expect(left()).toEqual([]);
});

it("one that cannot be started at all keeps nobody from stopping", async () => {
  const children = childrenOf(join(folder, "nothing.mjs"));
  children.start("langgraph", 60_000);
  await expect.poll(() => warnings.length, PATIENTLY).toBe(1);
  await children[Symbol.asyncDispose]();
});
