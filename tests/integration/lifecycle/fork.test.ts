/** A fork's first turn reads the history it began with, and nothing of what came after. */
import { afterEach, expect, test } from "vitest";
import { conversationWith } from "../platform/stage.ts";
import { newestContext, setDesk, textsOf } from "./desk.ts";
import { told } from "./told-model.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

test("the model of a forked conversation is asked with exactly its history", async () => {
  const { stage } = await setDesk(stack);
  stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph");
  for (const name of ["A", "B", "C"]) await (await conversation.send(told(name))).result();
  const history = [];
  for await (const message of conversation.messages()) history.push(message);
  const messageId = history.find(({ content }) => content === "to B")?.id ?? "";
  const fork = await conversation.fork({ messageId });
  const before = [told("A"), "to A", told("B"), "to B"];
  expect(await textsOf(fork)).toEqual(before);
  const run = await fork.send(told("D"));
  expect(await run.result()).toMatchObject({ outcome: "completed", text: "to D" });
  expect((await run.get()).rung).toBe("rebuilt");
  const asked = newestContext(stage);
  expect(asked).toHaveLength(before.length + 1);
  for (const [index, text] of before.entries()) expect(asked[index]).toContain(text);
  expect(asked.join()).not.toContain("«C");
  expect((await conversation.get()).forkedFrom).toBeNull();
  expect((await fork.get()).forkedFrom).toBe(conversation.id);
});
