import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { EngineProcess, findDeathTie, type DeathTie } from "./engine-process.ts";

// These start programs, which a busy machine may take its time for.
vi.setConfig({ testTimeout: 30_000 });

const POLL = { timeout: 10_000 };
const STUBBORN = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.log('up')";

/** A worker reduced to one such program. */
const HOST = `
  import { EngineProcess } from ${JSON.stringify(new URL("engine-process.ts", import.meta.url).href)};
  const request = { command: process.execPath, args: ["-e", ${JSON.stringify(STUBBORN)}], cwd: "/", env: {} };
  const engine = new EngineProcess({ ...request, signal: new AbortController().signal }, JSON.parse(process.argv[1]));
  engine.child.stdout.once("data", () => process.send(engine.child.pid));
`;

function start(tie: DeathTie, script = STUBBORN): EngineProcess {
  const signal = new AbortController().signal;
  return new EngineProcess({ command: process.execPath, args: ["-e", script], cwd: "/", env: {}, signal }, tie);
}

/** A process nobody has collected yet is dead, although its number is still taken. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync("/proc/self/stat") || !/\) Z /.test(readFileSync(`/proc/${String(pid)}/stat`, "utf8"));
  } catch {
    return false;
  }
}

test("a program that ignores every polite signal is gone when it is killed", async () => {
  const engine = start(await findDeathTie());
  await once(engine.child.stdout, "data");
  engine.child.kill("SIGTERM");
  expect(await engine.isGone(100)).toBe(false);
  engine.kill();
  expect(await engine.isGone(10_000)).toBe(true);
  expect(engine.isRunning).toBe(false);
  engine.release();
});

test("what the program started goes with it", async () => {
  const script = `console.log(require('node:child_process').spawn('sleep', ['300']).pid); ${STUBBORN}`;
  const engine = start({ kind: "watchman" }, script);
  const [line] = (await once(engine.child.stdout, "data")) as [Buffer];
  const grandchild = Number.parseInt(line.toString("utf8"), 10);
  expect(isAlive(grandchild)).toBe(true);
  engine.kill();
  await engine.isGone(10_000);
  await expect.poll(() => isAlive(grandchild), POLL).toBe(false);
  engine.release();
});

test("a full error output does not stop the program, and its end is kept", async () => {
  const engine = start(
    { kind: "watchman" },
    "process.stderr.write('x'.repeat(300000) + 'the end', () => process.exit(3))",
  );
  expect(await engine.isGone(10_000)).toBe(true);
  expect(engine.child.exitCode).toBe(3);
  await expect.poll(() => engine.complaints.endsWith("the end"), POLL).toBe(true);
  engine.release();
});

test("a program that cannot be started is not running", async () => {
  const signal = new AbortController().signal;
  const request = { command: "/does/not/exist", args: [], cwd: "/", env: {}, signal };
  const engine = new EngineProcess(request, { kind: "watchman" });
  await once(engine.child, "error");
  expect(engine.isRunning).toBe(false);
  expect(await engine.isGone(1_000)).toBe(true);
  engine.release();
});

test.each([["kernel"], ["watchman"]])("by its %s tie a program dies with the worker that started it", async (kind) => {
  const found = await findDeathTie();
  const tie = kind === "watchman" || found.kind !== "kernel" ? ({ kind: "watchman" } as const) : found;
  const host = spawn(process.execPath, ["--input-type=module", "-e", HOST, JSON.stringify(tie)], {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const [pid] = (await once(host, "message")) as [number];
  expect(isAlive(pid)).toBe(true);
  host.kill("SIGKILL");
  await once(host, "exit");
  await expect.poll(() => isAlive(pid), POLL).toBe(false);
});
