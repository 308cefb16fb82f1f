import { join } from "node:path";
import { PlatformError } from "@signalbox/contract";
import { afterEach, describe, expect, test } from "vitest";
import { answersOfFile } from "./play-raw.ts";
import type { Breakage, ScriptedAnswer } from "./script.ts";
import { type Sim, startSim } from "./server.ts";
import { dataObjects } from "./sse-events.ts";

let sim: Sim | null = null;
afterEach(() => sim?.close());

const paths = { anthropic: "/v1/messages", completions: "/v1/chat/completions" } as const;
type Path = keyof typeof paths;

interface Seen {
  readonly text: string;
  /** Null when the response ended as a response ends. */
  readonly error: string | null;
}

async function post(
  stream: boolean,
  { wire = "anthropic", signal }: { wire?: Path; signal?: AbortSignal } = {},
): Promise<Response> {
  return fetch((sim?.url ?? "") + paths[wire], {
    method: "POST",
    headers: { "anthropic-version": "2023-06-01" },
    body: JSON.stringify({ model: "sim", max_tokens: 100, stream, messages: [{ role: "user", content: "hello" }] }),
    signal: signal ?? null,
  });
}

async function read(response: Response): Promise<Seen> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
    }
    return { text, error: null };
  } catch (error) {
    return { text, error: String(error) };
  }
}

const broken = (how: Breakage, breakAfterTokens = 2): readonly ScriptedAnswer[] => [
  { parts: [{ text: "one two three four", break: how, breakAfterTokens }] },
];

describe.each(["anthropic", "completions"] as const)("an answer that breaks, on the %s wire", (wire) => {
  test("cut: what was written arrives, the socket closes, nothing says the answer is over", async () => {
    sim = await startSim({ script: broken("cut") });
    const seen = await read(await post(true, { wire }));
    expect(seen.error).not.toBeNull();
    expect(seen.text).toContain("one ");
    expect(seen.text).toContain("two ");
    expect(seen.text).not.toContain("three");
    expect(seen.text.endsWith("\n\n")).toBe(true);
    expect(seen.text).not.toMatch(/message_stop|content_block_stop|\[DONE\]/);
    await sim.waitFor(([request]) => request?.closedAtMs !== null);
    expect(sim.requests[0]).toMatchObject({ status: 200, tokenCount: 2, finished: false });
  });

  test("cut inside an event: the last data line is half a line", async () => {
    sim = await startSim({ script: broken("cut_inside_event") });
    const seen = await read(await post(true, { wire }));
    expect(seen.error).not.toBeNull();
    const last = seen.text.split("\n").at(-1) ?? "";
    expect(last.startsWith("data: {")).toBe(true);
    expect(() => JSON.parse(last.slice("data: ".length)) as unknown).toThrow(SyntaxError);
  });

  test("hang: the socket stays open until the caller leaves, and that is seen", async () => {
    sim = await startSim({ script: broken("hang") });
    const leave = new AbortController();
    const response = await post(true, { wire, signal: leave.signal });
    await sim.waitFor(([request]) => request?.tokenCount === 2);
    expect(sim.requests[0]?.closedAtMs).toBeNull();
    leave.abort();
    expect((await read(response)).error).not.toBeNull();
    await sim.waitFor(([request]) => request?.closedAtMs !== null);
    expect(sim.requests[0]).toMatchObject({ finished: false });
  });

  test("an error event ends the stream as the wire says it", async () => {
    sim = await startSim({ script: broken({ error: { type: "overloaded_error", message: "no room" } }) });
    const seen = await read(await post(true, { wire }));
    expect(seen.error).toBeNull();
    expect(dataObjects(seen.text).at(-1)).toMatchObject({ error: { message: "no room" } });
    expect(seen.text).not.toMatch(/message_stop|\[DONE\]/);
  });

  test("without a stream: an error is a status, a cut is no response at all", async () => {
    sim = await startSim({
      script: [...broken({ error: { type: "overloaded_error", message: "no room" } }), ...broken("cut")],
    });
    expect((await post(false, { wire })).status).toBe(529);
    await expect(post(false, { wire })).rejects.toThrow("fetch failed");
  });
});

