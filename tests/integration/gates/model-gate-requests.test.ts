/** What leaves the gate towards a provider, and what never does. */
import { describe, expect, it } from "vitest";
import { started, stopped, stream, text } from "./anthropic-events.ts";
import { ask, MESSAGE, raw, startModelFixture } from "./gate-fixture.ts";
import { snapshotWith, TOKEN, TOKEN_HASH } from "./watched-record.ts";

const answer = raw({ utf8: stream(started(), ...text(0, "All good."), ...stopped("end_turn")) });

function errorOf(body: string): { readonly type: string; readonly code: string; readonly message: string } {
  const parsed = JSON.parse(body);
  expect(parsed.type).toBe("error");
  return parsed.error;
}

describe("a request that is granted", () => {
  it("goes out as it came but for the model's name, after its intent was committed", async () => {
    await using fixture = await startModelFixture({ script: [answer] });
    const body = {
      ...MESSAGE,
      system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
      messages: [{ role: "user", content: [{ type: "text", text: "literal \\u0000 and 🌍" }] }],
      thinking: { type: "adaptive" },
    };
    await ask(fixture.url, { body });
    expect(fixture.sim.requests[0]!.body).toEqual({ ...body, model: "sim-1" });
    expect(fixture.record.intents).toMatchObject([
      {
        tokenHash: TOKEN_HASH,
        process: 1,
        wire: "anthropic",
        requestedModel: "sim/sim-1",
        requestBytes: Buffer.byteLength(JSON.stringify(body)),
        rules: ["model_prefix"],
      },
    ]);
  });

  it("carries the provider's key and two headers of the engine, and nothing else of it", async () => {
    await using fixture = await startModelFixture({ script: [answer], apiKey: "sk-real" });
    const headers = {
      "anthropic-beta": "context-management-2025-06-27",
      "anthropic-version": "2023-06-01",
      cookie: "a=b",
      "x-claude-code-session-id": "s",
      "x-api-key": "from-the-engine",
    };
    await ask(fixture.url, { headers, path: "/v1/messages?beta=true&debug=1" });
    const seen = fixture.sim.requests[0]!.headers;
    expect(seen["x-api-key"]).toBe("sk-real");
    expect(seen["anthropic-beta"]).toBe(headers["anthropic-beta"]);
    expect(Object.keys(seen).toSorted()).toEqual(
      [
        "accept",
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
        "x-api-key",
      ].toSorted(),
    );
    expect(JSON.stringify(fixture.log.lines)).not.toContain("sk-real");
  });

  it("takes the slot token as an API key too", async () => {
    await using fixture = await startModelFixture({ script: [answer] });
    const { status } = await ask(fixture.url, { headers: { authorization: "", "x-api-key": TOKEN } });
    expect(status).toBe(200);
  });

  it("may not ask for more output than the snapshot allows", async () => {
    await using fixture = await startModelFixture({ script: [answer] });
    await ask(fixture.url, { body: { ...MESSAGE, max_tokens: 128_000 } });
    expect(fixture.sim.requests[0]!.body).toMatchObject({ max_tokens: 4_096 });
    expect(fixture.record.intents[0]!.rules).toEqual(["model_prefix", "max_tokens_lowered"]);
  });

  it("carries no lone surrogate and no NUL, wherever they stand", async () => {
    await using fixture = await startModelFixture({ script: [answer] });
    const content = [{ type: "tool_result", tool_use_id: "t", content: "a\u0000b \ud83d c", "k\ud83d": 1 }];
    const messages = [
      { role: "user", content: "x" },
      { role: "assistant", content: [{ type: "tool_use", id: "t", name: "n", input: {} }] },
      { role: "user", content },
    ];
    await ask(fixture.url, { body: { ...MESSAGE, messages } });
    expect(fixture.sim.requests[0]!.body).toMatchObject({
      messages: [{}, {}, { content: [{ content: "a\uFFFDb \uFFFD c", "k\uFFFD": 1 }] }],
    });
    expect(fixture.record.intents[0]!.rules).toEqual(["model_prefix", "text_well_formed"]);
  });

  const tool = (name: string) => ({ name, description: name, input_schema: { type: "object" } });
  const auto = { type: "auto" };

  it.each<Withheld>([
    {
      which: "one",
      withheldTools: ["docs__pay"],
      choice: { type: "tool", name: "docs__read" },
      expected: { tools: ["docs__read"], choice: "docs__read" },
    },
    {
      which: "one that must be chosen",
      withheldTools: ["docs__pay"],
      choice: { type: "tool", name: "docs__pay" },
      expected: { tools: ["docs__read"] },
    },
    { which: "all", withheldTools: ["docs__pay", "docs__read"], choice: auto, expected: {} },
    {
      which: "none of these",
      withheldTools: ["docs__other"],
      choice: auto,
      expected: { tools: ["docs__read", "docs__pay"], choice: "auto" },
    },
  ])("does not offer a tool that is withheld, by either name: $which", async ({ withheldTools, choice, expected }) => {
    for (const prefix of ["", "mcp__signalbox__"]) {
      await using fixture = await startModelFixture({ script: [answer], withheldTools });
      const tools = ["docs__read", "docs__pay"].map((name) => tool(`${prefix}${name}`));
      const named = choice.name !== undefined ? { ...choice, name: `${prefix}${choice.name}` } : choice;
      await ask(fixture.url, { body: { ...MESSAGE, tools, tool_choice: named } });
      const seen = fixture.sim.requests[0]!.body as SeenTools;
      const plain = (name: string | undefined) => name?.replace(prefix, "");
      expect({
        tools: seen.tools?.map(({ name }) => plain(name)),
        choice: plain(seen.tool_choice?.name ?? seen.tool_choice?.type),
      }).toEqual(expected);
      const isFull = expected.tools?.length === 2;
      expect(fixture.record.intents[0]!.rules).toEqual(["model_prefix", ...(isFull ? [] : ["tools_withheld"])]);
    }
  });
});

