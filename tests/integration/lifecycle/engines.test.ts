/** After a cancel nothing goes on: not the model call, not an engine that is stuck, not one that nobody leads any more. */
import { readFileSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import type { RealProcess } from "../../setup/real-processes.ts";
import { until } from "../../setup/until.ts";
import { conversationWith } from "../platform/stage.ts";
import { setDesk, speaks } from "./desk.ts";
import { told } from "./told-model.ts";

/** INV-20: engine processes are gone within this after an acknowledged cancel. */
const GONE_MS = 10_000;
/** How long a worker may hear nobody, and how often it looks. */
const UNLED_MS = 10_000 + 2_500;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

function childrenOf({ child }: RealProcess): readonly number[] {
  const path = `/proc/${String(child.pid)}/task/${String(child.pid)}/children`;
  return readFileSync(path, "utf8").trim().split(" ").filter(Boolean).map(Number);
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe.each(["langgraph", "claude_sdk"])("%s", (runtime) => {
  test("a cancel cuts the model call that is outside, and no other one follows", async () => {
    const { stage } = await setDesk(stack);
    stage.worker(runtime);
    const conversation = await conversationWith(stage.client, runtime);
    const run = await conversation.send(told("A", "hang"));
    await speaks(run);
    const count = stage.sim.modelRequests().length;
    await run.cancel();
    await stage.sim.waitFor((requests) => requests.every(({ closedAtMs }) => closedAtMs !== null), GONE_MS);
    expect(await run.result()).toMatchObject({ outcome: "cancelled", reason: "user_cancel", text: "to A and " });
    expect(stage.sim.modelRequests()).toHaveLength(count);
    expect((await (await conversation.send(told("B"))).result()).text).toBe("to B");
  });
});

test("an engine that is stuck when its run is cancelled is gone within ten seconds, and the next message is answered", async () => {
  const { stage } = await setDesk(stack);
  const worker = stage.worker("claude_sdk");
  const conversation = await conversationWith(stage.client, "claude_sdk");
  const run = await conversation.send(told("A", "hang"));
  await speaks(run);
  const engines = childrenOf(worker);
  expect(engines.length).toBeGreaterThan(0);
  for (const pid of engines) process.kill(pid, "SIGSTOP");
  await run.cancel();
  await until("the engine to be gone", () => !engines.some(lives), GONE_MS);
  expect(await run.result()).toMatchObject({ outcome: "cancelled", reason: "user_cancel" });
  expect((await (await conversation.send(told("B"))).result()).text).toBe("to B");
});

test("a worker that hears from no supervisor for one lease ends its engines by itself", async () => {
  const { stage } = await setDesk(stack);
  const worker = stage.worker("claude_sdk");
  const conversation = await conversationWith(stage.client, "claude_sdk");
  await speaks(await conversation.send(told("A", "hang")));
  const engines = childrenOf(worker);
  expect(engines.length).toBeGreaterThan(0);
  await stage.served.process.kill("SIGKILL");
  await until("the engines to be gone", () => !engines.some(lives), UNLED_MS + GONE_MS);
  expect(worker.running).toBe(true);
});
