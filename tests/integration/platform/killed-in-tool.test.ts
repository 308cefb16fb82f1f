/**
 * A worker that dies while its tool looks: a look is cut with whoever asked for it, so the turn goes on with a result that
 * says so, and the call is never left without one. LangGraph alone: its state is durable before a tool is called.
 */
import type { PlatformEvent } from "@signalbox/contract";
import { startMcpServer } from "@signalbox/testkit";
import { afterEach, expect, test } from "vitest";
import { auditOf, conversationWith, setStage, type Stage } from "./stage.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const NAMES: Readonly<Record<string, string>> = { langgraph: "docs__look" };

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

test.each(Object.entries(NAMES))("%s", { timeout: 180_000 }, async (runtime, name) => {
  const looking = Promise.withResolvers<void>();
  const look = { handler: () => looking.promise.then(() => "seven lanterns") };
  const shelf = stack.use(await startMcpServer({ tools: { look } }));
  const tools = { look: { effect: "read", timeoutMs: 60_000 } };
  const stage = await setStage(stack, {
    toolServers: { docs: { transport: "http", url: shelf.url, headers: {}, tools } },
  });
  const first = stage.worker(runtime);
  const conversation = await conversationWith(stage.client, runtime, ["docs/look"]);
  const run = await conversation.send(`[[sim:tool ${name} {}]] What stands there?`);
  await shelf.waitFor((calls) => calls.length === 1, 30_000);
  stage.worker(runtime);
  await first.kill("SIGKILL");

  expect(await run.result()).toMatchObject({ outcome: "completed" });
  looking.resolve();
  expect(shelf.calls).toHaveLength(1);
  const next = await conversation.send("And now?");
  expect(await next.result()).toMatchObject({ outcome: "completed" });
  const wire = exchanged(stage);
  const calls = wire.findIndex((ids) => ids.length > 0);
  expect(wire[calls + 1], "the result follows its call at once").toEqual(wire[calls]);

  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  const composed = log.flatMap((event) => (event.type === "turn.composed" ? [event.rung] : []));
  expect(composed).toEqual(["fresh", "repaired", "native"]);
  expect(log.flatMap((event) => (event.type === "tool.finished" ? [event.state] : []))).toEqual(["failed"]);
  expect((await stage.client.runs.get(run.id)).rung).toBe("repaired");
  expect((await auditOf(stage, "message_completed")).map(({ facts }) => facts.rung)).toEqual(["repaired", "native"]);
});
