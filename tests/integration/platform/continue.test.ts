/**
 * What a user sees of a turn whose worker or platform dies between two model calls: it goes on from there. The tool is
 * not called again, the model is not asked again for what it had said, and the stream shows one whole answer.
 */
import { startMcpServer, type McpNeighbour } from "@signalbox/testkit";
import type { PlatformEvent } from "@signalbox/contract";
import { afterEach, describe, expect, test } from "vitest";
import { conversationWith, setStage, type Stage } from "./stage.ts";

const RUNTIMES = ["langgraph", "claude_sdk"] as const;
/** Looks once, then answers slowly: there is time to die in the second model call. */
const questionFor = (runtime: string): string => {
  const tool = runtime === "claude_sdk" ? "mcp__signalbox__docs__look" : "docs__look";
  return `[[sim:tool ${tool} {"at":"shelf"}]] [[sim:slow 60]] What stands there?`;
};
const FOUND =
  "On the shelf stand forty-two bottles of green ink, seven broken lanterns, an almanac of tides, two brass keys on a " +
  "string, and a jar of buttons that nobody has counted since the winter when the river froze from bank to bank.";
const SEEN_BEFORE_KILL = 2;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

interface Scene {
  readonly stage: Stage;
  readonly shelf: McpNeighbour;
}

async function makeScene(): Promise<Scene> {
  const shelf = stack.use(await startMcpServer({ tools: { look: { result: FOUND } } }));
  const tools = { look: { effect: "read" } };
  const stage = await setStage(stack, {
    toolServers: { docs: { transport: "http", url: shelf.url, headers: {}, tools } },
  });
  return { stage, shelf };
}

/** Sends the question, kills when the second model call has begun to speak, reads on to the end. */
async function killedInSecondCall(
  scene: Scene,
  runtime: string,
  kill: () => Promise<void>,
): Promise<readonly PlatformEvent[]> {
  const conversation = await conversationWith(scene.stage.client, runtime, ["docs/look"]);
  const run = await conversation.send(questionFor(runtime));
  const seen: PlatformEvent[] = [];
  let killed = false;
  for await (const event of run.events({ signal: AbortSignal.timeout(110_000) })) {
    seen.push(event);
    const looked = seen.findIndex((each) => each.type === "tool.finished");
    const spoken = seen.slice(looked + 1).filter((each) => each.type === "text.delta").length;
    if (!killed && looked >= 0 && spoken >= SEEN_BEFORE_KILL) {
      killed = true;
      await kill();
    }
  }
  expect(killed).toBe(true);
  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) {
    // A delta that is not durable yet comes along with the log and is no part of it.
    if (event.sequence !== null) log.push(event);
  }
  expect(log.map((event) => event.sequence)).toEqual(log.map((_, place) => place + 1));
  const live = seen.flatMap((event) => event.sequence ?? []);
  expect(live).toEqual([...new Set(live)].sort((left, right) => left - right));
  expect(log.filter((event) => event.type === "run.finished")).toMatchObject([{ outcome: "completed" }]);
  const history = [];
  for await (const message of conversation.messages()) history.push(message);
  expect(history.map((message) => message.role)).toEqual(["user", "assistant"]);
  const standing = new Map<string, string>();
  for (const event of seen) {
    if (event.type === "text.completed") standing.set(event.itemId, event.text);
    if (event.type === "text.retracted") standing.delete(event.itemId);
  }
  expect([...standing.values()].at(-1)).toBe(history[1]?.content);
  return log;
}

/** One call of the tool, and of the model one more than the turn needs: the one that was cut. */
function expectContinued(log: readonly PlatformEvent[], { shelf, stage }: Scene): void {
  expect(shelf.count("look")).toBe(1);
  expect(log.flatMap((event) => (event.type === "tool.finished" ? [event.state] : []))).toEqual(["succeeded"]);
  const composed = log.flatMap((event) => (event.type === "turn.composed" ? [event.rung] : []));
  expect(composed).toEqual(["fresh", "repaired"]);
  const asked = stage.sim.modelRequests().map((request) => JSON.stringify(request.body).includes("tool_result"));
  expect(asked).toEqual([false, true, true]);
}

describe.each(RUNTIMES)("%s", (runtime) => {
  test("a worker killed in the second model call: another goes on behind the tool's result", async () => {
    const scene = await makeScene();
    const first = scene.stage.worker(runtime);
    const log = await killedInSecondCall(scene, runtime, async () => {
      scene.stage.worker(runtime);
      await first.kill("SIGKILL");
    });
    expect(log.filter((event) => event.type === "run.recovered")).toMatchObject([{ cause: "worker_lost" }]);
    expectContinued(log, scene);
  });

  test("the platform killed in the second model call: after its restart the turn goes on", async () => {
    const scene = await makeScene();
    scene.stage.worker(runtime);
    const log = await killedInSecondCall(scene, runtime, async () => {
      await scene.stage.served.process.kill("SIGKILL");
      await scene.stage.restart();
    });
    expect(log.filter((event) => event.type === "run.recovered")).toMatchObject([{ cause: "owner_lost" }]);
    expectContinued(log, scene);
  });
});
