/** What an engine hears when a provider refuses, is away, or answers in one piece. */
import { describe, expect, it } from "vitest";
import type { ScriptedAnswer } from "@signalbox/testkit";
import { ask, MESSAGE, startModelFixture, type ModelFixtureOptions, type raw } from "./gate-fixture.ts";

const error = (type: string, message: string) => ({ type: "error", error: { type, message } });

async function refused(answer: ScriptedAnswer, options: ModelFixtureOptions = {}) {
  await using fixture = await startModelFixture({ ...options, script: [answer] });
  const { status, headers, body } = await ask(fixture.url);
  return { status, headers, error: JSON.parse(body).error, settlements: fixture.record.settlements };
}

describe("a provider that refuses", () => {
  const statuses: readonly (readonly [number, number, string])[] = [
    [400, 400, "provider_error"],
    [401, 403, "provider_error"],
    [403, 403, "provider_error"],
    [404, 404, "provider_error"],
    [413, 413, "payload_too_large"],
    [429, 429, "provider_rate_limited"],
    [500, 500, "provider_failed"],
    [502, 502, "provider_failed"],
    [599, 599, "provider_failed"],
    [503, 503, "provider_overloaded"],
    [504, 504, "provider_timeout"],
    [529, 529, "provider_overloaded"],
    [302, 502, "provider_error"],
  ];

  it.each(statuses)("with %i is told to the engine as %i, code %s, and costs nothing", async (status, told, code) => {
    const answered = await refused({ status, body: error("some_error", "no") });
    expect(answered.status).toBe(told);
    expect(answered.error).toMatchObject({ message: "no", code });
    expect(answered.headers.get("signalbox-code")).toBe(code);
    expect(answered.settlements).toMatchObject([
      { state: "failed", errorCode: code, usage: { inputTokens: 0, outputTokens: 0 }, proposals: [] },
    ]);
  });

  const farAway = Math.ceil((Date.UTC(2099, 9, 21, 7, 28) - Date.now()) / 1_000);
  const waits: readonly (readonly [string, number, Readonly<Record<string, string>>, number | null])[] = [
    ["seconds", 429, { "retry-after": "2" }, 2],
    ["nothing", 529, {}, null],
    ["a date", 429, { "retry-after": "Wed, 21 Oct 2099 07:28:00 GMT" }, farAway],
    ["a negative number", 429, { "retry-after": "-1" }, null],
    ["garbage beside milliseconds", 429, { "retry-after": "abc", "retry-after-ms": "350" }, 1],
    ["a wait with an error that no wait mends", 400, { "retry-after": "1" }, null],
  ];

  it.each(waits)("says how long to wait by %s", async (...[_name, status, headers, seconds]) => {
    const answered = await refused({ status, headers, body: error("rate_limit_error", "slow down") });
    expect(answered.status).toBe(status);
    const told = answered.headers.get("retry-after");
    if (seconds === null) expect(told).toBeNull();
    else expect(Math.abs(Number(told) - seconds)).toBeLessThan(60);
  });

  it("is quoted without the key, should it repeat it, and without a body that is no error of the wire", async () => {
    const quoted = await refused(
      { status: 400, body: error("invalid_request_error", "key sk-real is bad") },
      { apiKey: "sk-real" },
    );
    expect(quoted.error.message).toBe("key [redacted] is bad");
    const page = await refused({
      status: 502,
      headers: { "content-type": "text/html" },
      body: "<html>10.0.0.1</html>",
    });
    expect(page.error).toEqual({
      type: "api_error",
      message: "The model provider answered with status 502.",
      code: "provider_failed",
    });
  });
});

