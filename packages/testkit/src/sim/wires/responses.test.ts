import { afterEach, describe, expect, test } from "vitest";
import type { JsonObject } from "../json.ts";
import { objectOf } from "../json.ts";
import type { ScriptedAnswer } from "../script.ts";
import { type Sim, startSim } from "../server.ts";
import { dataObjects } from "../sse-events.ts";

let sim: Sim | null = null;
afterEach(() => sim?.close());

const tool = { type: "function", name: "look", description: "looks", parameters: { type: "object" } };
const ask = { model: "sim", instructions: "be brief", tools: [tool], input: "look at 7" };

async function post(body: JsonObject): Promise<Response> {
  return fetch(`${sim?.url ?? ""}/v1/responses`, { method: "POST", body: JSON.stringify(body) });
}

async function streamed(body: JsonObject): Promise<readonly JsonObject[]> {
  return dataObjects(await (await post({ ...body, stream: true })).text());
}

const everything: ScriptedAnswer = {
  parts: [{ thinking: "Seven." }, { text: "I look 👀 now. " }, { tool: "look", input: { at: 7 }, id: "call_a" }],
};

describe("the responses wire", () => {
  test("a whole answer has its items", async () => {
    sim = await startSim({ script: [everything] });
    expect(await (await post(ask)).json()).toMatchObject({
      object: "response",
      status: "completed",
      instructions: "be brief",
      output: [
        { type: "reasoning", summary: [{ type: "summary_text", text: "Seven." }] },
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "I look 👀 now. " }] },
        { type: "function_call", call_id: "call_a", name: "look", arguments: '{"at":7}', status: "completed" },
      ],
    });
  });

  test("a stream is numbered without gaps and ends with the response its events made", async () => {
    sim = await startSim({ script: [everything] });
    const events = await streamed(ask);
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, place) => place));
    const types = events.map((event) => event.type);
    expect(types.slice(0, 2)).toEqual(["response.created", "response.in_progress"]);
    expect(types.filter((type) => type === "response.output_item.added")).toHaveLength(3);
    expect(types.at(-1)).toBe("response.completed");
    const done = events.filter((event) => event.type === "response.output_item.done").map((event) => event.item);
    const response = objectOf(events.at(-1)?.response);
    expect(response.output).toEqual(done);
    expect(joined(events, "response.output_text.delta")).toBe("I look 👀 now. ");
    expect(joined(events, "response.function_call_arguments.delta")).toBe('{"at":7}');
    expect(joined(events, "response.reasoning_summary_text.delta")).toBe("Seven.");
    const deltas = events.filter((event) => String(event.type).endsWith(".delta"));
    expect(objectOf(response.usage).output_tokens).toBe(deltas.length);
  });

  test("an answer at its length limit is incomplete, and only its last item is", async () => {
    sim = await startSim({ script: [{ parts: [{ text: "a b " }, { text: "c d e" }] }] });
    const events = await streamed({ ...ask, max_output_tokens: 3 });
    expect(events.at(-1)).toMatchObject({
      type: "response.incomplete",
      response: { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } },
    });
    expect(objectOf(events.at(-1)?.response).output).toMatchObject([
      { status: "completed", content: [{ text: "a b " }] },
      { status: "incomplete", content: [{ text: "c " }] },
    ]);
  });

  test("a conversation of items is read", async () => {
    sim = await startSim();
    const input = [
      { role: "user", content: [{ type: "input_text", text: "My name is Ada." }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello." }] },
      { type: "reasoning", summary: [] },
      { type: "function_call", call_id: "c1", name: "look", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "seen" },
      { role: "user", content: "What is my name?" },
    ];
    expect(JSON.stringify(await (await post({ ...ask, input })).json())).toContain("Your name is Ada");
  });

  test.each([
    ["an earlier response", { previous_response_id: "resp_1" }],
    ["work in the background", { background: true }],
    ["an item of another kind", { input: [{ type: "item_reference", id: "x" }] }],
    ["a result without a call", { input: [{ type: "function_call_output", call_id: "c9", output: "" }] }],
  ])("refuses %s", async (_, fields) => {
    sim = await startSim();
    expect((await post({ ...ask, ...fields })).status).toBe(400);
  });
});

function joined(events: readonly JsonObject[], type: string): string {
  return events
    .filter((event) => event.type === type)
    .map((event) => String(event.delta))
    .join("");
}
