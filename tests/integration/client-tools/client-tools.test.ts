/** Tools that the caller carries out, and questions to the person: on both engines, over real processes. */
import type { ConversationHandle, RunHandle } from "@signalbox/client";
import type { Hold, HoldKind } from "@signalbox/contract";
import { afterEach, describe, expect, test } from "vitest";
import { logOf, RUNTIMES, untilSuspended, type Runtime } from "../approvals/scene.ts";
import { rowsOf, setStage, type Stage } from "../platform/stage.ts";
import type { RealProcess } from "../../setup/real-processes.ts";
import { until } from "../../setup/until.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

interface Scene {
  readonly stage: Stage;
  readonly worker: RealProcess;
  readonly conversation: ConversationHandle;
}

const ENGINE_MS = 60_000;

async function setScene(runtime: Runtime, patienceMs = 300_000): Promise<Scene> {
  const stage = await setStage(stack);
  const worker = stage.worker(runtime);
  await until(
    `a worker with ${runtime}`,
    async () => (await stage.client.runtimes()).some((each) => each.name === runtime && each.available),
    ENGINE_MS,
  );
  const { id: agent } = await stage.client.agents.create({
    name: "guide",
    runtime,
    model: "sim/extractive-1",
    instructions: "Guide.",
    askUser: true,
    clientTools: [
      {
        name: "open_app",
        description: "Open a page of the product.",
        inputSchema: { type: "object", properties: { page: { type: "string" } }, required: ["page"] },
        effect: "read",
        patienceMs,
      },
    ],
  });
  return { stage, worker, conversation: await stage.client.as({ user: "u_1" }).conversations.create({ agent }) };
}

function askFor(runtime: Runtime, tool: string, input: object): string {
  const prefix = runtime === "claude_sdk" ? "mcp__signalbox__" : "";
  return `[[sim:tool ${prefix}${tool} ${JSON.stringify(input)}]] Please.`;
}

async function holdOf({ stage }: Scene, run: RunHandle, kind: HoldKind): Promise<Hold> {
  return await until(
    `a hold of kind ${kind}`,
    async () => (await stage.client.holds.list({ run: run.id, state: "open" })).data.find((hold) => hold.kind === kind),
    ENGINE_MS,
  );
}

const toldModel = ({ stage }: Scene): string => JSON.stringify(stage.sim.modelRequests().at(-1)?.body);

describe.each(RUNTIMES)("%s", (runtime) => {
  test("a call is handed to the client once, and what it says first is the result", async () => {
    const scene = await setScene(runtime);
    const { stage, conversation } = scene;
    const run = await conversation.send(askFor(runtime, "open_app", { page: "orders" }));
    const hold = await holdOf(scene, run, "client_tool");
    expect(JSON.parse(String(hold.subject.argumentsJson))).toEqual({ page: "orders" });
    const id = String(hold.subject.toolCallId);
    const started = (await logOf(conversation)).filter(({ type }) => type === "tool.started");
    expect(started).toMatchObject([{ toolCallId: id, executor: "client", effect: "read" }]);
    const stranger = stage.client.as({ user: "u_2" });
    await expect(stranger.toolCalls.result(id, { content: "mine" })).rejects.toMatchObject({ code: "not_found" });

    const mine = stage.client.as({ user: "u_1" });
    expect((await mine.toolCalls.result(id, { content: "orders is open" })).outcome).toBe("decided");
    const second = await mine.toolCalls.result(id, { content: "another story", isError: true });
    expect(second).toMatchObject({ outcome: "already_decided", hold: { response: { content: "orders is open" } } });
    expect(second.hold.decidedBy).toMatchObject({ user: "u_1" });
    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(toldModel(scene)).toContain("orders is open");
    expect(toldModel(scene)).not.toContain("another story");
    const finished = (await logOf(conversation)).filter(({ type }) => type === "tool.finished");
    expect(finished).toMatchObject([{ toolCallId: id, state: "succeeded", resultSummary: "orders is open" }]);
  }, 180_000);

  test("a run that waits for its client needs nobody, and goes on wherever it is answered", async () => {
    const scene = await setScene(runtime);
    const { stage, worker, conversation } = scene;
    const run = await conversation.send(askFor(runtime, "open_app", { page: "orders" }));
    const { subject } = await holdOf(scene, run, "client_tool");
    await untilSuspended(scene, run);
    await Promise.all([worker.kill("SIGKILL"), stage.served.process.kill("SIGKILL")]);
    await stage.restart();
    stage.worker(runtime);
    await stage.client.toolCalls.result(String(subject.toolCallId), { content: "it broke", isError: true });
    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(toldModel(scene)).toContain("it broke");
    const log = await logOf(conversation);
    expect(log.filter(({ type }) => type === "tool.started")).toHaveLength(1);
    expect(log.filter(({ type }) => type === "tool.finished")).toMatchObject([{ state: "failed" }]);
  }, 240_000);

  test("where no client answers in time the model reads that, by name", async () => {
    const scene = await setScene(runtime, 1_000);
    const run = await scene.conversation.send(askFor(runtime, "open_app", { page: "orders" }));
    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(toldModel(scene)).toContain("client_tool_unanswered");
    const [row] = await rowsOf<{ state: string; error_code: string }>(
      scene.stage,
      "select state, error_code from signalbox.tool_call",
    );
    expect(row).toEqual({ state: "failed", error_code: "client_tool_unanswered" });
  }, 180_000);

  test("a question is answered once, by one of its choices, and the model reads the answer", async () => {
    const scene = await setScene(runtime);
    const { holds } = scene.stage.client;
    const question = { question: "Which colour?", choices: ["red", "blue"] };
    const run = await scene.conversation.send(askFor(runtime, "ask_user", question));
    const hold = await holdOf(scene, run, "input");
    expect(hold.subject).toMatchObject(question);
    await expect(holds.decide(hold.id, { decision: "respond", response: "green" })).rejects.toMatchObject({
      code: "invalid_request",
    });
    await holds.decide(hold.id, { decision: "respond", response: "blue" });
    expect((await holds.decide(hold.id, { decision: "respond", response: "red" })).outcome).toBe("already_decided");
    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(toldModel(scene)).toContain("blue");
    // The question itself names both; the answer is the only result.
    const [row] = await rowsOf<{ result: string }>(scene.stage, "select result from signalbox.tool_call");
    expect(JSON.parse(row?.result ?? "")).toEqual({ content: [{ type: "text", text: "blue" }], isError: false });
  }, 180_000);
});

