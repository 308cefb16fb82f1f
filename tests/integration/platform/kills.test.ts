/**
 * What a user sees when processes die for real: the message they were answered 202 for is answered, and their stream
 * goes on from where it was.
 */
import type { ConversationHandle } from "@signalbox/client";
import type { PlatformEvent } from "@signalbox/contract";
import { afterEach, describe, expect, test } from "vitest";
import type { Served } from "../../setup/real-processes.ts";
import { conversationWith, setStage } from "./stage.ts";

const RUNTIMES = ["langgraph", "claude_sdk"] as const;
const SLOW_ANSWER = "[[sim:tokens 60]] [[sim:slow 50]] Tell me something long.";
const SEEN_BEFORE_KILL = 8;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

describe.each(RUNTIMES)("%s", (runtime) => {
  test("a worker killed while it streams: another finishes the run, the stream goes on without gap or repetition", async () => {
    const stage = await setStage(stack);
    const first = stage.worker(runtime);
    const conversation = await conversationWith(stage.client, runtime);
    const run = await conversation.send(SLOW_ANSWER);
    const seen: PlatformEvent[] = [];
    let killed = false;
    for await (const event of run.events({ signal: AbortSignal.timeout(90_000) })) {
      seen.push(event);
      if (!killed && seen.filter((each) => each.type === "text.delta").length >= SEEN_BEFORE_KILL) {
        killed = true;
        stage.worker(runtime);
        await first.kill("SIGKILL");
      }
    }
    expect(killed).toBe(true);
    expect(seen.at(-1)).toMatchObject({ type: "run.finished", outcome: "completed", reason: "answered" });
    expectWholeLog(await wholeLog(conversation), seen);
    expect(seen.some((event) => event.type === "run.recovered" && event.cause === "worker_lost")).toBe(true);
    await expectOneAnswer(conversation, seen);
  });

  test("a platform killed while it streams: after its restart the acknowledged message is answered", async () => {
    const stage = await setStage(stack);
    stage.worker(runtime);
    const conversation = await conversationWith(stage.client, runtime);
    const run = await conversation.send(SLOW_ANSWER);
    const seen: PlatformEvent[] = [];
    let restarted: Promise<Served> | null = null;
    for await (const event of run.events({ signal: AbortSignal.timeout(110_000) })) {
      seen.push(event);
      if (restarted === null && seen.filter((each) => each.type === "text.delta").length >= SEEN_BEFORE_KILL) {
        await stage.served.process.kill("SIGKILL");
        restarted = stage.restart();
      }
    }
    await restarted;
    expect(seen.at(-1)).toMatchObject({ type: "run.finished", outcome: "completed", reason: "answered" });
    expectWholeLog(await wholeLog(conversation), seen);
    expect(seen.some((event) => event.type === "run.recovered" && event.cause === "owner_lost")).toBe(true);
    await expectOneAnswer(conversation, seen);
  });
});

async function wholeLog(conversation: ConversationHandle): Promise<readonly PlatformEvent[]> {
  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  return log;
}

/** Sequences 1..n without gaps, one terminal event, and what the live reader saw durably is what the log says. */
function expectWholeLog(log: readonly PlatformEvent[], seen: readonly PlatformEvent[]): void {
  const sequences = log.flatMap((event) => (event.sequence === null ? [] : [event.sequence]));
  expect(new Set(sequences).size).toBe(sequences.length);
  expect(log.filter((event) => event.type === "run.finished")).toHaveLength(1);
  const live = seen.flatMap((event) => (event.sequence === null ? [] : [event.sequence]));
  expect(live).toEqual([...live].sort((left, right) => left - right));
  expect(new Set(live).size).toBe(live.length);
}

/** What stands after all revisions is one text, and it is the answer of the history. */
async function expectOneAnswer(conversation: ConversationHandle, seen: readonly PlatformEvent[]): Promise<void> {
  const texts = new Map<string, string>();
  for (const event of seen) {
    if (event.type === "text.delta") texts.set(event.itemId, (texts.get(event.itemId) ?? "") + event.text);
    if (event.type === "text.completed") expect(texts.get(event.itemId)).toBe(event.text);
    if (event.type === "text.retracted") texts.delete(event.itemId);
  }
  const history = [];
  for await (const message of conversation.messages()) history.push(message);
  expect(history.map((message) => message.role)).toEqual(["user", "assistant"]);
  expect([...texts.values()]).toEqual([history[1]?.content]);
}
