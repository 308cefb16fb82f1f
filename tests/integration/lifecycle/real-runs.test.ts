/** The line behind a run, with real processes: the next message begins with the end of the one before. */
import type { RunHandle } from "@signalbox/client";
import { afterEach, expect, test } from "vitest";
import { conversationWith } from "../platform/stage.ts";
import { setDesk, textsOf } from "./desk.ts";
import { HeldPoint } from "./fault-points.ts";
import { told } from "./told-model.ts";

/** From the release of a conversation to the beginning of the next run. */
const NEXT_BEGINS_MS = 1_000;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const ms = (time: string | null): number => Date.parse(time ?? "");

async function expectBeginsWithTheEndOf(before: RunHandle, next: RunHandle): Promise<void> {
  const [ended, begun] = [await before.get(), await next.get()];
  expect(ms(begun.startedAt) - ms(ended.finishedAt)).toBeLessThan(NEXT_BEGINS_MS);
}

test("messages behind a first run, behind a tool, behind a failure and in the closing moment begin at once", async () => {
  const { stage, server, open } = await setDesk(stack);
  stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph", ["desk/wait"]);
  const a = await conversation.send(told("A", "wait"));
  await server.waitFor((calls) => calls.length === 1, 20_000);
  const b = await conversation.send(told("B"));
  open();
  expect(await b.result()).toMatchObject({ outcome: "completed", text: "to B" });
  await expectBeginsWithTheEndOf(a, b);
  const c = await conversation.send(told("C", "wait", "fail"));
  const d = await conversation.send(told("D"));
  expect(await c.result()).toMatchObject({ outcome: "failed", reason: "provider_error" });
  expect(await d.result()).toMatchObject({ outcome: "completed", text: "to D" });
  await expectBeginsWithTheEndOf(c, d);

  const where = `new.conversation_id = '${conversation.id}' and new.owner is null and old.owner is not null`;
  const point = { table: "ownership", on: "update", when: "at_commit", where } as const;
  const held = stack.use(await HeldPoint.hold(stage.database, point));
  await conversation.send(told("E"));
  await held.reached();
  const sending = conversation.send(told("F"));
  await held.blocksOthers();
  await held.letGo();
  const f = await sending;
  expect(await f.result()).toMatchObject({ outcome: "completed", text: "to F" });
  const { acceptedAt, startedAt } = await f.get();
  expect(ms(startedAt) - ms(acceptedAt)).toBeLessThan(NEXT_BEGINS_MS);
  const names = ["A", "B", "C", "D", "E", "F"];
  const asked = (await textsOf(conversation)).filter((text) => !text.startsWith("to "));
  expect(asked.map((text) => text.slice(1, 2))).toEqual(names);
});

test("a worker dies while a tool runs and the run is cancelled: the next message is answered, over whole pairs", async () => {
  const { stage, server, open } = await setDesk(stack);
  const first = stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph", ["desk/wait"]);
  expect(await (await conversation.send(told("before"))).result()).toMatchObject({ outcome: "completed" });
  const a = await conversation.send(told("A", "wait"));
  await server.waitFor((calls) => calls.length === 1, 20_000);
  stage.worker("langgraph");
  await first.kill("SIGKILL");
  const askedAtMs = performance.now();
  const cancelled = await a.cancel();
  expect(cancelled.cancelRequestedAt).not.toBeNull();
  expect(performance.now() - askedAtMs).toBeLessThan(2_000);
  const hi = await conversation.send(told("hi"));
  expect(await a.result()).toMatchObject({ outcome: "cancelled", reason: "user_cancel" });
  const ended = await a.get();
  expect(ms(ended.finishedAt) - ms(ended.cancelRequestedAt)).toBeLessThan(10_000);
  expect(await hi.result()).toMatchObject({ outcome: "completed", text: "to hi" });
  open();
  const { body } = stage.sim.modelRequests().at(-1) ?? {};
  expect(openUses(body)).toEqual([]);
  const shown: string[] = [];
  for await (const event of conversation.events({ follow: false })) {
    if (event.runId === a.id && event.type === "tool.finished") shown.push(event.state);
  }
  expect(shown.length).toBeGreaterThan(0);
});

test("a worker dies between the acknowledgement of a message and its turn: it is answered once", async () => {
  const { stage, server, open } = await setDesk(stack);
  const first = stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph", ["desk/wait"]);
  const a = await conversation.send(told("A", "wait"));
  await server.waitFor((calls) => calls.length === 1, 20_000);
  const b = await conversation.send(told("B"));
  stage.worker("langgraph");
  await first.kill("SIGKILL");
  open();
  expect(await a.result()).toMatchObject({ outcome: "completed", text: "to A" });
  expect(await b.result()).toMatchObject({ outcome: "completed", text: "to B" });
  const c = await conversation.send(told("C"));
  expect(await c.result()).toMatchObject({ text: "to C" });
  const texts = await textsOf(conversation);
  expect(texts).toEqual([told("A", "wait"), "to A", told("B"), "to B", told("C"), "to C"]);
});

interface Block {
  readonly type: string;
  readonly id?: string;
  readonly tool_use_id?: string;
}

/** Calls of a model request that have no result right behind them. */
function openUses(body: unknown): readonly string[] {
  // What the simulated model recorded is a request of the Anthropic wire.
  const { messages } = body as { readonly messages: readonly { readonly content: string | readonly Block[] }[] };
  const blocks = messages.map(({ content }) => (typeof content === "string" ? [] : content));
  return blocks.flatMap((content, index) => {
    const answered = new Set((blocks[index + 1] ?? []).map((block) => block.tool_use_id));
    return content.flatMap(({ type, id = "" }) => (type === "tool_use" && !answered.has(id) ? [id] : []));
  });
}
