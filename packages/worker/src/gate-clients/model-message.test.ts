import { describe, expect, it } from "vitest";
import { ModelMessageBuilder, type ModelDelta, type ModelMessage } from "./model-message.ts";

const START = { type: "message_start", message: { model: "served-1" } };
const STOP = { type: "message_stop" };

function stopped(reason: string): object {
  return { type: "message_delta", delta: { stop_reason: reason } };
}

function opened(index: number, block: object): object {
  return { type: "content_block_start", index, content_block: block };
}

function extended(index: number, delta: object): object {
  return { type: "content_block_delta", index, delta };
}

function build(...events: readonly object[]): {
  readonly message: ModelMessage;
  readonly deltas: readonly ModelDelta[];
} {
  const builder = new ModelMessageBuilder();
  const deltas = events.map((event) => builder.take(JSON.stringify(event))).filter((delta) => delta !== null);
  return { message: builder.finish(), deltas };
}

const TOOL = opened(0, { type: "tool_use", id: "t1", name: "read", input: {} });

describe("a message from its stream", () => {
  it("puts text, thinking and calls together", () => {
    const { message, deltas } = build(
      START,
      opened(0, { type: "thinking", thinking: "", signature: "" }),
      extended(0, { type: "thinking_delta", thinking: "Hm." }),
      extended(0, { type: "signature_delta", signature: "s1" }),
      { type: "content_block_stop", index: 0 },
      opened(1, { type: "text", text: "" }),
      { type: "ping" },
      extended(1, { type: "text_delta", text: "Hello " }),
      extended(1, { type: "text_delta", text: "you" }),
      opened(2, { type: "tool_use", id: "t1", name: "read", input: {} }),
      extended(2, { type: "input_json_delta", partial_json: '{"path":' }),
      extended(2, { type: "input_json_delta", partial_json: '"a"}' }),
      stopped("tool_use"),
      STOP,
    );
    expect(message).toEqual({
      servedModel: "served-1",
      stopReason: "tool_use",
      content: [
        { type: "thinking", thinking: "Hm.", signature: "s1" },
        { type: "text", text: "Hello you" },
        { type: "tool_use", id: "t1", name: "read", input: { path: "a" } },
      ],
    });
    expect(deltas).toEqual([
      { type: "thinking", block: 0, text: "Hm." },
      { type: "block_stopped", block: 0 },
      { type: "text", block: 1, text: "Hello " },
      { type: "text", block: 1, text: "you" },
    ]);
  });

  it("takes a call without arguments as one with none", () => {
    expect(build(START, TOOL, stopped("tool_use"), STOP).message.content).toEqual([
      { type: "tool_use", id: "t1", name: "read", input: {} },
    ]);
  });

  it.each(['{"n":"all"}', '{"n":"al'])("keeps no call of a message cut off at its length limit: %s", (json) => {
    const { message } = build(
      START,
      TOOL,
      extended(0, { type: "input_json_delta", partial_json: json }),
      stopped("max_tokens"),
      STOP,
    );
    expect(message.content).toEqual([]);
  });

  it.each(['{"n":', "[1]", '"text"'])("refuses a whole message whose call has the arguments %s", (json) => {
    const events = [
      START,
      TOOL,
      extended(0, { type: "input_json_delta", partial_json: json }),
      stopped("tool_use"),
      STOP,
    ];
    expect(() => build(...events)).toThrow(/arguments of a tool call/);
  });

  it("is broken without its stop", () => {
    const text = opened(0, { type: "text", text: "half" });
    expect(() => build(START, text)).toThrow(/ended too early/);
    expect(() => build(START, text, STOP)).toThrow(/ended too early/);
    expect(() => build(START, text, stopped("end_turn"))).toThrow(/ended too early/);
  });

  it("is broken when a part is missing", () => {
    expect(() => build(START, opened(1, { type: "text", text: "" }))).toThrow(/skipped/);
    expect(() => build(START, extended(0, { type: "text_delta", text: "x" }))).toThrow(/never began/);
    expect(() => new ModelMessageBuilder().take("{no json")).toThrow(/not valid JSON/);
  });

  it("is well-formed, and drops thinking that is not rather than change it", () => {
    const { message } = build(
      START,
      opened(0, { type: "thinking", thinking: "" }),
      extended(0, { type: "thinking_delta", thinking: "half \ud83d" }),
      opened(1, { type: "text", text: "" }),
      extended(1, { type: "text_delta", text: "a\ud83d" }),
      extended(1, { type: "text_delta", text: "\ude80 \udc00" }),
      opened(2, { type: "tool_use", id: "t", name: "n", input: { k: "\ud83d" } }),
      stopped("tool_use"),
      STOP,
    );
    expect(message.content).toEqual([
      { type: "text", text: "a🚀 \ufffd" },
      { type: "tool_use", id: "t", name: "n", input: { k: "\ufffd" } },
    ]);
  });
});
