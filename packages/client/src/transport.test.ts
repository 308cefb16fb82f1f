import { ERROR_CODES, type ErrorCode, type Problem } from "@signalbox/contract";
import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { answerJson, serveHttp, type ScriptedAnswer } from "../../../tests/setup/scripted-http.ts";
import { SignalboxError } from "./client-error.ts";
import { Transport, type ApiRequest, type TransportOptions } from "./transport.ts";

const OK = answerJson(200, { ok: true });

function problem(code: ErrorCode, headers: Readonly<Record<string, string>> = {}): ScriptedAnswer {
  const { status, title, fault, retryable } = ERROR_CODES[code];
  const document: Problem = {
    type: `/errors/${code}`,
    title,
    status,
    detail: title,
    instance: "/",
    code,
    fault,
    retryable,
    requestId: "req_1",
    errors: [{ pointer: "/content", detail: "must not be empty" }],
  };
  return answerJson(status, document, { "content-type": "application/problem+json", ...headers });
}

/** Asks to come again at once, so that no test waits. */
const AT_ONCE = { "retry-after": "0" };
const BUSY = problem("database_unavailable", AT_ONCE);
const CUT: ScriptedAnswer = (response) => {
  response.destroy();
};

const GET: ApiRequest = { method: "GET", path: "/v1/info" };
const POST: ApiRequest = { method: "POST", path: "/v1/agents", body: { name: "support" } };

function transportTo(url: string, options: Partial<TransportOptions> = {}): Transport {
  return new Transport({ url, apiKey: "sbx_key", actor: null, fetch, ...options });
}

function failure(promise: Promise<unknown>): Promise<SignalboxError> {
  return promise.then(
    () => expect.unreachable("it should have failed"),
    (thrown: unknown) => {
      expect(thrown).toBeInstanceOf(SignalboxError);
      // Just asserted.
      return thrown as SignalboxError;
    },
  );
}

describe("a request", () => {
  it.each([null, { user: "u_42", roles: [], units: [] }])("without a key is refused here, and once", async (actor) => {
    await using api = await serveHttp([OK]);
    const error = await failure(transportTo(api.url, { apiKey: "", actor }).json(GET, (body) => body));
    expect(error).toMatchObject({ code: "unauthenticated", status: 0, fault: "caller", retryable: false });
    expect(error.message).toBe("No API key was given. Pass one of the form sbx_… as `apiKey`.");
    expect(api.asked).toEqual([]);
  });

  it("carries the key, the body, the idempotency key, and the end user signed with the key", async () => {
    await using api = await serveHttp([OK]);
    const transport = transportTo(api.url, { actor: { user: "u_42", roles: ["buyer"], units: [] } });
    await transport.json({ ...POST, idempotencyKey: "k1" }, (body) => body);
    const [asked] = api.asked;
    expect(asked).toMatchObject({ method: "POST", url: "/v1/agents", body: '{"name":"support"}' });
    expect(asked?.headers).toMatchObject({
      authorization: "Bearer sbx_key",
      accept: "application/json",
      "content-type": "application/json",
      "idempotency-key": "k1",
    });
    const [payload = "", signature] = String(asked?.headers["signalbox-actor"]).split(".");
    expect(JSON.parse(Buffer.from(payload, "base64url").toString())).toEqual({
      user: "u_42",
      roles: ["buyer"],
      units: [],
    });
    expect(signature).toBe(createHmac("sha256", "sbx_key").update(payload).digest("base64url"));
  });

  it("without a body says nothing about one", async () => {
    await using api = await serveHttp([OK]);
    await transportTo(api.url).json({ method: "POST", path: "/v1/runs/run_1/cancel" }, (body) => body);
    expect(api.asked[0]?.headers).not.toHaveProperty("content-type");
    expect(api.asked[0]?.headers).not.toHaveProperty("signalbox-actor");
  });
});

