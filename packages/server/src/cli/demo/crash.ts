/** Kills the worker, then the platform, while an answer streams, and looks whether anybody who reads can tell. */
import type { ConversationHandle, RunHandle } from "@signalbox/client";
import type { PlatformEvent } from "@signalbox/contract";
import { DemoStage, type DemoStageOptions } from "./demo-stage.ts";
import { finding, logFindings, type Finding } from "./promise-table.ts";

const RUNTIME = "langgraph";
const LONG_ANSWER = "[[sim:tokens 60]] [[sim:slow 40]] Tell me something long.";
const SEEN_BEFORE_KILL = 8;
const BOUND_MS = 60_000;

export async function demonstrateCrash(options: DemoStageOptions): Promise<readonly Finding[]> {
  const { note } = options;
  await using stage = await DemoStage.set(options);
  let worker = await stage.startWorker(RUNTIME);
  const agent = { name: "demo", runtime: RUNTIME, model: "sim/extractive-1", instructions: "Answer." };
  await stage.client.agents.create(agent);
  const conversation = await stage.client.conversations.create({ agent: agent.name });

  note("a message is sent; its worker is killed while it answers …");
  const first = await answerThrough(conversation, async () => {
    await worker.kill();
    worker = await stage.startWorker(RUNTIME);
  });
  note("another message is sent; the platform itself is killed while it answers …");
  const second = await answerThrough(conversation, async () => {
    await stage.platform?.kill();
    await stage.startPlatform();
  });

  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  const history = [];
  for await (const message of conversation.messages()) history.push(message);
  return [
    answered("the worker was killed: the message is answered", first),
    answered("the platform was killed: the message is answered", second),
    finding(
      "the history holds each question and one answer",
      history.map((message) => message.role).join(", "),
      history.map((message) => message.role).join() === "user,assistant,user,assistant",
    ),
    shown("what the reader was shown is the answer", [first, second], history),
    ...logFindings(log, [first.runId, second.runId]),
  ];
}

interface Answered {
  readonly runId: string;
  readonly events: readonly PlatformEvent[];
  readonly recoveredAfterMs: number | null;
}

async function answerThrough(conversation: ConversationHandle, kill: () => Promise<void>): Promise<Answered> {
  const run: RunHandle = await conversation.send(LONG_ANSWER);
  const events: PlatformEvent[] = [];
  let killing: Promise<void> | null = null;
  let killedAtMs = 0;
  let recoveredAfterMs: number | null = null;
  for await (const event of run.events({ signal: AbortSignal.timeout(BOUND_MS) })) {
    events.push(event);
    if (killing === null && events.filter((each) => each.type === "text.delta").length >= SEEN_BEFORE_KILL) {
      killedAtMs = performance.now();
      killing = kill();
      // Awaited below; the stream goes on meanwhile, as a reader's does.
      killing.catch(() => undefined);
    }
    if (event.type === "run.recovered") recoveredAfterMs ??= performance.now() - killedAtMs;
  }
  await killing;
  return { runId: run.id, events, recoveredAfterMs };
}

function answered(promised: string, { events, recoveredAfterMs }: Answered): Finding {
  const last = events.at(-1);
  const outcome = last?.type === "run.finished" ? `${last.outcome} (${last.reason})` : "no terminal event";
  const after = recoveredAfterMs === null ? "never taken over" : `taken over after ${Math.round(recoveredAfterMs)} ms`;
  return finding(promised, `${outcome}, ${after}`, outcome === "completed (answered)" && recoveredAfterMs !== null);
}

/** A reader that follows revisions ends with the text of the history, and with nothing else. */
function shown(
  promised: string,
  runs: readonly Answered[],
  history: readonly { readonly role: string; readonly content: string }[],
): Finding {
  const answers = history.filter((message) => message.role === "assistant").map((message) => message.content);
  const texts = runs.map(({ events }) => [...textsOf(events).values()].join(""));
  const holds = texts.join("\n") === answers.join("\n");
  return finding(promised, holds ? `the same ${texts.join("").length} characters` : "another text", holds);
}

function textsOf(events: readonly PlatformEvent[]): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  for (const event of events) {
    if (event.type === "text.completed") texts.set(event.itemId, event.text);
    if (event.type === "text.retracted") texts.delete(event.itemId);
  }
  return texts;
}
