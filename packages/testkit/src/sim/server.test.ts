import { PlatformError } from "@signalbox/contract";
import { afterEach, describe, expect, test } from "vitest";
import { type Sim, type SimOptions, startSim } from "./server.ts";
import { tokenTimes } from "./timestamps.ts";
import { dataObjects } from "./sse-events.ts";

let sim: Sim | null = null;
afterEach(() => sim?.close());

const version = { "anthropic-version": "2023-06-01" };

function post(path: string, body: string | Buffer, headers: Record<string, string> = version): Promise<Response> {
  return fetch((sim?.url ?? "") + path, {
    method: "POST",
    headers,
    body: typeof body === "string" ? body : new Uint8Array(body),
  });
}

function message(text: unknown, fields: object = {}): string {
  return JSON.stringify({ model: "sim", max_tokens: 5_000, messages: [{ role: "user", content: text }], ...fields });
}

const bodies: readonly (readonly [string, string])[] = [
  ["/v1/messages", message("What is a lease? [[sim:tool look {}]]", { stream: true })],
  ["/v1/messages", message("What is a lease?")],
  ["/v1/chat/completions", message("What is a lease? [[sim:tool look {}]]", { stream: true })],
  ["/v1/responses", JSON.stringify({ model: "sim", stream: true, input: "What is a lease?" })],
  ["/v1/embeddings", JSON.stringify({ model: "sim", input: "a lease" })],
];

describe("determinism", () => {
  const timeless = (text: string) => text.replaceAll(/"created(?:_at)?":\d+/g, "");
  const answers = async (options: SimOptions): Promise<readonly string[]> => {
    sim = await startSim(options);
    const texts: string[] = [];
    for (const [path, body] of bodies) {
      texts.push(timeless(await (await post(path, body)).text()));
    }
    await sim.close();
    return texts;
  };

  test("the same seed and the same request give the same bytes, except times", async () => {
    const first = await answers({ seed: 42 });
    expect(await answers({ seed: 42 })).toEqual(first);
    const other = await answers({ seed: 43 });
    expect(other.filter((text, place) => text === first[place])).toEqual([]);
  });

  test("with unique ids a repeated request has ids of its own", async () => {
    sim = await startSim({ ids: "unique" });
    const ids = new Set<unknown>();
    for (let time = 0; time < 3; time += 1) {
      const answer = (await (await post("/v1/messages", message("hello"))).json()) as { id: unknown };
      ids.add(answer.id);
    }
    expect(ids.size).toBe(3);
  });
});

describe("what is no request", () => {
  test.each([
    ["no JSON", Buffer.from("{"), 400],
    ["no object", Buffer.from("[1]"), 400],
    ["no UTF-8", Buffer.from([0x7b, 0xff, 0x7d]), 400],
    ["half a surrogate pair", Buffer.from(message("x").replace('"x"', '"\\ud83d"')), 400],
    ["too large", Buffer.alloc(33 * 1024 * 1024, 0x20), 413],
  ])("%s", async (_, body, status) => {
    sim = await startSim();
    const response = await post("/v1/messages", body).catch((error: unknown) => error);
    // A body that is not read to its end may cost the connection before the answer is seen.
    if (response instanceof Response || status !== 413) {
      expect(response).toMatchObject({ status });
    }
    await sim.waitFor((requests) => requests[0]?.status === status);
  });

  test("both halves of a pair, NUL and the six characters are text", async () => {
    sim = await startSim();
    const body = message("x").replace('"x"', '"\\ud83d\\ude00 \\u0000 \\\\u0000?"');
    const answer = (await (await post("/v1/messages", body)).json()) as { content: { text: string }[] };
    expect(answer.content[0]?.text).toContain("😀");
    expect(answer.content[0]?.text).toContain("\\u0000");
  });

  test("another address, another method", async () => {
    sim = await startSim();
    expect((await post("/v1/complete", "{}")).status).toBe(404);
    expect((await fetch(`${sim.url}/v1/messages`)).status).toBe(404);
    expect(await (await fetch(sim.url)).json()).toMatchObject({ simulated: true });
  });

  test("without the key it was given", async () => {
    sim = await startSim({ apiKey: "right" });
    expect((await post("/v1/messages", message("hello"), { ...version, "x-api-key": "wrong" })).status).toBe(401);
    expect((await post("/v1/messages", message("hello"), { ...version, "x-api-key": "right" })).status).toBe(200);
    expect((await post("/v1/chat/completions", message("hello"), { authorization: "Bearer right" })).status).toBe(200);
  });
});

