/** What an engine sees of a provider's stream, frame by frame. */
import { describe, expect, it } from "vitest";
import type { RawAnswer } from "@signalbox/testkit";
import { failed, frame, started, stopped, stream, text, thinking, toolUse } from "./anthropic-events.ts";
import { ask, open, raw, startModelFixture, StreamReader, until, type EngineRequest } from "./gate-fixture.ts";
import { snapshotWith } from "./watched-record.ts";

const NOTE =
  "[The call of docs__read was cut off at the output limit and was not run. Make smaller calls, one at a time.]";

const tools = [
  {
    name: "docs__read",
    server: "docs",
    tool: "read",
    title: "Read",
    description: "Reads a document.",
    effect: "read",
    definitionHash: "d".repeat(64),
    inputSchema: { type: "object" },
  },
] as const;

/** One answer of a provider through the gate: what the engine saw and how the call was settled. */
async function relay(answer: RawAnswer, request: EngineRequest = {}) {
  await using fixture = await startModelFixture({ script: [answer], snapshot: snapshotWith({ tools }) });
  const { body, status } = await ask(fixture.url, request);
  expect(fixture.record.settlements).toHaveLength(1);
  return { body, status, settlement: fixture.record.settlements[0]!, toolCalls: fixture.record.toolCalls };
}

describe("a message without calls", () => {
  it("passes byte for byte, pings and unknown events included, and is settled with its usage", async () => {
    const sent = [
      stream(started(), ...thinking(0, "hm")),
      ": a comment\n\n",
      stream({ type: "ping" }, { type: "of_tomorrow", index: 1 }, ...text(1, "Hel", "lo"), ...stopped("end_turn")),
    ].join("");
    const { body, settlement } = await relay(raw({ utf8: sent }));
    expect(body).toBe(sent);
    expect(settlement).toMatchObject({
      state: "succeeded",
      servedModel: "sim-1-2026",
      usage: { inputTokens: 25, outputTokens: 12, cacheReadTokens: 7, cacheWriteTokens: 3 },
      stopReason: "end_turn",
      errorCode: null,
      costMicros: 0,
      priceVersion: "sim",
      proposals: [],
    });
  });

  it("keeps every character when chunks end inside of one", async () => {
    const sent = stream(started(), ...text(0, "你好🌍 “ok”", "👩‍👩‍👧 é"), ...stopped("end_turn"));
    const bytes = [...Buffer.from(sent)].map((byte) => ({ b64: Buffer.from([byte]).toString("base64") }));
    const { body } = await relay(raw(...bytes));
    expect(body).toBe(sent);
  });

  it("understands CR LF frames cut inside the pair, data without a space, and U+2028", async () => {
    const event = (value: unknown): string => `event: x\r\ndata:${JSON.stringify(value)}\r\n\r\n`;
    const sent = [": hi\r\n\r\n", ...[started(), ...text(0, "a\u2028b"), ...stopped("end_turn")].map(event)].join("");
    const chunks = sent.split(/(?<=\r)/).map((utf8) => ({ utf8 }));
    const { body, settlement } = await relay(raw(...chunks));
    expect(body).toBe(sent);
    expect(settlement.state).toBe("succeeded");
  });

  it("shows text while the provider is still writing, and its end only when the call is settled", async () => {
    const first = stream(started(), ...text(0, "first words"));
    const script = [raw({ utf8: first }, { delayMs: 60_000 }, { hang: true })];
    await using fixture = await startModelFixture({ script });
    const response = await open(fixture.url);
    const reader = new StreamReader(response);
    expect(await reader.until("content_block_stop")).toBe(first);
    expect(fixture.record.settlements).toHaveLength(0);
    await fixture.record.cancel();
    fixture.gate.look(fixture.record.conversationId);
    await reader.toEnd();
  });
});