test("an answer fits the schema that the question came with, and the model reads it whole", async () => {
  const scene = await setScene("langgraph");
  const { holds } = scene.stage.client;
  const schema = {
    type: "object",
    properties: { reason: { type: "string" }, count: { type: "integer" } },
    required: ["count"],
  };
  const run = await scene.conversation.send(askFor("langgraph", "ask_user", { question: "How many?", schema }));
  const hold = await holdOf(scene, run, "input");
  await expect(
    holds.decide(hold.id, { decision: "respond", response: { reason: "spare ones", count: "three" } }),
  ).rejects.toMatchObject({ code: "invalid_request", problem: { errors: [{ pointer: "/response/count" }] } });
  await expect(holds.decide(hold.id, { decision: "respond" })).rejects.toMatchObject({ code: "invalid_request" });
  await holds.decide(hold.id, { decision: "respond", response: { reason: "spare ones", count: 3 } });
  expect(await run.result()).toMatchObject({ outcome: "completed" });
  const [row] = await rowsOf<{ result: string }>(scene.stage, "select result from signalbox.tool_call");
  // It was written by the platform as MCP has it.
  const { content } = JSON.parse(row?.result ?? "") as { readonly content: readonly { readonly text: string }[] };
  expect(JSON.parse(content[0]?.text ?? "")).toEqual({ reason: "spare ones", count: 3 });
}, 180_000);

test("what a client says of a call by its hold has the form of a result", async () => {
  const scene = await setScene("langgraph");
  const run = await scene.conversation.send(askFor("langgraph", "open_app", { page: "orders" }));
  const { id } = await holdOf(scene, run, "client_tool");
  const { holds } = scene.stage.client;
  for (const response of [undefined, "open", { text: "open" }, { content: "open", ok: true }]) {
    await expect(holds.decide(id, { decision: "respond", response })).rejects.toMatchObject({ fault: "caller" });
  }
  await holds.decide(id, { decision: "respond", response: { content: "orders is open" } });
  expect(await run.result()).toMatchObject({ outcome: "completed" });
  expect(toldModel(scene)).toContain("orders is open");
}, 180_000);

test("a call that its run does not live to see answered is taken back, and readers hear of it", async () => {
  const scene = await setScene("langgraph");
  const run = await scene.conversation.send(askFor("langgraph", "open_app", { page: "orders" }));
  const { id, subject } = await holdOf(scene, run, "client_tool");
  await run.cancel();
  expect(await run.result()).toMatchObject({ outcome: "cancelled" });
  await expect(
    scene.stage.client.toolCalls.result(String(subject.toolCallId), { content: "too late" }),
  ).rejects.toMatchObject({ code: "hold_closed" });
  expect(await scene.stage.client.holds.get(id)).toMatchObject({ state: "withdrawn" });
  const finished = (await logOf(scene.conversation)).filter(({ type }) => type === "tool.finished");
  expect(finished).toMatchObject([{ state: "withdrawn" }]);
}, 180_000);
