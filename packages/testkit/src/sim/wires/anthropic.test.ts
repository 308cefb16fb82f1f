import Anthropic from "@anthropic-ai/sdk";
import { afterEach, describe, expect, test } from "vitest";
import type { ScriptedAnswer } from "../script.ts";
import { type Sim, type SimOptions, startSim } from "../server.ts";

let sim: Sim | null = null;
afterEach(() => sim?.close());

async function open(script: readonly ScriptedAnswer[], options: SimOptions = {}): Promise<Anthropic> {
  sim = await startSim({ script, ...options });
  return new Anthropic({ baseURL: sim.url, apiKey: "any", maxRetries: 0 });
}

const tool: Anthropic.Tool = { name: "look", description: "looks", input_schema: { type: "object", properties: {} } };
const ask = {
  model: "sim",
  max_tokens: 1_000,
  tools: [tool],
  messages: [{ role: "user" as const, content: "look at 7" }],
};

describe("the Messages wire, read by its own client", () => {
  const everything: ScriptedAnswer = {
    parts: [
      { thinking: "Seven it is.", signature: "c2ln" },
      { text: "I look at 7 — 👀 “now”. " },
      { tool: "look", input: { at: 7, why: "é" }, id: "toolu_seven" },
    ],
    usage: { inputTokens: 11, cacheReadTokens: 5, cacheCreationTokens: 3 },
  };

  test("a stream and a whole answer are the same message", async () => {
    const client = await open([everything]);
    const streamed = await client.messages.stream(ask).finalMessage();
    const whole = await client.messages.create(ask);
    expect(whole.content).toEqual([
      { type: "thinking", thinking: "Seven it is.", signature: "c2ln" },
      { type: "text", text: "I look at 7 — 👀 “now”. " },
      { type: "tool_use", id: "toolu_seven", name: "look", input: { at: 7, why: "é" } },
    ]);
    expect(streamed.content).toEqual(whole.content);
    expect(whole.stop_reason).toBe("tool_use");
    expect(streamed.stop_reason).toBe("tool_use");
    expect(streamed.usage).toMatchObject(whole.usage);
    expect(whole.usage).toMatchObject({
      input_tokens: 11,
      cache_read_input_tokens: 5,
      cache_creation_input_tokens: 3,
    });
  });

  test("the output token count is the number of deltas", async () => {
    const client = await open([{ parts: [{ text: "one two three" }, { tool: "look", input: { a: "b" } }] }]);
    let deltas = 0;
    let counted = 0;
    for await (const event of await client.messages.create({ ...ask, stream: true })) {
      deltas += event.type === "content_block_delta" ? 1 : 0;
      counted = event.type === "message_delta" ? event.usage.output_tokens : counted;
    }
    expect(deltas).toBe(4);
    expect(counted).toBe(4);
  });

  test("a stream has the events of a stream in their order, with a ping", async () => {
    await open([everything]);
    const body = await (await post({ ...ask, stream: true })).text();
    const types = [...body.matchAll(/^event: (\w+)$/gm)].map((match) => match[1] ?? "");
    expect(types.filter((type, place) => type !== types[place - 1])).toEqual([
      "message_start",
      "ping",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
  });

  test("the caller's limits end an answer", async () => {
    const client = await open([{ parts: [{ text: "a b c d e f" }] }]);
    const short = await client.messages.create({ ...ask, max_tokens: 2 });
    expect([short.stop_reason, short.usage.output_tokens]).toEqual(["max_tokens", 2]);
    expect(short.content).toEqual([{ type: "text", text: "a b " }]);
    const stopped = await client.messages.stream({ ...ask, stop_sequences: ["d", "c"] }).finalMessage();
    expect([stopped.stop_reason, stopped.stop_sequence]).toEqual(["stop_sequence", "c"]);
    expect(stopped.content).toEqual([{ type: "text", text: "a b " }]);
  });

  test("a prefix marked for caching is written once and read afterwards", async () => {
    const client = await open([{ parts: [{ text: "yes" }] }]);
    const system = [{ type: "text" as const, text: "be brief", cache_control: { type: "ephemeral" as const } }];
    const first = await client.messages.create({ ...ask, system });
    const messages = [...ask.messages, { role: "assistant" as const, content: "yes" }, ...ask.messages];
    const second = await client.messages.create({ ...ask, system, messages });
    expect(first.usage.cache_creation_input_tokens).toBeGreaterThan(0);
    expect(first.usage.cache_read_input_tokens).toBe(0);
    expect(second.usage.cache_creation_input_tokens).toBe(0);
    expect(second.usage.cache_read_input_tokens).toBeGreaterThan(first.usage.cache_creation_input_tokens ?? 0);
  });

  test("counting tokens and answering count the same", async () => {
    const client = await open([{ parts: [{ text: "yes" }] }]);
    const { max_tokens: _, ...countable } = ask;
    const counted = await client.messages.countTokens(countable);
    const answered = await client.messages.create(ask);
    expect(counted.input_tokens).toBe(answered.usage.input_tokens);
  });

  test("models are listed", async () => {
    const client = await open([]);
    const ids: string[] = [];
    for await (const model of client.models.list()) {
      ids.push(model.id);
    }
    expect(ids).toContain("sim");
    expect((await client.models.retrieve("anything/else")).id).toBe("anything/else");
  });

  test.each([
    [400, Anthropic.BadRequestError, "invalid_request_error"],
    [401, Anthropic.AuthenticationError, "authentication_error"],
    [404, Anthropic.NotFoundError, "not_found_error"],
    [429, Anthropic.RateLimitError, "rate_limit_error"],
    [529, Anthropic.InternalServerError, "overloaded_error"],
  ])("status %i is the client's own error", async (status, kind, type) => {
    const client = await open([{ status, headers: { "retry-after": "2" }, error: { message: "as scripted" } }]);
    const error: unknown = await client.messages.create(ask).catch((each: unknown) => each);
    expect(error).toBeInstanceOf(kind);
    expect(error).toMatchObject({ status, error: { type: "error", error: { type, message: "as scripted" } } });
    expect((error as InstanceType<typeof Anthropic.APIError>).headers?.get("retry-after")).toBe("2");
  });
});

describe("what the provider refuses", () => {
  const user = (content: unknown) => ({ role: "user", content });
  const called = { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "look", input: {} }] };
  const result = { type: "tool_result", tool_use_id: "t1", content: "seen" };

  test.each([
    ["no limit", { max_tokens: undefined }],
    ["no messages", { messages: [] }],
    ["an assistant first", { messages: [{ role: "assistant", content: "hello" }] }],
    ["an empty text block", { messages: [user([{ type: "text", text: "" }])] }],
    ["a blank text block", { messages: [user([{ type: "text", text: " \n" }])] }],
    ["an empty message", { messages: [user("hello"), { role: "assistant", content: "" }, user("hello")] }],
    ["a call without a result", { messages: [user("hello"), called, user("and?")] }],
    ["a call without a result at the end", { messages: [user("hello"), called] }],
    ["a result without a call", { messages: [user("hello"), user([result])] }],
    [
      "a thought without a signature",
      { messages: [user("a"), { role: "assistant", content: [{ type: "thinking", thinking: "b" }] }] },
    ],
    ["two tools of one name", { tools: [tool, tool] }],
    ["a tool name with a dot", { tools: [{ ...tool, name: "a.b" }] }],
    ["a tool schema that is no object", { tools: [{ ...tool, input_schema: { anyOf: [] } }] }],
  ])("%s", async (_, wrong) => {
    await open([{ parts: [{ text: "never" }] }]);
    const response = await post({ ...ask, ...wrong });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ type: "error", error: { type: "invalid_request_error" } });
  });

  test("a thought that was altered, but not one that comes back as it was", async () => {
    await open([{ parts: [{ thinking: "as it was" }, { text: "yes" }] }]);
    const answer = (await (await post(ask)).json()) as { content: readonly object[] };
    const back = (content: readonly object[]) =>
      post({ ...ask, messages: [user("a"), { role: "assistant", content }, user("b")] });
    expect((await back(answer.content)).status).toBe(200);
    expect(
      (
        await back([
          { ...answer.content[0], thinking: "altered" },
          { type: "text", text: "yes" },
        ])
      ).status,
    ).toBe(400);
  });

  test("but not a system entry between a call and its result", async () => {
    await open([{ parts: [{ text: "fine" }] }]);
    const between = { role: "system", content: "the time is now" };
    const response = await post({ ...ask, messages: [between, user("hello"), called, between, user([result])] });
    expect(response.status).toBe(200);
  });

  test("a request without the version header", async () => {
    await open([{ parts: [{ text: "never" }] }]);
    const response = await post(ask, {});
    expect(response.status).toBe(400);
  });
});

function post(
  body: unknown,
  headers: Record<string, string> = { "anthropic-version": "2023-06-01" },
): Promise<Response> {
  return fetch(`${sim?.url ?? ""}/v1/messages`, { method: "POST", headers, body: JSON.stringify(body) });
}