describe("trying again", () => {
  it.each<[string, ApiRequest]>([
    ["a GET", GET],
    ["a POST with an idempotency key", { ...POST, idempotencyKey: "k1" }],
    ["a POST that does nothing twice by its nature", { ...POST, repeatable: true }],
  ])("happens for %s", async (_what, request) => {
    await using api = await serveHttp([BUSY, BUSY, OK]);
    expect(await transportTo(api.url).json(request, (body) => body)).toEqual({ ok: true });
    expect(api.asked).toHaveLength(3);
    expect(new Set(api.asked.map(({ body, headers }) => body + String(headers["idempotency-key"]))).size).toBe(1);
  });

  it.each<[string, ScriptedAnswer]>([
    ["that was refused for now", BUSY],
    ["whose answer was cut off, so that it may have been done", CUT],
  ])("does not happen for a plain POST %s", async (_what, answer) => {
    await using api = await serveHttp([answer, OK]);
    await failure(transportTo(api.url).json(POST, (body) => body));
    expect(api.asked).toHaveLength(1);
  });

  it.each<ErrorCode>(["not_found", "conversation_busy", "idempotency_key_reused", "internal", "unauthenticated"])(
    "does not happen after %s",
    async (code) => {
      await using api = await serveHttp([problem(code, AT_ONCE), OK]);
      expect(await failure(transportTo(api.url).json(GET, (body) => body))).toMatchObject({
        code,
        status: ERROR_CODES[code].status,
        requestId: "req_1",
        errors: [{ pointer: "/content", detail: "must not be empty" }],
      });
      expect(api.asked).toHaveLength(1);
    },
  );

  it("ends after four attempts", async () => {
    await using api = await serveHttp([BUSY]);
    expect((await failure(transportTo(api.url).json(GET, (body) => body))).code).toBe("database_unavailable");
    expect(api.asked).toHaveLength(4);
  });

  it("mends an answer that broke off in its middle", async () => {
    const half: ScriptedAnswer = (response) => {
      response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
      response.write('{"ok":', () => response.destroy());
    };
    await using api = await serveHttp([half, OK]);
    expect(await transportTo(api.url).json(GET, (body) => body)).toEqual({ ok: true });
  });

  it("stops at once when the caller gives up", async () => {
    await using api = await serveHttp([problem("database_unavailable", { "retry-after": "60" })]);
    const stop = new AbortController();
    const asked = transportTo(api.url).json({ ...GET, signal: stop.signal }, (body) => body);
    await expect.poll(() => api.asked.length).toBe(1);
    stop.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
  });
});

describe("an answer that is none of the API's", () => {
  it.each([
    [404, false],
    [403, false],
    [200, false],
    [502, true],
    [504, true],
  ])("with status %i may be asked for again: %s", async (status, retryable) => {
    const page: ScriptedAnswer = (response) => {
      response.writeHead(status, { "content-type": "text/html" }).end("<h1>A proxy</h1>");
    };
    await using api = await serveHttp([page]);
    const error = await failure(transportTo(api.url).json(POST, (body) => body));
    expect(error).toMatchObject({ code: "unreadable", status, retryable, problem: null, requestId: null });
  });

  it("is unreadable also when it is JSON of another form", async () => {
    await using api = await serveHttp([answerJson(200, { hello: "world" })]);
    const parse = (): never => {
      throw new TypeError("not an agent");
    };
    expect(await failure(transportTo(api.url).json(GET, parse))).toMatchObject({
      code: "unreadable",
      retryable: false,
    });
    expect(api.asked).toHaveLength(1);
  });

  it("keeps the code of a platform newer than this client", async () => {
    const document = {
      ...JSON.parse(await bodyOf(problem("not_found"))),
      code: "cursor_expired",
      status: 410,
    } as Problem;
    await using api = await serveHttp([answerJson(410, document)]);
    expect(await failure(transportTo(api.url).json(GET, (body) => body))).toMatchObject({
      code: "cursor_expired",
      status: 410,
      retryable: false,
    });
  });
});

describe("a platform that cannot be reached", () => {
  it("is named with its address", async () => {
    const closed = await serveHttp([OK]);
    await closed[Symbol.asyncDispose]();
    const error = await failure(transportTo(closed.url).json(POST, (body) => body));
    expect(error).toMatchObject({ code: "unreachable", status: 0, retryable: true, fault: "platform" });
    expect(error.message).toBe(`The API at ${closed.url} cannot be reached.`);
  });

  it("that takes a request and says nothing is given up", async () => {
    await using api = await serveHttp([() => undefined]);
    const error = await failure(transportTo(api.url, { timeoutMs: 50 }).json(POST, (body) => body));
    expect(error).toMatchObject({ code: "unreachable", retryable: true });
    expect(error.message).toContain("did not answer within 50 ms");
  });

  it.each(["localhost:4620", "nonsense", "", "ftp://127.0.0.1"])("at %j is no platform", async (url) => {
    const error = await failure(transportTo(url).json(GET, (body) => body));
    expect(error).toMatchObject({ code: "unreadable", retryable: false });
    expect(error.message).toContain("is not an address");
  });
});

describe("Retry-After", () => {
  const dated = new Date(Date.now() + 20_000).toUTCString();

  it.each([
    ["3", 3_000, 3_000],
    ["0", 0, 0],
    ["100000", 60_000, 60_000],
    [dated, 15_000, 20_000],
    ["Wed, 21 Oct 2015 07:28:00 GMT", 0, 0],
  ])("%s is understood", async (header, atLeastMs, atMostMs) => {
    await using api = await serveHttp([problem("queue_full", { "retry-after": header })]);
    const { retryAfterMs } = await failure(transportTo(api.url).json(POST, (body) => body));
    expect(retryAfterMs).toBeGreaterThanOrEqual(atLeastMs);
    expect(retryAfterMs).toBeLessThanOrEqual(atMostMs);
  });

  it.each(["soon", ""])("%j is not", async (header) => {
    await using api = await serveHttp([problem("queue_full", { "retry-after": header })]);
    expect((await failure(transportTo(api.url).json(POST, (body) => body))).retryAfterMs).toBeNull();
  });
});

/** What a scripted answer says, without a server. */
async function bodyOf(answer: ScriptedAnswer): Promise<string> {
  await using api = await serveHttp([answer]);
  const response = await fetch(api.url);
  return await response.text();
}