describe("a message with calls", () => {
  const head = stream(started(), ...text(0, "I look. "));
  const calls = stream(...toolUse(1, "toolu_a", '{"b":1,', '"a":"x"}'), ...toolUse(2, "toolu_b", ""));

  it("holds the calls until the message has ended, and releases them byte for byte once they are recorded", async () => {
    const script = [raw({ utf8: head }, { utf8: calls }, { delayMs: 300 }, { utf8: stream(...stopped("tool_use")) })];
    await using fixture = await startModelFixture({ script, snapshot: snapshotWith({ tools }) });
    const reader = new StreamReader(await open(fixture.url));
    expect(await reader.until("content_block_stop")).toBe(head);
    expect(fixture.record.toolCalls).toHaveLength(0);
    expect(await reader.toEnd()).toBe(head + calls + stream(...stopped("tool_use")));
    expect(
      fixture.record.toolCalls.map(({ toolUseId, name, argumentsJson, state }) => [
        toolUseId,
        name,
        argumentsJson,
        state,
      ]),
    ).toEqual([
      ["toolu_a", "docs__read", '{"a":"x","b":1}', "proposed"],
      ["toolu_b", "docs__read", "{}", "proposed"],
    ]);
    expect(fixture.record.toolCalls[0]!).toMatchObject({ server: "docs", tool: "read", effect: "read" });
  });

  it("holds text that comes after a call, so that blocks keep their order, and lets pings pass", async () => {
    const after = stream(...text(3, "and then"), ...stopped("tool_use"));
    const script = [raw({ utf8: head + calls + frame({ type: "ping" }) }, { delayMs: 200 }, { utf8: after })];
    await using fixture = await startModelFixture({ script, snapshot: snapshotWith({ tools }) });
    const reader = new StreamReader(await open(fixture.url));
    expect(await reader.until("ping")).toBe(head + frame({ type: "ping" }));
    expect(await reader.toEnd()).toBe(head + frame({ type: "ping" }) + calls + after);
  });

  it("records a call of a tool the agent has not, as denied", async () => {
    const { toolCalls } = await relay(
      raw({
        utf8: stream(
          started(),
          {
            type: "content_block_start",
            index: 0,
            content_block: { type: "tool_use", id: "toolu_x", name: "rm", input: {} },
          },
          { type: "content_block_stop", index: 0 },
          ...stopped("tool_use"),
        ),
      }),
    );
    expect(toolCalls).toMatchObject([
      { state: "denied", server: null, tool: null, effect: "irreversible", name: "rm" },
    ]);
  });

  it("makes characters well-formed that no record keeps", async () => {
    const { toolCalls } = await relay(
      raw({ utf8: stream(started(), ...toolUse(0, "toolu_u", '{"n":"\\ud83d x\\u0000"}'), ...stopped("tool_use")) }),
    );
    expect(toolCalls[0]!.argumentsJson).toBe('{"n":"\uFFFD x\uFFFD"}');
  });
});

describe("calls that no engine may run", () => {
  const noted = (index: number) => [
    { type: "content_block_start", index, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index, delta: { type: "text_delta", text: NOTE } },
    { type: "content_block_stop", index },
  ];
  const ended = (reason: string) => [
    { type: "message_delta", delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 12 } },
    { type: "message_stop" },
  ];

  const cases: readonly (readonly [string, readonly Readonly<Record<string, unknown>>[], string, string])[] = [
    [
      "unterminated arguments at the output limit",
      toolUse(0, "toolu_1", '{"n":"rm -rf /srv'),
      "max_tokens",
      "max_tokens",
    ],
    [
      "arguments that look complete at the output limit",
      toolUse(0, "toolu_1", '{"n":"all"}'),
      "max_tokens",
      "max_tokens",
    ],
    [
      "unterminated arguments although the provider says tool_use",
      toolUse(0, "toolu_1", '{"n":"all'),
      "tool_use",
      "max_tokens",
    ],
    ["a block that never closed", toolUse(0, "toolu_1", '{"n":"all"}').slice(0, -1), "tool_use", "max_tokens"],
    ["arguments that are no object", toolUse(0, "toolu_1", '"all"'), "tool_use", "max_tokens"],
    ["a provider that says end_turn", toolUse(0, "toolu_1", '{"n":"all"}'), "end_turn", "max_tokens"],
    ["a refusal", toolUse(0, "toolu_1", '{"n":"all"}'), "refusal", "refusal"],
  ];

  it.each(cases)("%s: a note stands in their place and nothing is proposed", async (...[_name, blocks, said, told]) => {
    const { body, settlement, toolCalls } = await relay(raw({ utf8: stream(started(), ...blocks, ...stopped(said)) }));
    expect(body).toBe(stream(started(), ...noted(0), ...ended(told)));
    expect(toolCalls).toEqual([]);
    expect(settlement).toMatchObject({
      state: "succeeded",
      stopReason: said,
      errorCode: "output_truncated",
      proposals: [],
    });
  });

  it("withholds the whole batch when one of its calls is cut off, and keeps what stood around it", async () => {
    const blocks = [...toolUse(1, "toolu_1", '{"n":1}'), ...text(2, "more"), ...toolUse(3, "toolu_2", '{"n":')];
    const sent = stream(started(), ...text(0, "I look."), ...blocks, ...stopped("max_tokens"));
    const { body, toolCalls } = await relay(raw({ utf8: sent }));
    expect(body).toBe(
      stream(started(), ...text(0, "I look."), ...noted(1), ...text(2, "more"), ...noted(3), ...ended("max_tokens")),
    );
    expect(toolCalls).toEqual([]);
  });

  it("withholds two calls under one id", async () => {
    const blocks = [...toolUse(0, "toolu_1", '{"n":1}'), ...toolUse(1, "toolu_1", '{"n":2}')];
    const { body, toolCalls } = await relay(raw({ utf8: stream(started(), ...blocks, ...stopped("tool_use")) }));
    expect(body).toBe(stream(started(), ...noted(0), ...noted(1), ...ended("max_tokens")));
    expect(toolCalls).toEqual([]);
  });
});

