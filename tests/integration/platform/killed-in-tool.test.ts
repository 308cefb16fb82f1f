/**
 * A process that dies while a tool is at work. At a gate that lives the call is awaited and its outcome used; a look that
 * was lost with its gate is taken again as the same call; whatever may have acted stays unknown and is never repeated.
 */
import type { ConversationHandle } from "@signalbox/client";
import type { PlatformEvent } from "@signalbox/contract";
import { startMcpServer, type McpNeighbour } from "@signalbox/testkit";
import { afterEach, describe, expect, test } from "vitest";
import { until } from "../../setup/until.ts";
import type { RealProcess } from "../../setup/real-processes.ts";
import { auditOf, conversationWith, rowsOf, setStage, type Stage } from "./stage.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const NAMES = { langgraph: "docs__look", claude_sdk: "mcp__signalbox__docs__look" } as const;
type Runtime = keyof typeof NAMES;

interface Block {
  readonly type: string;
  readonly id?: string;
  readonly tool_use_id?: string;
}

/** Calls and results of the model's last request, message by message. */
function exchanged(stage: Stage): readonly (readonly string[])[] {
  // What an engine sends; the sim has checked it.
  const body = stage.sim.modelRequests().at(-1)?.body as
    | { readonly messages: readonly { readonly content: string | readonly Block[] }[] }
    | undefined;
  return (body?.messages ?? []).map(({ content }) =>
    typeof content === "string" ? [] : content.flatMap((block) => block.id ?? block.tool_use_id ?? []),
  );
}

interface Scene {
  readonly stage: Stage;
  readonly shelf: McpNeighbour;
  readonly worker: RealProcess;
  readonly conversation: ConversationHandle;
  /** Lets the first call answer; later ones answer at once. */
  readonly answer: () => void;
}

async function setScene(runtime: Runtime, effect: "read" | "write"): Promise<Scene> {
  const looking = Promise.withResolvers<void>();
  let callCount = 0;
  const handler = async (): Promise<string> => {
    callCount += 1;
    if (callCount === 1) await looking.promise;
    return "seven lanterns";
  };
  const shelf = stack.use(await startMcpServer({ tools: { look: { handler } } }));
  const tools = { look: { effect, timeoutMs: 60_000 } };
  const stage = await setStage(stack, {
    toolServers: { docs: { transport: "http", url: shelf.url, headers: {}, tools } },
  });
  const worker = stage.worker(runtime);
  const conversation = await conversationWith(stage.client, runtime, ["docs/look"]);
  stack.defer(() => looking.resolve());
  return { stage, shelf, worker, conversation, answer: () => looking.resolve() };
}

async function logOf(conversation: ConversationHandle): Promise<readonly PlatformEvent[]> {
  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  return log;
}

const CALLS_WRITTEN = "select from signalbox.transcript_entry where position('docs__look'::bytea in body) > 0";

const outcomesIn = (log: readonly PlatformEvent[]): readonly string[] =>
  log.flatMap((event) => (event.type === "tool.finished" ? [event.state] : []));

/** The model that goes on is told what the tool said, right behind the call. */
function expectTold(stage: Stage, said: string): void {
  const wire = exchanged(stage);
  const calls = wire.findIndex((ids) => ids.length > 0);
  expect(wire[calls + 1], "the result follows its call at once").toEqual(wire[calls]);
  expect(JSON.stringify(stage.sim.modelRequests().at(-1)?.body)).toContain(said);
}

describe.each(["langgraph", "claude_sdk"] as const)("%s", (runtime) => {
  const ask = `[[sim:tool ${NAMES[runtime]} {}]] What stands there?`;

  test("a worker killed while its tool looks: the look goes on and its outcome is used", async () => {
    const { stage, shelf, worker, conversation, answer } = await setScene(runtime, "read");
    const run = await conversation.send(ask);
    await shelf.waitFor((calls) => calls.length === 1, 60_000);
    // Without the row that makes the call there is nothing to go on from: the turn would be run again.
    await until("the call in the transcript", async () => (await rowsOf(stage, CALLS_WRITTEN)).length > 0);
    stage.worker(runtime);
    await worker.kill("SIGKILL");
    answer();

    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(shelf.calls).toMatchObject([{ outcome: "answered" }]);
    expectTold(stage, "seven lanterns");
    const next = await conversation.send("And now?");
    expect(await next.result()).toMatchObject({ outcome: "completed" });
    const log = await logOf(conversation);
    const composed = log.flatMap((event) => (event.type === "turn.composed" ? [event.rung] : []));
    expect(composed).toEqual(["fresh", "repaired", "native"]);
    expect(outcomesIn(log)).toEqual(["succeeded"]);
    expect((await stage.client.runs.get(run.id)).rung).toBe("repaired");
    expect((await auditOf(stage, "message_completed")).map(({ facts }) => facts.rung)).toEqual(["repaired", "native"]);
  }, 240_000);

  test("a gate killed while a tool looks: the look is taken once more, as the same call, and the answer arrives", async () => {
    const { stage, shelf, conversation } = await setScene(runtime, "read");
    const run = await conversation.send(ask);
    await shelf.waitFor((calls) => calls.length === 1, 60_000);
    await stage.served.process.kill("SIGKILL");
    await stage.restart();

    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(shelf.calls).toHaveLength(2);
    expectTold(stage, "seven lanterns");
    expect(outcomesIn(await logOf(conversation))).toEqual(["unknown", "succeeded"]);
    expect(await rowsOf(stage, "select state, attempt from signalbox.tool_call")).toEqual([
      { state: "succeeded", attempt: 2 },
    ]);
    expect((await auditOf(stage, "tool_called")).map(({ facts }) => facts.attempt)).toEqual([undefined, 2]);
  }, 240_000);

  test("a gate killed while a tool acts: what became of it is not known, shown, and not tried again", async () => {
    const { stage, shelf, conversation } = await setScene(runtime, "write");
    const run = await conversation.send(ask);
    await shelf.waitFor((calls) => calls.length === 1, 60_000);
    await stage.served.process.kill("SIGKILL");
    await stage.restart();

    expect(await run.result()).toMatchObject({ outcome: "failed", reason: "outcome_unknown" });
    expect(await (await conversation.send("And now?")).result()).toMatchObject({ outcome: "completed" });
    expect(shelf.calls).toHaveLength(1);
    expect(outcomesIn(await logOf(conversation))).toEqual(["unknown"]);
    expect(await rowsOf(stage, "select state, attempt from signalbox.tool_call")).toEqual([
      { state: "unknown", attempt: 1 },
    ]);
  }, 240_000);
});
