/** What an operator's pause and stop do to real engines, and what a restart of everything leaves of a run that waits. */
import type { ConversationHandle, RunHandle } from "@signalbox/client";
import type { PlatformEvent } from "@signalbox/contract";
import { afterEach, describe, expect, test } from "vitest";
import { until } from "../../setup/until.ts";
import { conversationWith, setStage } from "./stage.ts";

const RUNTIMES = ["langgraph", "claude_sdk"] as const;
/** Longer than a call is kept at its gate. */
const SUSPENDED_WITHIN_MS = 40_000;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

async function logOf(conversation: ConversationHandle): Promise<readonly PlatformEvent[]> {
  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  return log;
}

async function untilWaiting(run: RunHandle): Promise<void> {
  await until("the run waits", async () => ((await run.get()).status === "waiting" ? true : null), SUSPENDED_WITHIN_MS);
}

describe.each(RUNTIMES)("%s", (runtime) => {
  test("a pause suspends the run, which survives a restart of everything, and is answered once it is lifted", async () => {
    const stage = await setStage(stack);
    const worker = stage.worker(runtime);
    const conversation = await conversationWith(stage.client, runtime);
    const pause = await stage.client.stops.create({ kind: "pause", scope: "conversation", id: conversation.id });
    const run = await conversation.send("Hello");
    await untilWaiting(run);
    expect((await run.get()).waitingFor).toMatchObject([{ kind: "operator" }]);

    await worker.kill("SIGKILL");
    await stage.served.process.kill("SIGKILL");
    await stage.restart();
    stage.worker(runtime);
    expect(await run.get()).toMatchObject({ status: "waiting", owner: null });
    await stage.client.stops.lift(pause.id);

    expect(await run.result()).toMatchObject({ outcome: "completed", reason: "answered" });
    const types = (await logOf(conversation)).map((event) => event.type);
    for (const type of ["hold.opened", "run.suspended", "hold.decided", "run.resumed", "run.finished"] as const) {
      expect(
        types.filter((each) => each === type),
        `how often ${type}`,
      ).toHaveLength(1);
    }
  });

  test("a stop cuts a stream that is under way, within two seconds", async () => {
    const stage = await setStage(stack);
    stage.worker(runtime);
    const conversation = await conversationWith(stage.client, runtime);
    const run = await conversation.send("[[sim:tokens 400]] [[sim:slow 50]] Tell me something long.");
    let stoppedAtMs: number | null = null;
    for await (const event of run.events({ signal: AbortSignal.timeout(60_000) })) {
      if (event.type === "text.delta" && stoppedAtMs === null) {
        await stage.client.stops.create({ kind: "stop", scope: "agent", id: `agent-${runtime.replace("_", "-")}` });
        stoppedAtMs = performance.now();
      }
      if (event.type === "run.finished") {
        expect(event).toMatchObject({ outcome: "cancelled", reason: "operator_stop" });
        expect(performance.now() - (stoppedAtMs ?? 0)).toBeLessThan(2_000);
      }
    }
    expect(stoppedAtMs).not.toBeNull();
    await expect(conversation.send("Hello")).rejects.toMatchObject({ code: "operator_stopped" });
  });
});
