import { afterEach, describe, expect, test } from "vitest";
import type { JsonObject } from "../json.ts";
import type { ScriptedAnswer } from "../script.ts";
import { type Sim, startSim } from "../server.ts";
import { dataObjects } from "../sse-events.ts";
import { wholeOfEvents } from "./whole-of-stream.ts";

let sim: Sim | null = null;
afterEach(() => sim?.close());

const tool = { type: "function", function: { name: "look", description: "looks", parameters: { type: "object" } } };
const ask = { model: "sim", tools: [tool], messages: [{ role: "user", content: "look at 7" }] };

async function post(body: JsonObject): Promise<Response> {
  return fetch(`${sim?.url ?? ""}/v1/chat/completions`, { method: "POST", body: JSON.stringify(body) });
}

async function streamed(body: JsonObject): Promise<readonly JsonObject[]> {
  const response = await post({ ...body, stream: true });
  expect(response.headers.get("content-type")).toContain("text/event-stream");
  const text = await response.text();
  expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  return dataObjects(text);
}

describe("the chat completions wire", () => {
  const everything: ScriptedAnswer = {
    parts: [
      { thinking: "not shown here" },
      { text: "I look at 7 👀. " },
      { tool: "look", input: { at: 7 }, id: "call_a" },
      { tool: "look", input: { at: "é" } },
    ],
  };

  test("a stream and a whole answer say the same", async () => {
    sim = await startSim({ script: [everything] });
    const whole = (await (await post(ask)).json()) as JsonObject;
    expect(whole).toMatchObject({
      object: "chat.completion",
      choices: [
        {
          index: 0,
          finish_reason: "tool_calls",
          message: {
            role: "assistant",
            content: "I look at 7 👀. ",
            tool_calls: [
              { id: "call_a", type: "function", function: { name: "look", arguments: '{"at":7}' } },
              { id: expect.stringMatching(/^call_\w{24}$/), function: { name: "look", arguments: '{"at":"é"}' } },
            ],
          },
        },
      ],
    });
    const chunks = await streamed({ ...ask, stream_options: { include_usage: true } });
    const assembled = wholeOfEvents("completions", chunks);
    expect(chunks.every((chunk) => chunk.object === "chat.completion.chunk")).toBe(true);
    // Ids depend on the request, and a request for a stream is another one.
    expect(withoutIds(assembled)).toEqual(withoutIds(whole));
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: expect.any(Number) } });
  });

  test("usage comes with a stream only when it is asked for", async () => {
    sim = await startSim({ script: [{ parts: [{ text: "a b c" }], usage: { inputTokens: 4 } }] });
    expect((await streamed(ask)).some((chunk) => chunk.usage !== undefined)).toBe(false);
    const chunks = await streamed({ ...ask, stream_options: { include_usage: true } });
    expect(chunks.at(-1)?.usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 3, total_tokens: 7 });
  });

  test.each([
    [{ parts: [{ text: "a b c" }] }, { max_completion_tokens: 2 }, "length"],
    [{ parts: [{ text: "a b c" }] }, { stop: "b" }, "stop"],
    [{ parts: [{ text: "no" }], stop: "refusal" }, {}, "content_filter"],
    [{ parts: [{ tool: "look", input: { path: "/x" }, cutJsonAt: 6 }] }, {}, "tool_calls"],
  ])("finish reasons: %j", async (answer, fields, reason) => {
    sim = await startSim({ script: [answer] });
    expect(await (await post({ ...ask, ...fields })).json()).toMatchObject({ choices: [{ finish_reason: reason }] });
  });

  test("errors have the shape and the status of the wire", async () => {
    sim = await startSim({ script: [{ status: 429, headers: { "retry-after": "1" } }] });
    const response = await post(ask);
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(await response.json()).toEqual({
      error: { message: expect.any(String), type: "requests", code: "rate_limit_exceeded", param: null },
    });
  });

  const call = {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "" } }],
  };
  test.each([
    ["a call without a result", [call, { role: "user", content: "and?" }]],
    ["a result without a call", [{ role: "tool", tool_call_id: "c9", content: "seen" }]],
    ["a role of nobody", [{ role: "wizard", content: "abra" }]],
    ["no messages", []],
  ])("refuses %s", async (_, messages) => {
    sim = await startSim({ script: [{ parts: [{ text: "never" }] }] });
    const response = await post({ ...ask, messages });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { type: "invalid_request_error" } });
  });
});

function withoutIds(completion: JsonObject): unknown {
  const { choices, usage } = completion;
  return JSON.parse(
    JSON.stringify({ choices, usage })
      .replaceAll(/call_\w{24}/g, "call")
      .replaceAll(/"(?:refusal|logprobs)":null,?/g, ""),
  );
}