describe("a stream that breaks", () => {
  const OVERLOADED = failed("overloaded_error", "Overloaded");
  const ours = (code: string, message: string) =>
    frame({ type: "error", error: { type: "overloaded_error", message, code } });
  const LOST = "The connection to the model provider was lost.";
  const SHORT = "The model provider's stream ended before its message did.";
  const begun = stream(started(), ...text(0, "The invoice total is ").slice(0, 2));

  it("passes a provider's error that comes first, and charges nothing", async () => {
    const { body, settlement } = await relay(raw({ utf8: frame(OVERLOADED) }));
    expect(body).toBe(frame(OVERLOADED));
    expect(settlement).toMatchObject({
      state: "failed",
      errorCode: "provider_overloaded",
      usage: { inputTokens: 0, outputTokens: 0 },
    });
  });

  it("passes a provider's error after text, and charges what was received", async () => {
    const { body, settlement } = await relay(raw({ utf8: begun + frame(OVERLOADED) }));
    expect(body).toBe(begun + frame(OVERLOADED));
    expect(settlement).toMatchObject({
      state: "estimated",
      errorCode: "provider_overloaded",
      usage: { inputTokens: 25, outputTokens: 6 },
    });
  });

  it("drops a complete call when an error follows it", async () => {
    const sent = stream(started(), ...toolUse(0, "toolu_1", '{"n":"pay-100"}'), OVERLOADED);
    const { body, toolCalls } = await relay(raw({ utf8: sent }));
    expect(body).toBe(stream(started(), OVERLOADED));
    expect(toolCalls).toEqual([]);
  });

  it("drops half an event when the connection is cut inside it, and says so in an event of its own", async () => {
    const half = 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_del';
    const { body, settlement } = await relay(raw({ utf8: begun }, { utf8: half }, { cut: true }));
    expect(body).toBe(begun + ours("provider_stream_broken", LOST));
    expect(settlement).toMatchObject({ state: "estimated", errorCode: "provider_stream_broken" });
  });

  it("drops complete calls when the stream ends without saying how", async () => {
    const sent = stream(started(), ...text(0, "I look."), ...toolUse(1, "toolu_1", '{"n":1}'));
    const { body, toolCalls } = await relay(raw({ utf8: sent }));
    expect(body).toBe(stream(started(), ...text(0, "I look.")) + ours("provider_stream_broken", SHORT));
    expect(toolCalls).toEqual([]);
  });

  it("does not take a message for complete that never said how it ended", async () => {
    const { body, settlement } = await relay(
      raw({ utf8: stream(started(), ...text(0, "x"), { type: "message_stop" }) }),
    );
    expect(body).toBe(
      stream(started(), ...text(0, "x")) +
        ours(
          "provider_stream_broken",
          "The model provider's stream cannot be used: the message ended before it said how.",
        ),
    );
    expect(settlement.state).toBe("estimated");
  });

  it("does not pass an event that is no JSON", async () => {
    const { body } = await relay(raw({ utf8: `${begun}data: {"type":\n\n` }));
    expect(body).toBe(
      begun + ours("provider_stream_broken", "The model provider's stream cannot be used: an event is not valid JSON."),
    );
  });

  it("gives up a provider that falls silent", async () => {
    const script = [raw({ utf8: begun }, { hang: true })];
    await using fixture = await startModelFixture({ script, limits: { streamIdleMs: 150 } });
    const { body } = await ask(fixture.url);
    expect(body).toBe(begun + ours("provider_timeout", "The model provider did not answer in time."));
    expect(fixture.record.settlements).toMatchObject([{ state: "estimated", errorCode: "provider_timeout" }]);
    await until(() => fixture.sim.requests[0]?.closedAtMs !== null);
  });

  it("does not call a provider silent that keeps writing", async () => {
    const words = text(0, ..."abcdefgh".split(""));
    const chunks = [started(), ...words, ...stopped("end_turn")].flatMap((event) => [
      { utf8: frame(event) },
      { delayMs: 40 },
    ]);
    await using fixture = await startModelFixture({ script: [raw(...chunks)], limits: { streamIdleMs: 200 } });
    const { body } = await ask(fixture.url);
    expect(body).toBe(stream(started(), ...words, ...stopped("end_turn")));
  });

  it("just ends, for an engine that asks for it, when trying again may help", async () => {
    const quiet = { headers: { "signalbox-broken-stream": "end" } };
    const cut = await relay(raw({ utf8: begun }, { cut: true }), quiet);
    expect(cut.body).toBe(begun);
    const overloaded = await relay(raw({ utf8: begun + frame(OVERLOADED) }), quiet);
    expect(overloaded.body).toBe(begun);
    const final = failed("invalid_request_error", "too long");
    const refused = await relay(raw({ utf8: begun + frame(final) }), quiet);
    expect(refused.body).toBe(begun + frame(final));
  });
});
