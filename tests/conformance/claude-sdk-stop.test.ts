import { fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { spokenIn, type Block } from "./claude-sdk/model-double.ts";
import { enginesBelow, makeWorld, say, visibleTexts, type World } from "./claude-sdk/world.ts";

const READ = "mcp__signalbox__docs__read";

/** Two seconds are promised; the rest is for a busy machine. */
const STOP_LIMIT_MS = 5_000;

let world: World;
let never: Promise<void>;
let release: () => void;

beforeEach(async () => {
  ({ promise: never, resolve: release } = Promise.withResolvers<void>());
  world = await makeWorld(() => ({ blocks: [{ text: ["Once upon ", "a time ", never, "the end."] }] }));
});

afterEach(async () => {
  release();
  await world[Symbol.asyncDispose]();
});

test("an interrupt in the middle of a text keeps what was said, and the process goes on", async () => {
  const { session, transcript } = await world.open();
  const stop = new AbortController();
  let stoppedMs = 0;
  const { result, events } = await say(session, "A story", {
    turnId: "trn_1",
    signal: stop.signal,
    onEvent: (event) => {
      if (event.type === "text.delta" && event.text === "a time ") {
        stoppedMs = performance.now();
        stop.abort();
      }
    },
  });

  expect(result).toMatchObject({
    outcome: "interrupted",
    answer: "Once upon a time ",
    leaf: transcript.leaf,
    error: null,
  });
  expect(performance.now() - stoppedMs).toBeLessThan(STOP_LIMIT_MS);
  expect(visibleTexts(events)).toEqual(["Once upon a time "]);
  expect(events.at(-1)).toEqual({ type: "text.completed", itemId: "itm_1", text: "Once upon a time " });

  world.model.script = () => ({ blocks: [{ text: ["Another."] }] });
  expect((await say(session, "Another one", { turnId: "trn_2" })).result.answer).toBe("Another.");
  const resumed = await world.open({ rung: "native", leaf: transcript.leaf, transcript, generation: 2 });
  await say(resumed.session, "And now?", { turnId: "trn_3" });
  expect(spokenIn(world.model.requests.at(-1)!).slice(0, 2)).toEqual(["user: A story", "assistant: Once upon a time"]);
});

test("an interrupt that comes before the engine has read the message still stops the turn", async () => {
  const { session } = await world.open();
  const { result: unsent } = await say(session, "Never sent", { signal: AbortSignal.abort() });
  expect(unsent).toMatchObject({ outcome: "interrupted", answer: "", leaf: null });
  expect(world.model.requests).toEqual([]);

  const stop = new AbortController();
  const said = say(session, "A story", { signal: stop.signal });
  stop.abort();
  const { result } = await said;
  expect(result.outcome).toBe("interrupted");
  expect(result.answer).not.toContain("the end.");
});

test("an interrupt inside a tool call leaves a transcript that can be resumed", async () => {
  const calls: readonly Block[] = [
    { text: ["Looking. "] },
    { tool: READ, id: "toolu_1", input: { path: "a.md" } },
    { tool: READ, id: "toolu_2", input: { path: "b.md" } },
  ];
  world.model.script = () => ({ blocks: calls });
  const stop = new AbortController();
  world.tools.handle = async () => {
    stop.abort();
    await never;
    return "too late";
  };
  const { session, transcript } = await world.open();
  const { result } = await say(session, "Look", { turnId: "trn_1", signal: stop.signal });
  expect(result).toMatchObject({ outcome: "interrupted", answer: "Looking. " });
  expect(world.tools.calls.length).toBe(1);

  world.model.script = () => ({ blocks: [{ text: ["Fine."] }] });
  const resumed = await world.open({ rung: "native", leaf: result.leaf, transcript, generation: 2 });
  expect((await say(resumed.session, "Next", { turnId: "trn_2" })).result.answer).toBe("Fine.");
});

test("disposing in the middle of a turn ends the step and leaves no process", async () => {
  const { session } = await world.open();
  const { promise: hasBegun, resolve: begun } = Promise.withResolvers<void>();
  const said = say(session, "A story", { onEvent: (event) => event.type === "text.delta" && begun() });
  await hasBegun;
  await session[Symbol.asyncDispose]();
  expect((await said).result.outcome).toBe("interrupted");
  expect(world.engines()).toEqual([]);
});

test("an engine that does not answer is killed, and the step still ends in time", async () => {
  const { session, losses } = await world.open();
  const stop = new AbortController();
  let stoppedMs = 0;
  const { result } = await say(session, "A story", {
    signal: stop.signal,
    onEvent: (event) => {
      if (event.type === "text.delta" && stoppedMs === 0) {
        world.engines().forEach((pid) => process.kill(pid, "SIGSTOP"));
        stoppedMs = performance.now();
        stop.abort();
      }
    },
  });
  expect(result).toMatchObject({ outcome: "interrupted", answer: expect.stringContaining("Once upon ") as string });
  expect(performance.now() - stoppedMs).toBeLessThan(STOP_LIMIT_MS);
  expect(losses.map((loss) => loss.code)).toEqual(["worker_lost"]);
  await expect.poll(() => world.engines(), { timeout: 10_000 }).toEqual([]);
});

test("an engine that dies is reported once, and what it had not finished is taken back", async () => {
  const { session, losses } = await world.open();
  const { result, events } = await say(session, "A story", {
    onEvent: (event) => event.type === "text.delta" && world.engines().forEach((pid) => process.kill(pid, "SIGKILL")),
  });
  const detail = "The engine's process ended before its turn did.";
  expect(result).toMatchObject({ outcome: "failed", answer: "", error: { code: "worker_lost", detail } });
  expect(losses.map((loss) => loss.detail)).toEqual([detail]);
  expect(visibleTexts(events)).toEqual([]);
  expect(losses.map((loss) => loss.code)).toEqual(["worker_lost"]);
});

test("an engine that dies between two turns is reported, and the next step does not begin", async () => {
  const { session, losses } = await world.open();
  world.engines().forEach((pid) => process.kill(pid, "SIGKILL"));
  await expect.poll(() => losses.map((loss) => loss.code), { timeout: 10_000 }).toEqual(["worker_lost"]);
  const { result } = await say(session, "Still there?");
  expect(result).toMatchObject({ outcome: "failed", leaf: null, error: { code: "worker_lost" } });
  expect(world.model.requests).toEqual([]);
});

test("a session whose engine hangs is left like any other", async () => {
  const { session } = await world.open();
  world.engines().forEach((pid) => process.kill(pid, "SIGSTOP"));
  await session[Symbol.asyncDispose]();
  expect(world.engines()).toEqual([]);
  expect(readdirSync(world.scratchDir)).toEqual([]);
});

test("killing the hosting process in the middle of a stream leaves no engine", async () => {
  const host = fork(fileURLToPath(new URL("claude-sdk/host.ts", import.meta.url)), [], {
    execArgv: ["--conditions=@signalbox/source"],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  try {
    host.send({ scratchDir: world.scratchDir, gates: { model: world.model.url, tool: world.tools.url } });
    await once(host, "message");
    expect(enginesBelow(world.scratchDir).length).toBe(1);
  } finally {
    host.kill("SIGKILL");
  }
  await once(host, "exit");
  await expect.poll(() => enginesBelow(world.scratchDir), { timeout: 10_000 }).toEqual([]);

  // The next worker on this directory clears what the dead one could not.
  const { createExecutor } = await import("@signalbox/executor-claude-sdk");
  await createExecutor({ scratchDir: world.scratchDir });
});
