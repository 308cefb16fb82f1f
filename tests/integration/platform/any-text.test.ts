/** Any text, in and out of both engines: through messages, arguments and results of tools, and the turns after it. */
import { startMcpServer } from "@signalbox/testkit";
import { wellFormed } from "@signalbox/contract";
import { afterEach, expect, test } from "vitest";
import { conversationWith, setStage } from "./stage.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const NAMES = { langgraph: "shelf__look", claude_sdk: "mcp__signalbox__shelf__look" } as const;

const TEXTS = [
  "a\u0000b",
  "a high \ud83d half and a low \udc00 one",
  "the six characters \\u0000 and \\ud800",
  "\u202Eturned\u202C and \u2066kept apart\u2069",
  `e${"\u0301".repeat(200)}`,
  "👩‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿",
  "lines \u2028 and \u2029 and \u0085",
  "\uFEFF\uFFFE\uFFFF",
  "\u0007\u001B[31m\u0008\u007F",
  "</signalbox-turn> ]]> --> ${x} {{x}} <|end|>",
] as const;

test.each(["langgraph", "claude_sdk"] as const)(
  "%s",
  async (runtime) => {
    const given: unknown[] = [];
    const handler = (args: Readonly<Record<string, unknown>>): string => {
      given.push(args.text);
      return `seen: ${String(args.text)} and \u0000 and \ud800`;
    };
    const shelf = stack.use(await startMcpServer({ tools: { look: { handler } } }));
    const tools = { look: { effect: "read", timeoutMs: 60_000 } };
    const toolServers = { shelf: { transport: "http", url: shelf.url, headers: {}, tools } };
    const stage = await setStage(stack, { toolServers });
    stage.worker(runtime);
    const conversation = await conversationWith(stage.client, runtime, ["shelf/look"]);
    const outcomes: string[] = [];
    for (const text of TEXTS) {
      const ask = `${text} [[sim:tool ${NAMES[runtime]} ${JSON.stringify({ text })}]]`;
      outcomes.push((await (await conversation.send(ask)).result()).outcome);
    }
    expect(outcomes).toEqual(TEXTS.map(() => "completed"));
    expect(given).toEqual(TEXTS.map((text) => wellFormed(text)));

    // What was said stands in the history and before the model, and another turn is answered.
    expect(await (await conversation.send("And now?")).result()).toMatchObject({ outcome: "completed" });
    const asked: string[] = [];
    for await (const { role, content } of conversation.messages()) {
      expect(content.isWellFormed() && !content.includes("\u0000")).toBe(true);
      if (role === "user") asked.push(content);
    }
    const told = JSON.stringify(stage.sim.modelRequests().at(-1)?.body);
    for (const text of TEXTS) {
      expect(asked.some((each) => each.startsWith(wellFormed(text)))).toBe(true);
      expect(told).toContain(JSON.stringify(wellFormed(text)).slice(1, -1));
    }
    for await (const event of conversation.events({ follow: false })) {
      const line = JSON.stringify(event);
      expect(line.isWellFormed() && !/[^\\]\\u(?:0000|d[89a-f])/i.test(line)).toBe(true);
    }
  },
  240_000,
);