interface Withheld {
  readonly which: string;
  readonly withheldTools: readonly string[];
  readonly choice: { readonly type: string; readonly name?: string };
  readonly expected: { readonly tools?: readonly string[]; readonly choice?: string };
}

interface SeenTools {
  readonly tools?: readonly { readonly name: string }[];
  readonly tool_choice?: { readonly type: string; readonly name?: string };
}

describe("a request that is refused", () => {
  const cases: readonly (readonly [string, unknown, number, string, string])[] = [
    ["a body that is no JSON", "{", 400, "invalid_request_error", "malformed_json"],
    ["a body that is no UTF-8", new Uint8Array([0x7b, 0xff, 0x7d]), 400, "invalid_request_error", "invalid_encoding"],
    ["a list", [], 400, "invalid_request_error", "invalid_request"],
    ["no model", { ...MESSAGE, model: undefined }, 400, "invalid_request_error", "invalid_request"],
    ["no messages", { ...MESSAGE, messages: [] }, 400, "invalid_request_error", "invalid_request"],
    ["no max_tokens", { ...MESSAGE, max_tokens: undefined }, 400, "invalid_request_error", "invalid_request"],
    ["stream that is no boolean", { ...MESSAGE, stream: "yes" }, 400, "invalid_request_error", "invalid_request"],
    ["another model", { ...MESSAGE, model: "anthropic/claude-opus-5" }, 403, "permission_error", "model_not_granted"],
    ["the model without its provider", { ...MESSAGE, model: "sim-1" }, 403, "permission_error", "model_not_granted"],
    [
      "a tool of the provider",
      { ...MESSAGE, tools: [{ type: "web_search_20250305", name: "web_search" }] },
      403,
      "permission_error",
      "tool_not_allowed",
    ],
    [
      "tool servers for the provider",
      { ...MESSAGE, mcp_servers: [{ type: "url", url: "http://x" }] },
      403,
      "permission_error",
      "tool_not_allowed",
    ],
    [
      "nesting deeper than the stack",
      `{"model":"sim/sim-1","max_tokens":1,"messages":[${"[".repeat(200_000)}${"]".repeat(200_000)}]}`,
      400,
      "invalid_request_error",
      "invalid_request",
    ],
  ];

  it.each(cases)("%s", async (...[_name, body, status, type, code]) => {
    await using fixture = await startModelFixture({ script: [answer] });
    const answered = await ask(fixture.url, { body });
    expect(answered.status).toBe(status);
    expect(errorOf(answered.body)).toMatchObject({ type, code });
    expect(answered.headers.get("signalbox-code")).toBe(code);
    expect(fixture.sim.requests).toEqual([]);
    expect(fixture.record.intents).toEqual([]);
  });

  it("has a body over the limit", async () => {
    await using fixture = await startModelFixture({ script: [answer], limits: { requestBytesMax: 1_000 } });
    const answered = await ask(fixture.url, {
      body: { ...MESSAGE, messages: [{ role: "user", content: "x".repeat(2_000) }] },
    });
    expect(answered.status).toBe(413);
    expect(errorOf(answered.body)).toMatchObject({ type: "request_too_large", code: "payload_too_large" });
  });

  it("has a model no provider is configured for", async () => {
    await using fixture = await startModelFixture({ script: [answer], snapshot: { model: "nobody/m" } });
    const answered = await ask(fixture.url, { body: { ...MESSAGE, model: "nobody/m" } });
    expect([answered.status, errorOf(answered.body).code]).toEqual([422, "model_unknown"]);
  });

  it("has no token, an unknown one, or one of a slot that is not bound", async () => {
    await using fixture = await startModelFixture({ script: [answer] });
    const without = await ask(fixture.url, { headers: { authorization: "" } });
    expect([without.status, errorOf(without.body)]).toMatchObject([
      401,
      { type: "authentication_error", code: "unauthenticated" },
    ]);
    const unknown = await ask(fixture.url, { headers: { authorization: "Bearer somebody-else" } });
    expect([unknown.status, errorOf(unknown.body)]).toMatchObject([
      410,
      { type: "permission_error", code: "slot_unknown" },
    ]);
    fixture.record.unbind();
    const unbound = await ask(fixture.url);
    expect([unbound.status, errorOf(unbound.body).code]).toEqual([410, "slot_unknown"]);
    expect(fixture.sim.requests).toEqual([]);
  });

  const refusals = [
    ["stale_generation", 410, "permission_error"],
    ["run_cancelled", 410, "permission_error"],
    ["run_timeout", 402, "billing_error"],
    ["database_unavailable", 503, "overloaded_error"],
    ["internal", 500, "api_error"],
  ] as const;

  it.each(refusals)("by the record with %s is answered %i", async (code, status, type) => {
    await using fixture = await startModelFixture({ script: [answer] });
    fixture.record.failures.openModelCall = [code];
    const answered = await ask(fixture.url);
    expect([answered.status, errorOf(answered.body)]).toMatchObject([status, { type, code }]);
    expect(fixture.sim.requests).toEqual([]);
  });
});