describe("the record", () => {
  test("holds each request with its times, body and end", async () => {
    sim = await startSim();
    const beforeMs = performance.timeOrigin + performance.now();
    await (await post("/v1/messages?beta=true", message("hello"), { ...version, "x-api-key": "secret" })).text();
    await (await fetch(`${sim.url}/v1/models`)).text();
    await sim.waitFor((requests) => requests.every((request) => request.closedAtMs !== null));
    const [request] = sim.modelRequests();
    expect(sim.modelRequests()).toHaveLength(1);
    expect(request).toMatchObject({ ordinal: 0, path: "/v1/messages", wire: "anthropic", status: 200, finished: true });
    expect(request?.body).toMatchObject({ model: "sim" });
    expect(request?.headers["x-api-key"]).toBe("secret");
    expect(request?.arrivedAtMs).toBeGreaterThanOrEqual(beforeMs);
    expect(request?.closedAtMs).toBeGreaterThanOrEqual(request?.arrivedAtMs ?? Infinity);
    const shown = await (await fetch(`${sim.url}/sim/requests`)).text();
    expect(shown).toContain("/v1/messages");
    expect(shown).not.toContain("secret");
  });

  test("is bounded, and a wait in vain says what was seen", async () => {
    sim = await startSim({ mostRecorded: 2, recordBodies: false });
    for (let time = 0; time < 3; time += 1) {
      await (await post("/v1/messages", message("hello"))).text();
    }
    expect(sim.requests.map((request) => [request.ordinal, request.body])).toEqual([
      [1, null],
      [2, null],
    ]);
    const error: unknown = await sim.waitFor(() => false, 10).catch((each: unknown) => each);
    expect(error).toBeInstanceOf(PlatformError);
    expect(String(error)).toContain("POST /v1/messages 200");
  });
});

describe("for measurements", () => {
  test("instant: so many tokens, whatever is asked", async () => {
    sim = await startSim({ instant: { tokens: 40 } });
    const answer = (await (await post("/v1/messages", message("[[sim:error 500]]"))).json()) as { usage: object };
    expect(answer.usage).toMatchObject({ output_tokens: 40 });
    expect(sim.requests[0]?.body).toBeNull();
  });

  test("a fixed delay before the first token and none after it", async () => {
    sim = await startSim({ instant: { tokens: 40, timestamps: true }, firstTokenDelayMs: 60 });
    const sentAtMs = performance.timeOrigin + performance.now();
    const text = await (await post("/v1/messages", message("hello", { stream: true }))).text();
    const times = tokenTimes(
      dataObjects(text)
        .map((event) => JSON.stringify(event))
        .join(""),
    );
    expect(times).toHaveLength(40);
    expect(times[0]).toBeGreaterThanOrEqual(sentAtMs + 59);
    expect((times.at(-1) ?? Infinity) - (times[0] ?? 0)).toBeLessThan(40);
    expect(times).toEqual(times.toSorted((one, other) => one - other));
  });

  test("a token at a time keeps its pace although each wait is late", async () => {
    sim = await startSim({ instant: { tokens: 20, timestamps: true }, tokenDelayMs: 10 });
    const text = await (await post("/v1/chat/completions", message("hello", { stream: true }))).text();
    const times = tokenTimes(text);
    expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(185);
  });

  test("a reader who does not read stops a flood instead of filling the memory", async () => {
    sim = await startSim({ instant: { tokens: 200_000 } });
    const leave = new AbortController();
    const response = await fetch(`${sim.url}/v1/messages`, {
      method: "POST",
      headers: version,
      body: message("hello", { stream: true, max_tokens: 200_000 }),
      signal: leave.signal,
    });
    const reader = response.body?.getReader();
    await reader?.read();
    const written = sim.requests[0]?.tokenCount ?? Infinity;
    expect(written).toBeLessThan(150_000);
    leave.abort();
    await sim.waitFor(([request]) => request?.closedAtMs !== null);
    expect(sim.requests[0]?.finished).toBe(false);
  });
});

test("a port that is taken is said", async () => {
  sim = await startSim();
  const error: unknown = await startSim({ port: sim.port }).catch((each: unknown) => each);
  expect(error).toMatchObject({ code: "invalid_request", detail: expect.stringContaining(String(sim.port)) });
});
