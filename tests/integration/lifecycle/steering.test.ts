/** Messages for a turn that is running, with real workers: taken in by it, or answered after it, and never lost or twice. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ConversationHandle } from "@signalbox/client";
import { playMessage } from "@signalbox/testkit";
import { afterEach, beforeEach, expect, test } from "vitest";
import { privateDirectory } from "./private-directory.ts";
import { conversationWith, setStage } from "../platform/stage.ts";
import { newestContext, setDesk, speaks, textsOf } from "./desk.ts";
import { told } from "./told-model.ts";

let stack = new AsyncDisposableStack();
let file: string;
beforeEach(() => {
  file = join(stack.use(privateDirectory()).path, "go-on");
});
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const steer = (conversation: ConversationHandle, text: string) =>
  conversation.sendDetailed(text, { whenBusy: "steer" });

test("taken in: the answer reflects it, and the message ends with the run that took it in", async () => {
  const stage = await setStage(stack);
  stage.scriptedWorker();
  const conversation = await conversationWith(stage.client, "scripted");
  const a = await conversation.send(playMessage([{ say: "one " }, { takeInput: true }]));
  await speaks(a);
  const b = await steer(conversation, "two");
  expect(b.accepted.accepted).toBe("steered");
  expect(await a.result()).toMatchObject({ outcome: "completed", text: "one two" });
  expect(await b.run.result()).toMatchObject({ outcome: "completed", reason: "merged" });
  expect((await b.run.get()).answerMessageId).toBe((await a.get()).answerMessageId);
  expect((await textsOf(conversation)).slice(1)).toEqual(["two", "one two"]);
});

test("not taken in: it is answered as an ordinary message, without another one", async () => {
  const stage = await setStage(stack);
  stage.scriptedWorker();
  const conversation = await conversationWith(stage.client, "scripted");
  const a = await conversation.send(playMessage([{ say: "one" }, { waitForFile: file }]));
  await speaks(a);
  const two = playMessage([{ say: "to two" }]);
  const b = await steer(conversation, two);
  writeFileSync(file, "");
  expect(await a.result()).toMatchObject({ outcome: "completed", text: "one" });
  expect(await b.run.result()).toMatchObject({ outcome: "completed", reason: "answered" });
  expect((await textsOf(conversation)).slice(1)).toEqual(["one", two, "to two"]);
});

test("a worker dies when it was handed a message and has not taken it in: it is answered once", async () => {
  const stage = await setStage(stack);
  const first = stage.scriptedWorker();
  const conversation = await conversationWith(stage.client, "scripted");
  const a = await conversation.send(playMessage([{ say: "one " }, { crashAtInput: file }, { takeInput: true }]));
  await speaks(a);
  const b = await steer(conversation, "two");
  stage.scriptedWorker();
  expect(await a.result()).toMatchObject({ outcome: "completed", text: "one two" });
  expect(await b.run.result()).toMatchObject({ outcome: "completed", reason: "merged" });
  expect(first.running).toBe(false);
  expect((await textsOf(conversation)).slice(1)).toEqual(["two", "one two"]);
});

test("an agent in the middle of its tools takes a message along with its next model call", async () => {
  const { stage, server, open } = await setDesk(stack);
  stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph", ["desk/wait"]);
  open();
  const a = await conversation.send(told("A", "again"));
  await server.waitFor((calls) => calls.length > 0, 20_000);
  const b = await steer(conversation, told("B"));
  expect(b.accepted.accepted).toBe("steered");
  expect(await a.result()).toMatchObject({ outcome: "completed", text: "to B" });
  expect(await b.run.result()).toMatchObject({ outcome: "completed", reason: "merged" });
  const c = await conversation.send(told("C"));
  expect(await c.result()).toMatchObject({ text: "to C" });
  // The newest message may repeat the one before it; in the context it stands once.
  const before = newestContext(stage).slice(0, -1);
  expect(before.filter((message) => message.includes(told("B")))).toHaveLength(1);
  expect(await textsOf(conversation)).toEqual([told("A", "again"), told("B"), "to B", told("C"), "to C"]);
});
