/** An agent that gets another runtime: the next turn starts over from the history, says so, and knows what was said. */
import type { PlatformEvent } from "@signalbox/contract";
import { afterEach, expect, test } from "vitest";
import { auditOf, conversationWith, patchAgent, setStage, type Stage } from "./stage.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

/** What people said, in the order in which the model was told in its last request. */
function toldIn(stage: Stage, questions: readonly string[]): readonly string[] {
  const body = JSON.stringify(stage.sim.modelRequests().at(-1)?.body);
  return questions
    .filter((question) => body.includes(question))
    .toSorted((left, right) => body.indexOf(left) - body.indexOf(right));
}

test("langgraph, claude_sdk and langgraph again answer in one conversation, each with all of its history", async () => {
  const stage = await setStage(stack);
  stage.worker("langgraph");
  stage.worker("claude_sdk");
  const conversation = await conversationWith(stage.client, "langgraph");
  await conversationWith(stage.client, "claude_sdk");
  const questions = [
    "My cat is called Oslo.",
    "She is seven years old.",
    "She eats only sardines.",
    "She sleeps on the piano.",
    "What do you know of her?",
  ];
  const told: string[][] = [];
  const rungs: (string | null)[] = [];
  for (const [place, question] of questions.entries()) {
    // The second turn with a runtime goes on from the first one's transcript, however it began.
    if (place === 1 || place === 3) {
      await patchAgent(stage, "agent-langgraph", { runtime: place === 1 ? "claude_sdk" : "langgraph" });
    }
    const run = await conversation.send(question);
    expect(await run.result()).toMatchObject({ outcome: "completed" });
    told.push([...toldIn(stage, questions)]);
    rungs.push((await stage.client.runs.get(run.id)).rung);
  }
  expect(rungs).toEqual(["fresh", "rebuilt", "native", "rebuilt", "native"]);
  expect(told).toEqual(questions.map((_, place) => questions.slice(0, place + 1)));

  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  expect(log.flatMap((event) => (event.type === "turn.composed" ? [event.rung] : []))).toEqual(rungs);
  const ended = await auditOf(stage, "message_completed");
  expect(ended.map(({ facts }) => facts.rung)).toEqual(rungs);

  // What the model was told last is what people see, answers included.
  const body = JSON.stringify(stage.sim.modelRequests().at(-1)?.body);
  for await (const message of conversation.messages()) {
    const isLast = message.role === "assistant" && message.runId === log.at(-1)?.runId;
    if (!isLast) expect(body).toContain(JSON.stringify(message.content).slice(1, -1));
  }
});
