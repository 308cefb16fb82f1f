/** Where nobody's tools are trusted unseen, a tool runs once an operator has approved what was shown, and not before. */
import { startMcpServer } from "@signalbox/testkit";
import { afterEach, describe, expect, test } from "vitest";
import { conversationWith, setStage } from "../platform/stage.ts";
import { until } from "../../setup/until.ts";
import { RUNTIMES } from "./scene.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const POSTURE = { SIGNALBOX_POSTURE: "production" };
const TRUSTED_MS = 60_000;
const ENGINE_MS = 60_000;

describe.each(RUNTIMES)("%s", (runtime) => {
  test("a tool is called from when it is approved, and asked for from when that is said, without a restart", async () => {
    const neighbour = stack.use(await startMcpServer({ tools: { read: { result: "a page" } } }));
    const docs = { transport: "http", url: neighbour.url, tools: { read: { effect: "read" } } };
    const stage = await setStage(stack, { toolServers: { docs }, environment: POSTURE });
    const { client } = stage;
    stage.worker(runtime);
    const name = runtime === "claude_sdk" ? "mcp__signalbox__docs__read" : "docs__read";
    // In a conversation of its own: the Claude engine asks for the list of tools once, when it is opened.
    const ask = async (): Promise<void> => {
      const conversation = await conversationWith(client, runtime, ["docs/read"]);
      const run = await conversation.send(`[[sim:tool ${name} {}]] Please.`);
      expect(await run.result()).toMatchObject({ outcome: "completed" });
    };

    const shown = await client.tools.get("docs__read");
    expect(shown).toMatchObject({ state: "quarantined", effect: "read" });
    await ask();
    expect(neighbour.calls).toHaveLength(0);

    await client.tools.approve("docs__read", shown.digest);
    await until(
      "a call of what was approved",
      async () => {
        await ask();
        return neighbour.calls.length > 0;
      },
      TRUSTED_MS,
    );

    const { state, history } = await client.tools.get("docs__read");
    expect([state, ...history.map(({ event }) => event)]).toEqual(["approved", "approve", "hold"]);
    await client.tools.classify("docs__read", { approve: "always" });
    await until(
      "a question about it",
      async () => {
        const conversation = await conversationWith(client, runtime, ["docs/read"]);
        const { id } = await conversation.send(`[[sim:tool ${name} {}]] Please.`);
        const seen = async (): Promise<"asked" | "ended" | null> => {
          if ((await client.approvals.list({ run: id })).data.length > 0) return "asked";
          return (await client.runs.get(id)).finishedAt === null ? null : "ended";
        };
        return (await until("a question or an end", seen, ENGINE_MS)) === "asked";
      },
      TRUSTED_MS,
    );
  }, 240_000);
});
