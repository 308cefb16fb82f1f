import { afterEach, describe, expect, test } from "vitest";
import { readDirectives, withoutMarkers } from "./directives.ts";
import type { JsonObject } from "./json.ts";
import { type Sim, startSim } from "./server.ts";
import { dataObjects } from "./sse-events.ts";

let sim: Sim | null = null;
afterEach(() => sim?.close());

interface Reply {
  readonly status: number;
  readonly text: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
  readonly whole: JsonObject;
}

const tools = [
  {
    type: "function",
    function: {
      name: "mcp__shop__refund_order",
      parameters: { type: "object", properties: { orderId: { type: "integer" } } },
    },
  },
  { type: "function", function: { name: "count", parameters: { type: "object", properties: {} } } },
];

async function say(messages: readonly JsonObject[], fields: JsonObject = {}): Promise<Reply> {
  const response = await fetch(`${sim?.url ?? ""}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "sim", tools, messages, ...fields }),
  });
  const whole = (await response.json()) as {
    choices?: { message: { content: string | null; tool_calls?: { function: never }[] } }[];
  };
  const message = whole.choices?.[0]?.message;
  return {
    status: response.status,
    text: message?.content ?? "",
    calls: (message?.tool_calls ?? []).map((call) => call.function),
    whole,
  };
}

const user = (content: string) => ({ role: "user", content });
const assistant = (content: string) => ({ role: "assistant", content });

describe("markers", () => {
  test("are read, and taken out of the question", () => {
    const text =
      'Say [[sim:slow 200]] hello [[sim:cut 20 1]] [[sim:tool add {"a":{"b":[[1]]}}]] [[script:x]] please [[sim:dance]] [[sim:slow]]';
    expect(readDirectives(text)).toMatchObject({
      tokenDelayMs: 200,
      cut: { value: 20, times: 1 },
      calls: [{ tool: "add", input: { a: { b: [[1]] } } }],
      unknown: ["[[sim:dance]]", "[[sim:slow]]"],
      tokens: null,
      error: null,
    });
    expect(withoutMarkers(text)).toBe("Say hello please");
  });

  test("that mean nothing are named in the answer", async () => {
    sim = await startSim();
    expect((await say([user("hello [[sim:dance 3]]")])).text).toContain("[[sim:dance 3]]");
  });

  test("tokens and thinking", async () => {
    sim = await startSim();
    const { text, whole } = await say([user("[[sim:tokens 500]] [[sim:think 7]]")]);
    expect(text.split(" ").filter((word) => word !== "")).toHaveLength(500);
    expect(whole.usage).toMatchObject({ completion_tokens: 507, completion_tokens_details: { reasoning_tokens: 7 } });
  });

  test("an error comes as often as it is asked for, counted for one message", async () => {
    sim = await startSim();
    const once = [user("hello [[sim:error 529 2]]")];
    expect([(await say(once)).status, (await say(once)).status, (await say(once)).status]).toEqual([529, 529, 200]);
    expect((await say([user("hello you [[sim:error 529 2]]")])).status).toBe(529);
    expect((await say([...once, assistant("yes"), user("and now?")])).status).toBe(200);
    const always = [user("[[sim:error 402]]")];
    expect([(await say(always)).status, (await say(always)).status]).toEqual([402, 402]);
  });

  test("a cut answer is whole the second time", async () => {
    sim = await startSim();
    const body = JSON.stringify({ model: "sim", stream: true, messages: [user("[[sim:tokens 9]] [[sim:cut 3 1]]")] });
    const post = async () => (await fetch(`${sim?.url ?? ""}/v1/chat/completions`, { method: "POST", body })).text();
    await expect(post()).rejects.toThrow("terminated");
    expect(sim.requests[0]?.tokenCount).toBe(3);
    expect(dataObjects(await post()).filter((chunk) => JSON.stringify(chunk).includes('"w'))).toHaveLength(9);
  });

  test("a pause before every token", async () => {
    sim = await startSim();
    const startedAtMs = performance.now();
    await say([user("[[sim:tokens 5]] [[sim:slow 20]] [[sim:wait 30]]")]);
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(125);
  });

  test("calls: all of them in one message, by their short names, once; then the answer quotes the results", async () => {
    sim = await startSim();
    const message = user('Do it. [[sim:tool refund_order {"orderId":7}]] [[sim:tool count]]');
    const first = await say([message]);
    expect(first.calls).toEqual([
      { name: "mcp__shop__refund_order", arguments: '{"orderId":7}' },
      { name: "count", arguments: "{}" },
    ]);
    const calls = first.calls.map((call, place) => ({ id: `c${place}`, type: "function", function: call }));
    const results = calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: `result of ${id}` }));
    const second = await say([message, { role: "assistant", content: null, tool_calls: calls }, ...results]);
    expect(second.calls).toEqual([]);
    expect(second.text).toContain("result of c0");
    expect(second.text).toContain("result of c1");
  });

  test("in passages and in results are plain text", async () => {
    sim = await startSim();
    const turn =
      '<signalbox-turn>{"passages":[{"source":"a.md","text":"Write [[sim:error 500]] to get an error."}]}</signalbox-turn>';
    const reply = await say([
      {
        role: "user",
        content: [
          { type: "text", text: turn },
          { type: "text", text: "How do I get an error?" },
        ],
      },
    ]);
    expect(reply.status).toBe(200);
    expect(reply.text).toContain("[[sim:error 500]]");
  });
});

describe("named scripts", () => {
  const scripts = {
    steps: { answers: [{ parts: [{ text: "first" }] }, { parts: [{ text: "second" }] }] },
    flaky: { answers: [{ status: 500 }, { parts: [{ text: "fine" }] }], by: "request" },
  } as const;

  test("go on with every reply of the conversation until they are switched off", async () => {
    sim = await startSim({ scripts });
    const start = [user("go [[script:steps]]")];
    expect((await say(start)).text).toBe("first");
    expect((await say(start)).text).toBe("first");
    const later = [...start, assistant("first"), user("and?")];
    expect((await say(later)).text).toBe("second");
    expect((await say([...later, assistant("second"), user("more")])).text).toBe("second");
    expect((await say([...later, assistant("second"), user("[[script:off]] hello")])).text).toContain(
      "simulated model",
    );
  });

  test("by request, each key counts for itself", async () => {
    sim = await startSim({ scripts });
    const one = [user("[[script:flaky one]]")];
    expect([(await say(one)).status, (await say(one)).status]).toEqual([500, 200]);
    expect((await say([user("[[script:flaky two]]")])).status).toBe(500);
  });

  test("of an unknown name are refused", async () => {
    sim = await startSim({ scripts });
    expect((await say([user("[[script:nobody]]")])).status).toBe(400);
  });
});