describe("a provider that is away", () => {
  const away = {
    name: "sim",
    baseUrl: "http://127.0.0.1:9",
    wire: "anthropic",
    apiKey: null,
    simulated: true,
  } as const;

  it("cannot be reached: 502, which engines try again", async () => {
    const answered = await refused({ extractive: true }, { providers: [away] });
    expect([answered.status, answered.error.type, answered.error.code]).toEqual([
      502,
      "api_error",
      "provider_unreachable",
    ]);
    expect(answered.error.message).not.toContain("127.0.0.1");
    expect(answered.settlements).toMatchObject([{ state: "failed", errorCode: "provider_unreachable" }]);
  });

  it("closes the connection before it answers", async () => {
    const answered = await refused({ noAnswer: "cut" });
    expect([answered.status, answered.error.code]).toEqual([502, "provider_unreachable"]);
  });

  it("never answers: 504 after the idle time", async () => {
    const answered = await refused({ noAnswer: "hang" }, { limits: { streamIdleMs: 100 } });
    expect([answered.status, answered.error.code]).toEqual([504, "provider_timeout"]);
    expect(answered.settlements).toMatchObject([{ state: "failed", errorCode: "provider_timeout" }]);
  });

  it("answers a request for a stream with something else", async () => {
    const page = { raw: { headers: { "content-type": "application/json" }, chunks: [{ utf8: "{}" }] } };
    const answered = await refused(page);
    expect([answered.status, answered.error.code]).toEqual([502, "provider_stream_broken"]);
  });
});

describe("a message in one piece", () => {
  const whole = (message: Readonly<Record<string, unknown>>): ScriptedAnswer => ({
    raw: {
      headers: { "content-type": "application/json" },
      chunks: [
        {
          utf8: JSON.stringify({
            id: "msg_1",
            type: "message",
            role: "assistant",
            model: "sim-1",
            stop_sequence: null,
            usage: { input_tokens: 5, output_tokens: 6 },
            ...message,
          }),
        },
      ],
    },
  });
  const body = { ...MESSAGE, stream: false };
  const call = { type: "tool_use", id: "toolu_1", name: "mcp__signalbox__docs__read", input: { n: "all" } };

  it("passes as it came", async () => {
    const answer = whole({ content: [{ type: "text", text: "All good." }], stop_reason: "end_turn" });
    await using fixture = await startModelFixture({ script: [answer] });
    const answered = await ask(fixture.url, { body });
    expect(answered.body).toBe(
      (answer as ReturnType<typeof raw>).raw.chunks.map((chunk) => ("utf8" in chunk ? chunk.utf8 : "")).join(""),
    );
    expect(fixture.record.settlements).toMatchObject([
      { state: "succeeded", usage: { inputTokens: 5, outputTokens: 6 } },
    ]);
  });

  it("has its calls recorded before the engine sees them", async () => {
    await using fixture = await startModelFixture({ script: [whole({ content: [call], stop_reason: "tool_use" })] });
    const answered = await ask(fixture.url, { body });
    expect(JSON.parse(answered.body).content).toEqual([call]);
    expect(fixture.record.toolCalls.map(({ toolUseId }) => toolUseId)).toEqual(["toolu_1"]);
  });

  it("has a note in the place of calls that were cut off", async () => {
    await using fixture = await startModelFixture({
      script: [whole({ content: [{ type: "text", text: "x" }, call], stop_reason: "max_tokens" })],
    });
    const answered = JSON.parse((await ask(fixture.url, { body })).body);
    expect(answered.stop_reason).toBe("max_tokens");
    expect(answered.content.map((block: { readonly type: string }) => block.type)).toEqual(["text", "text"]);
    expect(fixture.record.toolCalls).toEqual([]);
  });

  it("that is no message is the provider's failure", async () => {
    await using fixture = await startModelFixture({
      script: [{ raw: { headers: { "content-type": "application/json" }, chunks: [{ utf8: '{"a":1}' }] } }],
    });
    const answered = await ask(fixture.url, { body });
    expect([answered.status, JSON.parse(answered.body).error.code]).toEqual([502, "provider_stream_broken"]);
    expect(fixture.record.settlements).toMatchObject([{ state: "failed" }]);
  });
});
