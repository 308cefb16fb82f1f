import type { SDKMessage } from "@anthropic-ai/claude-agent-sdk";
import type { StepEvent } from "@signalbox/worker";
import { describe, expect, test } from "vitest";
import { TurnTranslation } from "./turn-translation.ts";

/** Messages are written as the engine was seen to send them, with the fields that are read. */
const sdk = (message: Readonly<Record<string, unknown>>): SDKMessage =>
  ({ parent_tool_use_id: null, uuid: "00000000-0000-4000-8000-000000000000", session_id: "s", ...message }) as never;
const stream = (event: Readonly<Record<string, unknown>>): SDKMessage => sdk({ type: "stream_event", event });

const start = (id: string, model = "served-1") => stream({ type: "message_start", message: { id, model } });
const block = (index: number, type: string) => stream({ type: "content_block_start", index, content_block: { type } });
const text = (index: number, piece: string) =>
  stream({ type: "content_block_delta", index, delta: { type: "text_delta", text: piece } });
const thinking = (index: number, piece: string) =>
  stream({ type: "content_block_delta", index, delta: { type: "thinking_delta", thinking: piece } });
const blockEnd = (index: number) => stream({ type: "content_block_stop", index });
const end = (reason: string | null) => [
  stream({ type: "message_delta", delta: { stop_reason: reason } }),
  stream({ type: "message_stop" }),
];
const whole = (id: string, content: readonly unknown[], more: Readonly<Record<string, unknown>> = {}) =>
  sdk({ type: "assistant", message: { id, model: "served-1", content, stop_reason: null }, ...more });
const invented = (error: string) =>
  sdk({
    type: "assistant",
    error,
    message: { id: "x", model: "<synthetic>", content: [{ type: "text", text: "API Error: no" }] },
  });
const status = (value: string) => sdk({ type: "system", subtype: "status", status: value });

function play(messages: readonly SDKMessage[]): {
  readonly translation: TurnTranslation;
  readonly events: readonly StepEvent[];
} {
  let count = 0;
  const translation = new TurnTranslation(() => `itm_${String((count += 1))}`);
  return { translation, events: messages.flatMap((message) => translation.accept(message)) };
}

const spoken = (events: readonly StepEvent[]) => events.filter((event) => event.type !== "run.phase");

describe("a message that ends", () => {
  const { translation, events } = play([
    status("requesting"),
    start("m1"),
    block(0, "thinking"),
    thinking(0, "hm"),
    whole("m1", [{ type: "thinking", thinking: "hm" }]),
    blockEnd(0),
    block(1, "text"),
    text(1, "Hel"),
    text(1, "lo"),
    whole("m1", [{ type: "text", text: "Hello" }]),
    blockEnd(1),
    ...end("end_turn"),
  ]);

  test("is streamed by item and offset, and completed only when it has ended", () => {
    expect(spoken(events)).toEqual([
      { type: "thinking.delta", itemId: "itm_1", offset: 0, text: "hm" },
      { type: "text.delta", itemId: "itm_2", offset: 0, text: "Hel" },
      { type: "text.delta", itemId: "itm_2", offset: 3, text: "lo" },
      { type: "thinking.completed", itemId: "itm_1", text: "hm" },
      { type: "text.completed", itemId: "itm_2", text: "Hello" },
    ]);
  });

  test("is the answer", () => {
    expect(translation.facts()).toEqual({
      answer: "Hello",
      stopReason: "end_turn",
      servedModel: "served-1",
      errorKind: "",
      errorType: "",
      wasCut: false,
    });
    expect(translation.end(false)).toEqual([]);
  });

  test("shows each phase once", () => {
    const phases = events.filter((event) => event.type === "run.phase").map((event) => event.phase);
    expect(phases).toEqual(["waiting_provider", "thinking", "writing"]);
  });
});

test("two text blocks of one message are two items and one answer", () => {
  const { translation, events } = play([
    start("m1"),
    block(0, "text"),
    text(0, "One. "),
    whole("m1", [{ type: "text", text: "One. " }]),
    blockEnd(0),
    block(1, "text"),
    text(1, "Two."),
    whole("m1", [{ type: "text", text: "Two." }]),
    blockEnd(1),
    ...end("end_turn"),
  ]);
  expect(spoken(events).slice(-2)).toEqual([
    { type: "text.completed", itemId: "itm_1", text: "One. " },
    { type: "text.completed", itemId: "itm_2", text: "Two." },
  ]);
  expect(translation.facts().answer).toBe("One. Two.");
});