describe("a script", () => {
  test("breaks between blocks, after the first is whole", async () => {
    sim = await startSim({ script: [{ parts: [{ text: "whole" }, { break: "cut" }] }] });
    const seen = await read(await post(true));
    expect(seen.error).not.toBeNull();
    expect(seen.text).toContain("content_block_stop");
    expect(seen.text).not.toContain("message_delta");
  });

  test("closes arguments that are not whole and says they are", async () => {
    sim = await startSim({ script: [{ parts: [{ tool: "write", input: { path: "/etc/hosts" }, cutJsonAt: 12 }] }] });
    const events = dataObjects((await read(await post(true))).text);
    const json = events.flatMap((event) =>
      event.type === "content_block_delta" ? [event.delta as { partial_json: string }] : [],
    );
    expect(json.map((delta) => delta.partial_json).join("")).toBe('{"path":"/et');
    expect(events).toContainEqual(expect.objectContaining({ delta: { stop_reason: "tool_use", stop_sequence: null } }));
  });

  test("gives its answers in order, then the last one again", async () => {
    sim = await startSim({ script: [{ status: 500 }, { noAnswer: "cut" }, { parts: [{ text: "fine" }] }] });
    expect((await post(false)).status).toBe(500);
    await expect(post(false)).rejects.toThrow("fetch failed");
    expect((await post(false)).status).toBe(200);
    expect((await post(false)).status).toBe(200);
  });

  test("may be a function of the request, and may leave a request to the model", async () => {
    sim = await startSim({
      script: (request, place) => (place === 0 ? { parts: [{ text: request.wire }] } : { extractive: true }),
    });
    expect(await (await post(false, { wire: "completions" })).text()).toContain('"completions"');
    expect(await (await post(false)).text()).toContain("simulated model");
  });

  test("a caller who leaves while a token is awaited ends the answer", async () => {
    sim = await startSim({ script: [{ parts: [{ text: "one two three" }], tokenDelayMs: 60_000 }] });
    const leave = new AbortController();
    const response = await post(true, { signal: leave.signal });
    leave.abort();
    await read(response);
    await sim.waitFor(([request]) => request?.closedAtMs !== null);
    expect(sim.requests[0]).toMatchObject({ tokenCount: 0, finished: false });
  });

  test("closing the server ends what hangs", async () => {
    sim = await startSim({ script: [{ noAnswer: "hang" }] });
    const answer = post(true).catch((error: unknown) => error);
    await sim.waitFor((requests) => requests.length === 1);
    await sim.close();
    expect(await answer).toBeInstanceOf(TypeError);
  });
});

describe("recorded answers", () => {
  const file = (name: string) => answersOfFile(join(import.meta.dirname, "fixtures", name));

  test("are played byte for byte", async () => {
    sim = await startSim({ script: await file("split-and-cut.chunks.json") });
    const response = await post(true, { wire: "completions" });
    expect(response.headers.get("x-fixture")).toBe("yes");
    const seen = await read(response);
    expect(seen.error).not.toBeNull();
    expect(seen.text).toBe(
      'data: {"choices":[{"index":0,"delta":{"content":"é👩‍👩‍👧"}}]}\n\ndata: {"choices":[{"index":0,"del',
    );
  });

  test("are put together for a caller who asked for no stream", async () => {
    sim = await startSim({ script: [...(await file("plain.sse")), ...(await file("error-first.sse"))] });
    expect(await (await post(false)).json()).toMatchObject({
      id: "msg_fixture",
      content: [
        { type: "text", text: "Signals are set." },
        { type: "tool_use", id: "toolu_fixture", input: { at: 7 } },
      ],
      stop_reason: "tool_use",
      usage: { input_tokens: 9, output_tokens: 5 },
    });
    expect((await post(false)).status).toBe(529);
  });

  test("a sequence of refusals keeps its headers and bodies", async () => {
    sim = await startSim({ script: await file("refusals.json") });
    const first = await post(true);
    expect([first.status, first.headers.get("retry-after")]).toEqual([429, "2"]);
    expect(await first.json()).toMatchObject({ error: { type: "rate_limit_error" } });
    expect(await (await post(true)).json()).toEqual({ refused: true });
  });

  test("a file of another form is refused", async () => {
    const error: unknown = await answersOfFile(join(import.meta.dirname, "../../package.json")).catch(
      (each: unknown) => each,
    );
    expect(error).toBeInstanceOf(PlatformError);
  });
});