describe("a slot whose snapshot changed", () => {
  it("is judged anew, by what the intent's statement found", async () => {
    await using fixture = await startModelFixture({ script: [answer] });
    expect((await ask(fixture.url)).status).toBe(200);
    fixture.record.changeSnapshot(snapshotWith({ maxOutputTokens: 10 }));
    expect((await ask(fixture.url)).status).toBe(200);
    expect(fixture.sim.requests[1]!.body).toMatchObject({ max_tokens: 10 });
    expect(fixture.record.settlements.map(({ state, errorCode }) => [state, errorCode])).toEqual([
      ["succeeded", null],
      ["failed", "snapshot_mismatch"],
      ["succeeded", null],
    ]);
    // The look at the slot is kept: three intents, one look.
    expect(fixture.record.counts.slot).toBe(1);
  });
});

describe("what else the gate serves", () => {
  it("counts tokens without an intent, for a slot bound to a run", async () => {
    await using fixture = await startModelFixture();
    const { max_tokens: _, stream: __, ...body } = MESSAGE;
    const counted = await ask(fixture.url, { path: "/v1/messages/count_tokens?beta=true", body });
    expect(counted.status).toBe(200);
    expect(JSON.parse(counted.body).input_tokens).toBeGreaterThan(0);
    expect(fixture.record.intents).toEqual([]);
    fixture.record.unbind();
    expect((await ask(fixture.url, { path: "/v1/messages/count_tokens", body })).status).toBe(410);
    const other = await ask(fixture.url, { path: "/v1/messages/count_tokens", body: { ...body, model: "sim/other" } });
    expect(other.status).toBe(410);
  });

  it("names the one model of the snapshot", async () => {
    await using fixture = await startModelFixture();
    const models = await ask(fixture.url, { method: "GET", path: "/v1/models" });
    expect(JSON.parse(models.body).data.map((model: { readonly id: string }) => model.id)).toEqual(["sim/sim-1"]);
    expect((await ask(fixture.url, { method: "HEAD", path: "/v1/models" })).status).toBe(200);
  });

  it("says what it does not serve", async () => {
    await using fixture = await startModelFixture();
    const wrong = await ask(fixture.url, { method: "GET", path: "/v1/messages" });
    expect([wrong.status, errorOf(wrong.body).code]).toEqual([405, "method_not_allowed"]);
    const nowhere = await ask(fixture.url, { path: "/v1/complete" });
    expect([nowhere.status, errorOf(nowhere.body).code]).toEqual([404, "not_found"]);
    const healthy = await fetch(`${fixture.server.url}/healthz`);
    expect([healthy.status, await healthy.text()]).toEqual([200, "ok\n"]);
    const browser = await fetch(`${fixture.server.url}/model/v1/models`, {
      headers: { origin: "http://evil.example" },
    });
    expect(browser.status).toBe(403);
    await browser.text();
  });
});
