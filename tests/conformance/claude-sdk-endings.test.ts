import { createServer } from "node:http";
import { once } from "node:events";
import type { ErrorCode } from "@signalbox/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { spokenIn, startedMessage, type Reply } from "./claude-sdk/model-double.ts";
import { makeWorld, say, visibleTexts, type OpenedSession, type World } from "./claude-sdk/world.ts";

let world: World;
let opened: OpenedSession;

beforeAll(async () => {
  world = await makeWorld(() => ({ blocks: [] }));
  opened = await world.open();
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

const refusedBy = (status: number, message: string, type = "some_error"): Reply => ({
  status,
  error: { type, message },
});

interface Ending {
  readonly name: string;
  readonly reply: Reply;
  readonly code: ErrorCode;
  readonly detail?: string;
  /** How often the engine may ask the provider: once, or with its bounded attempts. */
  readonly maxCalls: number;
}

const started = { type: "message_start", message: startedMessage("msg_x") };
const begun = { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } };
const partial = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "The total is " } };
const errorEvent = (type: string, message: string) => ({ type: "error", error: { type, message } });

const ENDINGS: readonly Ending[] = [
  {
    name: "a gate that says the owner is stale",
    reply: refusedBy(410, "This owner no longer owns the conversation."),
    code: "stale_generation",
    detail: "This owner no longer owns the conversation.",
    maxCalls: 1,
  },
  {
    name: "a gate that did not grant the model",
    reply: refusedBy(403, "The run was not granted this model.", "model_not_granted"),
    code: "model_not_granted",
    detail: "The run was not granted this model.",
    maxCalls: 1,
  },
  {
    name: "a spent budget",
    reply: refusedBy(402, "No budget."),
    code: "provider_error",
    detail: "No budget.",
    maxCalls: 1,
  },
  // Twice it tries with a shorter conversation.
  { name: "a request that is too large", reply: refusedBy(413, "Too large."), code: "payload_too_large", maxCalls: 3 },
  { name: "a limited rate", reply: refusedBy(429, "Slow down."), code: "provider_rate_limited", maxCalls: 3 },
  { name: "an overloaded provider", reply: refusedBy(529, "Overloaded."), code: "provider_overloaded", maxCalls: 3 },
  { name: "a failing provider", reply: refusedBy(500, "Boom."), code: "provider_failed", maxCalls: 3 },
  {
    name: "an error event inside the stream",
    reply: { events: [started, begun, partial, errorEvent("api_error", "Upstream failed.")] },
    code: "provider_error",
    maxCalls: 1,
  },
  {
    name: "an overload reported inside the stream",
    reply: { events: [started, begun, partial, errorEvent("overloaded_error", "Overloaded")] },
    code: "provider_overloaded",
    maxCalls: 1,
  },
  { name: "a refusal", reply: { blocks: [{ text: ["I can"] }], stopReason: "refusal" }, code: "refused", maxCalls: 1 },
  { name: "an answer without a word", reply: { blocks: [] }, code: "answer_missing", maxCalls: 2 },
];

test.each(ENDINGS)("$name ends the run as $code, with nothing of it shown", async (ending) => {
  const before = world.model.requests.length;
  world.model.script = () => ending.reply;
  const { result, events } = await say(opened.session, `Ending ${ending.name}`);
  expect(result).toMatchObject({ outcome: "failed", answer: "", error: { code: ending.code } });
  expect(visibleTexts(events)).toEqual([]);
  expect(world.model.requests.length - before).toBeLessThanOrEqual(ending.maxCalls);
  // The engine's own wording names addresses and variables of the machine.
  expect(result.error?.detail).not.toMatch(/127\.0\.0\.1|ANTHROPIC|API Error/);
  if (ending.detail !== undefined) {
    expect(result.error?.detail).toBe(ending.detail);
  }
});

