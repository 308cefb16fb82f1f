/** A turn that acted and was ended while it waited: the model of the next turn knows of it, on either engine. */
import { startMcpServer } from "@signalbox/testkit";
import { afterEach, expect, test } from "vitest";
import { until } from "../../setup/until.ts";
import { conversationWith, setStage, type Stage } from "./stage.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const NAMES = { langgraph: "till__pay", claude_sdk: "mcp__signalbox__till__pay" } as const;
const QUESTIONS = { first: "Good morning.", paid: "Pay for seven lanterns.", last: "What did I ask for?" };
/** Longer than a call is kept at its gate. */
const SUSPENDED_WITHIN_MS = 60_000;

const toldLast = (stage: Stage): string => JSON.stringify(stage.sim.modelRequests().at(-1)?.body);

test.each(["langgraph", "claude_sdk"] as const)(
  "%s",
  async (runtime) => {
    const working = Promise.withResolvers<void>();
    const handler = async (): Promise<string> => {
      await working.promise;
      return "receipt 4711";
    };
    const till = stack.use(await startMcpServer({ tools: { pay: { handler } } }));
    const tools = { pay: { effect: "write", timeoutMs: 60_000 } };
    const toolServers = { till: { transport: "http", url: till.url, headers: {}, tools } };
    const stage = await setStage(stack, { toolServers });
    stack.defer(() => working.resolve());
    stage.worker(runtime);
    // In the first one there is a transcript to go on from, in the second one there is none.
    const told = await conversationWith(stage.client, runtime, ["till/pay"]);
    const blank = await stage.client.conversations.create({ agent: `agent-${runtime.replace("_", "-")}` });
    expect(await (await told.send(QUESTIONS.first)).result()).toMatchObject({ outcome: "completed" });

    for (const conversation of [told, blank]) {
      const before = till.calls.length;
      const run = await conversation.send(`${QUESTIONS.paid} [[sim:tool ${NAMES[runtime]} {}]]`);
      await till.waitFor((calls) => calls.length > before, 60_000);
      const pause = await stage.client.stops.create({ kind: "pause", scope: "run", id: run.id });
      working.resolve();
      await until("the run waits", async () => (await run.get()).status === "waiting", SUSPENDED_WITHIN_MS);
      await run.cancel();
      expect(await run.result()).toMatchObject({ outcome: "cancelled" });
      await stage.client.stops.lift(pause.id).catch(() => undefined);
    }

    const rungs: (string | null)[] = [];
    for (const conversation of [told, blank]) {
      const run = await conversation.send(QUESTIONS.last);
      expect(await run.result()).toMatchObject({ outcome: "completed" });
      for (const part of [QUESTIONS.paid, "till__pay", "receipt 4711", QUESTIONS.last]) {
        expect(toldLast(stage)).toContain(part);
      }
      rungs.push((await run.get()).rung);
    }
    expect(rungs).toEqual(["native", "rebuilt"]);
    expect(till.calls).toHaveLength(2);

    // It is part of the transcript now, and told no more.
    expect(await (await told.send("And now?")).result()).toMatchObject({ outcome: "completed" });
    expect(toldLast(stage).split("receipt 4711")).toHaveLength(2);
    const composed: (number | undefined)[] = [];
    for await (const event of told.events({ follow: false })) {
      if (event.type === "turn.composed") composed.push(event.missedTurnCount);
    }
    expect(composed).toEqual([0, 0, 1, 0]);
  },
  240_000,
);
