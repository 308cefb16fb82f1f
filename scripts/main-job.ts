/**
 * The main job: boots the `sim` model where no real one is at hand, then the platform with one worker per runtime, and
 * lets one agent on each runtime answer the same question about the documents of this repository through a governed
 * tool of a third-party MCP server. Stays up afterwards, or ends with `--once`.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Signalbox, SignalboxError } from "@signalbox/client";
import { chooseModel, type ChosenModel } from "./choose-model.ts";
import { askEach } from "./demo-question.ts";

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
/** The one that starts faster first: its answer stands while the other one's engine starts. */
const RUNTIMES = ["langgraph", "claude_sdk"] as const;
const RUNTIME_WAIT_MS = 30_000;
const STOP_WAIT_MS = 30_000;
const startedAtMs = performance.now();

const OPTIONS = {
  once: { type: "boolean" },
  port: { type: "string" },
  "data-dir": { type: "string" },
  question: { type: "string" },
} as const;
const flags = readFlags();

const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => interrupted.abort());
// Whoever started this holds the other end of a channel: when they are gone, so is the reason to go on.
process.on("disconnect", () => interrupted.abort());
// Listening alone must not keep this process: when the work is done, it ends.
process.channel?.unref();
const children: ChildProcess[] = [];
/** What the simulated model says when it is up: `null` when it does not come up, nothing when a real one answers. */
let simulated: Promise<string | null> | undefined;
const scratch = mkdtempSync(join(tmpdir(), "signalbox-start-"));

try {
  process.exitCode = await run();
} catch (thrown) {
  // What was under way when somebody pressed Ctrl-C ends with an abort, which is no news.
  if (!interrupted.signal.aborted) {
    say(thrown instanceof SignalboxError ? `${thrown.message} (${thrown.code})` : String(thrown));
    process.exitCode = 1;
  }
} finally {
  for (const child of children.toReversed()) await stop(child);
  rmSync(scratch, { recursive: true, force: true });
}

async function run(): Promise<number> {
  const port = Number(flags.port ?? process.env.PORT ?? 4620);
  if (!(await portIsFree(port)) || !(await portIsFree(port + 1))) {
    say(
      `Port ${port} or ${port + 1} is in use, perhaps by another \`npm start\`. Stop that one, or choose another: npm start -- --port 4700`,
    );
    return 1;
  }
  const model = await chooseModel({ environment: process.env, startSim });
  say(model.disclosure);
  say("Starting the database, the platform and one worker per runtime …");
  const platform = await startPlatform(port, model);
  if (platform === null) return interrupted.signal.aborted ? 0 : 1;
  if ((await simulated) === null) throw new Error("the simulated model did not start");
  const client = new Signalbox(platform);
  const answered = await askEach(RUNTIMES, {
    client,
    offered: (runtime) => waitForRuntime(client, runtime),
    model: model.name,
    url: platform.url,
    question: flags.question,
    launchedAtMs: startedAtMs,
    say,
    write: (text) => process.stdout.write(text),
    interrupted: interrupted.signal,
  });
  if (interrupted.signal.aborted) return 0;
  if (flags.once === true) return answered ? 0 : 1;
  say(`\nUp. Talk to it:      npx signalbox chat docs-langgraph`);
  say(`Watch a conversation: npx signalbox events <conversation>`);
  say(`Or in a browser:      ${platform.url}/#key=${platform.apiKey}`);
  say(`API:                  ${platform.url}/openapi.json   key: ${platform.apiKey}`);
  say(`Ctrl-C drains and stops.`);
  await Promise.race([aborted(interrupted.signal), once(platform.child, "exit")]);
  return interrupted.signal.aborted ? 0 : 1;
}

function readFlags() {
  try {
    return parseArgs({ options: OPTIONS }).values;
  } catch (thrown) {
    say(thrown instanceof Error ? thrown.message : String(thrown));
    say("npm start takes: -- [--once] [--port 4620] [--data-dir .signalbox] [--question TEXT]");
    process.exit(2);
  }
}

interface StartedPlatform {
  readonly url: string;
  readonly apiKey: string;
  readonly child: ChildProcess;
}

async function startPlatform(port: number, model: ChosenModel): Promise<StartedPlatform | null> {
  const toolServers = join(scratch, "mcp-servers.json");
  writeFileSync(toolServers, JSON.stringify(documentServer()));
  const words = ["dev", "--json", "--port", String(port), "--mcp-servers", toolServers, "--log-level", "warn"];
  if (flags["data-dir"] !== undefined) words.push("--data-dir", flags["data-dir"]);
  const child = start([join(root, "packages/server/dist/main.js"), ...words], { ...process.env, ...model.environment });
  const ready = await firstLine(child);
  if (ready === null) return null;
  const { url, apiKey } = JSON.parse(ready) as { url: string; apiKey: string };
  return { url, apiKey, child };
}

/** The filesystem server of the MCP project over the documents of this repository; its reading tools are declared `read`. */
function documentServer(): Record<string, unknown> {
  const read = { effect: "read" };
  return {
    docs: {
      transport: "stdio",
      command: process.execPath,
      args: [join(root, "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"), join(root, "docs")],
      cwd: root,
      tools: { list_allowed_directories: read, list_directory: read, search_files: read, read_text_file: read },
    },
  };
}

/** Starts beside the platform, which only needs to know where it will be. */
async function startSim(): Promise<string> {
  const port = await freePort();
  const words = ["--port", String(port), "--ids", "unique", "--exit-with-parent"];
  simulated = firstLine(start([join(root, "packages/testkit/dist/sim/main.js"), ...words], process.env));
  return `http://127.0.0.1:${port}`;
}

/** Whether a worker offers the runtime; waits until one says so, or says why not. */
async function waitForRuntime(client: Signalbox, name: string): Promise<boolean> {
  const deadlineMs = performance.now() + RUNTIME_WAIT_MS;
  for (;;) {
    const runtime = (await client.runtimes()).find((each) => each.name === name);
    if (runtime?.available === true) return true;
    if (runtime !== undefined || performance.now() > deadlineMs || interrupted.signal.aborted) {
      say(`\n${name} is left out: ${runtime?.problem ?? "its worker did not come up; its own messages above say why"}`);
      return false;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function start(words: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  // A group of its own, so that Ctrl-C reaches this process alone and the order of stopping is ours.
  const child = spawn(process.execPath, [...words], {
    cwd: process.cwd(),
    env,
    stdio: ["pipe", "pipe", "inherit"],
    detached: true,
  });
  children.push(child);
  return child;
}

async function firstLine(child: ChildProcess): Promise<string | null> {
  if (child.stdout === null) return null;
  const lines = createInterface({ input: child.stdout });
  const [line] = (await Promise.race([
    once(lines, "line"),
    once(child, "exit").then(() => [null]),
    aborted(interrupted.signal).then(() => [null]),
  ])) as [string | null];
  return line;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_WAIT_MS);
  await ended;
  clearTimeout(timer);
}

function portIsFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => resolve(address !== null && typeof address === "object" ? address.port : 0));
    });
  });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