test("an answer cut at its length limit stays, is called truncated, and is hardly asked to go on", async () => {
  const before = world.model.requests.length;
  // A model takes its time: it answers again only when nobody waits for it any more.
  const over = Promise.withResolvers<void>();
  world.model.script = async () => {
    if (world.model.requests.length > before + 1) await over.promise;
    return { blocks: [{ text: ["The first ", "half"] }], stopReason: "max_tokens" };
  };
  const { result, events } = await say(opened.session, "Much text");
  over.resolve();
  expect(result).toMatchObject({
    outcome: "failed",
    answer: "The first half",
    stopReason: "max_tokens",
    error: { code: "output_truncated" },
  });
  expect(visibleTexts(events)).toEqual(["The first half"]);
  // The engine asks for more by itself; one call may be out before it is stopped.
  expect(world.model.requests.length - before).toBeLessThanOrEqual(2);
});

test("a stream that breaks is asked again; what readers saw of it is taken back", async () => {
  const { promise: seen, resolve: see } = Promise.withResolvers<void>();
  let attempts = 0;
  world.model.script = (): Reply => {
    attempts += 1;
    return attempts === 1
      ? { blocks: [{ text: ["The total ", "is ", seen] }], cut: true }
      : { blocks: [{ text: ["All good."] }] };
  };
  const { result, events } = await say(opened.session, "What is the total?", {
    onEvent: (event) => event.type === "text.delta" && see(),
  });
  expect(result).toMatchObject({ outcome: "done", answer: "All good.", error: null });
  expect(events.filter((event) => event.type === "text.delta").length).toBeGreaterThan(1);
  expect(events.filter((event) => event.type === "text.retracted")).toHaveLength(1);
  expect(visibleTexts(events)).toEqual(["All good."]);
});

test("after all that the conversation still works, and no invented text is in it", async () => {
  world.model.script = () => ({ blocks: [{ text: ["Still here. \ud83d\ude80 a\u0000b"] }] });
  const { result, events } = await say(opened.session, "Hello?");
  expect(result).toMatchObject({ outcome: "done", answer: "Still here. 🚀 a\ufffdb" });
  expect(visibleTexts(events)).toEqual(["Still here. 🚀 a\ufffdb"]);
  const spoken = spokenIn(world.model.requests.at(-1)!).join("\n");
  expect(spoken).not.toMatch(/API Error|No response requested/);
  expect(opened.losses).toEqual([]);
});

test("characters split over pieces arrive whole, and halves are replaced", async () => {
  world.model.script = () => ({
    blocks: [{ thinking: ["hm \ud83d"] }, { text: ["ok \ud83d", "\ude80 and \ud83d", "x"] }],
  });
  const { result, events } = await say(opened.session, "Say it");
  expect(result.answer).toBe("ok 🚀 and \ufffdx");
  const deltas = events.flatMap((event) => (event.type === "text.delta" ? [event.text] : []));
  expect(deltas.join("")).toBe("ok 🚀 and \ufffdx");
  expect(deltas.every((piece) => piece.isWellFormed())).toBe(true);
  expect(events.find((event) => event.type === "thinking.completed")).toMatchObject({ text: "hm \ufffd" });
});

test.each([
  ["refuses the token", { slotToken: "wrong" }],
  ["is not there", { toolUrl: "http://127.0.0.1:9/mcp" }],
])("a tool gate that %s fails the session when it opens, and no model is asked", async (_name, opening) => {
  const before = world.model.requests.length;
  await expect(world.open(opening)).rejects.toMatchObject({ code: "tool_upstream_failed" });
  expect(world.model.requests.length).toBe(before);
  expect(world.engines().length).toBe(1);
});

test("a tool gate that never answers fails the session within its limit", async () => {
  const silent = createServer(() => undefined).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as { readonly port: number };
  await expect(world.open({ toolUrl: `http://127.0.0.1:${String(port)}/mcp` })).rejects.toMatchObject({
    code: "tool_upstream_failed",
  });
  silent.closeAllConnections();
  silent.close();
  await once(silent, "close");
});