test("a message begun anew takes back what was said of the first attempt", () => {
  const { translation, events } = play([
    start("m1"),
    block(0, "text"),
    text(0, "The total is"),
    blockEnd(0),
    stream({ type: "message_stop" }),
    start("m2"),
    block(0, "text"),
    text(0, "All good."),
    ...end("end_turn"),
  ]);
  expect(spoken(events)).toEqual([
    { type: "text.delta", itemId: "itm_1", offset: 0, text: "The total is" },
    { type: "text.retracted", itemId: "itm_1", cause: "retried" },
    { type: "text.delta", itemId: "itm_2", offset: 0, text: "All good." },
    { type: "text.completed", itemId: "itm_2", text: "All good." },
  ]);
  expect(translation.facts().answer).toBe("All good.");
});

test("a retry the engine announces takes back the dead attempt at once", () => {
  const { events } = play([
    start("m1"),
    block(0, "text"),
    text(0, "The"),
    sdk({ type: "system", subtype: "api_retry" }),
  ]);
  expect(spoken(events).at(-1)).toEqual({ type: "text.retracted", itemId: "itm_1", cause: "retried" });
});

test("a message without a stop reason does not count, and an invented error is never shown", () => {
  const { translation, events } = play([
    start("m1"),
    block(0, "text"),
    text(0, "The total is "),
    invented("overloaded"),
    blockEnd(0),
    ...end(null),
  ]);
  expect(JSON.stringify(events)).not.toContain("API Error");
  expect(translation.end(false)).toEqual([{ type: "text.retracted", itemId: "itm_1", cause: "incomplete" }]);
  expect(translation.facts()).toMatchObject({ answer: "", errorKind: "overloaded", wasCut: true });
});

test("an error in the middle is forgotten once the model has spoken again", () => {
  const { translation } = play([
    invented("server_error"),
    start("m2"),
    block(0, "text"),
    text(0, "Fine."),
    ...end("end_turn"),
  ]);
  expect(translation.facts()).toMatchObject({ answer: "Fine.", errorKind: "" });
});

test("what an interrupt cut short is kept as far as it came", () => {
  const { translation } = play([
    start("m1"),
    block(0, "text"),
    text(0, "Once upon"),
    whole("m1", [{ type: "text", text: "Once upon" }], { aborted: true }),
    ...end(null),
  ]);
  expect(translation.end(true)).toEqual([{ type: "text.completed", itemId: "itm_1", text: "Once upon" }]);
  expect(translation.facts().answer).toBe("Once upon");
});

test("a refused text is taken back and is no answer", () => {
  const { translation, events } = play([start("m1"), block(0, "text"), text(0, "I can"), ...end("refusal")]);
  expect(spoken(events).at(-1)).toEqual({ type: "text.retracted", itemId: "itm_1", cause: "refused" });
  expect(translation.facts()).toMatchObject({ answer: "", stopReason: "refusal" });
});

test("a text cut at its length is truncated; a call cut there is the gate's matter", () => {
  expect(play([start("m1"), block(0, "text"), text(0, "I"), ...end("max_tokens")]).translation.isTruncated).toBe(true);
  expect(play([start("m1"), block(0, "tool_use"), ...end("max_tokens")]).translation.isTruncated).toBe(false);
  expect(play([start("m1"), block(0, "text"), text(0, "I"), ...end("end_turn")]).translation.isTruncated).toBe(false);
});

test("an answer that comes in one piece is completed without deltas", () => {
  const message = { id: "m1", model: "served-2", content: [{ type: "text", text: "Whole." }], stop_reason: "end_turn" };
  const { translation, events } = play([sdk({ type: "assistant", message })]);
  expect(events).toEqual([{ type: "text.completed", itemId: "itm_1", text: "Whole." }]);
  expect(translation.facts()).toMatchObject({ answer: "Whole.", servedModel: "served-2", stopReason: "end_turn" });
});

test("a message that replaces earlier ones takes them back", () => {
  const { events } = play([
    start("m1"),
    block(0, "text"),
    text(0, "First"),
    whole("m1", [{ type: "text", text: "First" }], { uuid: "row-1" }),
    ...end("end_turn"),
    start("m2"),
    block(0, "text"),
    text(0, "Second"),
    whole("m2", [{ type: "text", text: "Second" }], { uuid: "row-2", supersedes: ["row-1"] }),
    ...end("end_turn"),
  ]);
  expect(spoken(events)).toContainEqual({ type: "text.retracted", itemId: "itm_1", cause: "replaced" });
});

test("an empty block is no item, and what a subagent says is not ours", () => {
  const { events } = play([
    start("m1"),
    block(0, "text"),
    whole("m1", [{ type: "text", text: "" }]),
    ...end("end_turn"),
    sdk({
      type: "assistant",
      parent_tool_use_id: "toolu_1",
      message: { id: "s1", model: "m", content: [{ type: "text", text: "sub" }] },
    }),
  ]);
  expect(spoken(events)).toEqual([]);
});
