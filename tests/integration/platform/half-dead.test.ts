/** What stands when only a part of the way dies: the worker in the middle of a payment, the engine under its worker. */
import { readFileSync } from "node:fs";
import type { ConversationHandle } from "@signalbox/client";
import type { PlatformEvent } from "@signalbox/contract";
import { startMcpServer } from "@signalbox/testkit";
import { afterEach, expect, test } from "vitest";
import type { RealProcess } from "../../setup/real-processes.ts";
import { until } from "../../setup/until.ts";
import { conversationWith, setStage } from "./stage.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

async function logOf(conversation: ConversationHandle): Promise<readonly PlatformEvent[]> {
  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  return log;
}

test("a worker dies while its run pays: the payment is waited for, made once, and told as it was", async () => {
  const paying = Promise.withResolvers<void>();
  const pay = { handler: () => paying.promise.then(() => "paid") };
  const bank = stack.use(await startMcpServer({ tools: { pay } }));
  const tools = { pay: { effect: "write", timeoutMs: 60_000 } };
  const toolServers = { bank: { transport: "http", url: bank.url, headers: {}, tools } };
  const stage = await setStage(stack, { toolServers });
  const first = stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph", ["bank/pay"]);
  const run = await conversation.send("[[sim:tool bank__pay {}]]");
  await bank.waitFor((calls) => calls.length === 1, 20_000);
  stage.worker("langgraph");
  await first.kill("SIGKILL");

  const told = async (type: PlatformEvent["type"]) =>
    (await logOf(conversation)).filter((event) => event.type === type);
  // The gate lives, and so does the call: whoever goes on with the turn waits for it.
  await until("another worker to go on", async () => (await told("run.recovered")).length > 0, 60_000);
  expect(await told("tool.finished")).toEqual([]);
  expect(bank.calls).toMatchObject([{ outcome: "open" }]);

  paying.resolve();
  expect(await run.result()).toMatchObject({ outcome: "completed" });
  expect(await told("tool.finished")).toMatchObject([{ state: "succeeded" }]);
  expect(bank.calls).toMatchObject([{ outcome: "answered" }]);
  expect(await (await conversation.send("And now?")).result()).toMatchObject({ outcome: "completed" });
  expect(bank.calls).toHaveLength(1);
});

test("an engine's process dies under its worker: the turn runs again, and nobody reads its last words", async () => {
  const stage = await setStage(stack);
  const worker = stage.worker("claude_sdk");
  const conversation = await conversationWith(stage.client, "claude_sdk");
  expect(await (await conversation.send("Hello")).result()).toMatchObject({ outcome: "completed" });
  const run = await conversation.send("[[sim:tokens 60]] [[sim:slow 50]] Tell me something long.");
  let killed = false;
  for await (const event of run.events({ signal: AbortSignal.timeout(90_000) })) {
    if (!killed && event.type === "text.delta") {
      killed = true;
      for (const pid of childrenOf(worker)) process.kill(pid, "SIGKILL");
    }
  }
  expect(killed).toBe(true);
  expect(await run.result()).toMatchObject({ outcome: "completed", reason: "answered" });
  const log = await logOf(conversation);
  expect(log.filter((event) => event.type === "run.recovered")).toMatchObject([{ cause: "worker_lost" }]);
  expect(log.filter((event) => event.type === "run.finished")).toHaveLength(2);
  expect(worker.running).toBe(true);
  expect(worker.output).toContain("an engine was lost");
});

function childrenOf({ child }: RealProcess): readonly number[] {
  const path = `/proc/${String(child.pid)}/task/${String(child.pid)}/children`;
  return readFileSync(path, "utf8").trim().split(" ").map(Number);
}
