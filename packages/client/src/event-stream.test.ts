import { revisionOf, type PlatformEvent } from "@signalbox/contract";
import { describe, expect, it, vi } from "vitest";
import { answerJson, serveHttp, type ScriptedAnswer } from "../../../tests/setup/scripted-http.ts";
import { SignalboxError } from "./client-error.ts";
import { conversationEvents, type EventStreamOptions } from "./event-stream.ts";
import { Transport } from "./transport.ts";

const ENVELOPE = {
  conversationId: "cnv_1",
  runId: "run_1",
  turnId: "trn_1",
  traceId: null,
  generation: 1,
  at: "2026-03-01T12:00:00.000Z",
};

function delta(sequence: number | null, offset: number, text: string): PlatformEvent {
  const revision = revisionOf(1, offset + 1);
  return { ...ENVELOPE, type: "text.delta", itemId: "itm_1", sequence, revision, offset, text };
}

function phase(sequence: number): PlatformEvent {
  const revision = revisionOf(1, sequence);
  return { ...ENVELOPE, type: "run.phase", itemId: "run_1", sequence, revision, phase: "writing" };
}

function frame(event: PlatformEvent, lineEnd = "\n"): string {
  const id = event.sequence === null ? [] : [`id: ${event.sequence}`];
  return [...id, `event: ${event.type}`, `data: ${JSON.stringify(event)}`, "", ""].join(lineEnd);
}

const HEAD = { "content-type": "text/event-stream; charset=utf-8" };

/** A stream that ends as planned. */
function stream(...frames: readonly string[]): ScriptedAnswer {
  return (response) => {
    response.writeHead(200, HEAD).end(frames.join(""));
  };
}

/** A stream that stays open. */
function open(...frames: readonly string[]): ScriptedAnswer {
  return (response) => {
    response.writeHead(200, HEAD).write(frames.join(""));
  };
}

/** A stream whose connection dies after these frames. */
function cut(...frames: readonly string[]): ScriptedAnswer {
  return (response) => {
    response.writeHead(200, HEAD).write(frames.join(""), () => response.destroy());
  };
}

function refusal(status: number, code: string, retryable = false): ScriptedAnswer {
  const rest = { type: `/errors/${code}`, title: code, instance: "/", fault: "caller", requestId: "req_1", errors: [] };
  return answerJson(status, { ...rest, detail: code, status, code, retryable }, { "retry-after": "0" });
}

function follow(url: string, options: EventStreamOptions = {}): AsyncGenerator<PlatformEvent, void, undefined> {
  return conversationEvents(new Transport({ url, apiKey: "sbx_key", actor: null, fetch }), "cnv_1", options);
}

async function take(events: AsyncIterable<PlatformEvent>, count: number): Promise<readonly PlatformEvent[]> {
  const taken: PlatformEvent[] = [];
  for await (const event of events) {
    taken.push(event);
    if (taken.length === count) break;
  }
  return taken;
}

const sequences = (events: readonly PlatformEvent[]) => events.map((event) => event.sequence);

describe("a stream that breaks", () => {
  it("goes on from the last event of the log, without a gap and without telling one twice", async () => {
    await using api = await serveHttp([
      cut(frame(phase(1)), frame(phase(2))),
      // A server that starts a little too early is no reason to tell anything twice.
      cut(frame(phase(2)), frame(phase(3))),
      open(frame(phase(4))),
    ]);
    expect(sequences(await take(follow(api.url), 4))).toEqual([1, 2, 3, 4]);
    expect(api.asked.map(({ url }) => url)).toEqual([
      "/v1/conversations/cnv_1/events?follow=true",
      "/v1/conversations/cnv_1/events?after=2&follow=true",
      "/v1/conversations/cnv_1/events?after=3&follow=true",
    ]);
    expect(api.asked[0]?.headers.accept).toBe("text/event-stream");
  });

  it("in the middle of a frame tells nothing of it, and all of it the next time", async () => {
    const whole = frame(delta(2, 0, "你好🌍"));
    for (const length of [10, whole.length - 3, whole.length - 1]) {
      await using api = await serveHttp([cut(frame(phase(1)), whole.slice(0, length)), open(whole)]);
      expect(await take(follow(api.url), 2)).toEqual([phase(1), delta(2, 0, "你好🌍")]);
      expect(api.asked[1]?.url).toContain("after=1");
    }
  });

  it("after live deltas resumes at the log and says the text once", async () => {
    await using api = await serveHttp([
      cut(frame(phase(1)), frame(delta(null, 0, "Hel")), frame(delta(null, 3, "lo"))),
      open(frame(delta(2, 0, "Hello")), frame(delta(3, 5, " you"))),
    ]);
    const events = await take(follow(api.url), 4);
    expect(events.map((event) => ("text" in event ? event.text : ""))).toEqual(["", "Hel", "lo", " you"]);
    expect(api.asked[1]?.url).toContain("after=1");
  });

  it("starts where the caller says", async () => {
    await using api = await serveHttp([open(frame(phase(8)))]);
    expect(sequences(await take(follow(api.url, { after: 7 }), 1))).toEqual([8]);
    expect(api.asked[0]?.url).toContain("after=7");
  });

  it("that ends as planned is opened again, unless it was not to be followed", async () => {
    const closing = 'event: stream.closing\ndata: {"reason":"server_stopping"}\n\n';
    await using api = await serveHttp([stream(frame(phase(1)), closing), stream(frame(phase(2)))]);
    expect(sequences(await take(follow(api.url), 2))).toEqual([1, 2]);
    await using other = await serveHttp([stream(frame(phase(1)), frame(phase(2)))]);
    expect(sequences(await take(follow(other.url, { follow: false }), 9))).toEqual([1, 2]);
    expect(other.asked).toHaveLength(1);
    expect(other.asked[0]?.url).toContain("follow=false");
  });

  it("is opened again also when it was not to be followed and had not come to its end", async () => {
    await using api = await serveHttp([cut(frame(phase(1))), stream(frame(phase(2)))]);
    expect(sequences(await take(follow(api.url, { follow: false }), 9))).toEqual([1, 2]);
  });
});

describe("a platform that refuses", () => {
  it.each([
    [404, "not_found"],
    [410, "cursor_expired"],
    [401, "unauthenticated"],
    [400, "invalid_cursor"],
  ])("with %i %s ends the stream", async (status, code) => {
    await using api = await serveHttp([cut(frame(phase(1))), refusal(status, code)]);
    const events = follow(api.url);
    expect((await events.next()).value).toEqual(phase(1));
    await expect(events.next()).rejects.toMatchObject({ code, status });
    expect(api.asked).toHaveLength(2);
  });

  it("for now is asked again", async () => {
    await using api = await serveHttp([refusal(503, "shutting_down", true), open(frame(phase(1)))]);
    expect(sequences(await take(follow(api.url), 1))).toEqual([1]);
  });

  it("by not being the API at all ends the stream", async () => {
    const page: ScriptedAnswer = (response) => {
      response.writeHead(200, { "content-type": "text/html" }).end("<h1>Log in</h1>");
    };
    await using api = await serveHttp([page]);
    await expect(take(follow(api.url), 1)).rejects.toMatchObject({ code: "unreadable" });
    expect(api.asked).toHaveLength(1);
  });

  it("by sending what is no event ends the stream", async () => {
    await using api = await serveHttp([open("id: 1\nevent: run.phase\ndata: {not json\n\n")]);
    await expect(take(follow(api.url), 1)).rejects.toBeInstanceOf(SignalboxError);
  });
});

describe("a connection that is silent", () => {
  it("is given up and made anew", async () => {
    await using api = await serveHttp([open(frame(phase(1))), open(frame(phase(2)))]);
    expect(sequences(await take(follow(api.url, { silenceLimitMs: 60 }), 2))).toEqual([1, 2]);
    expect(api.asked[1]?.url).toContain("after=1");
  });

  it("before it has even answered is too", async () => {
    await using api = await serveHttp([() => undefined, open(frame(phase(1)))]);
    expect(sequences(await take(follow(api.url, { silenceLimitMs: 60 }), 1))).toEqual([1]);
  });

  it("is not silent while heartbeats come, and is after three of them are missing", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const connections: ReadableStreamDefaultController<Uint8Array>[] = [];
      const answer = async (): Promise<Response> =>
        new Response(new ReadableStream({ start: (controller) => void connections.push(controller) }), {
          headers: HEAD,
        });
      const say = (text: string) => connections.at(-1)?.enqueue(new TextEncoder().encode(text));
      const transport = new Transport({ url: "http://127.0.0.1", apiKey: "sbx_key", actor: null, fetch: answer });
      const events = conversationEvents(transport, "cnv_1");
      const first = events.next();
      for (let beats = 0; beats < 5; beats += 1) {
        await vi.advanceTimersByTimeAsync(44_000);
        say(": still here\n\n");
      }
      say(frame(phase(1)));
      expect((await first).value).toEqual(phase(1));
      expect(connections).toHaveLength(1);
      const second = events.next();
      await vi.advanceTimersByTimeAsync(45_000 + 300);
      say(frame(phase(2)));
      expect((await second).value).toEqual(phase(2));
      expect(connections).toHaveLength(2);
      await events.return();
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("the caller's signal", () => {
  it("ends a stream that waits", async () => {
    await using api = await serveHttp([open(frame(phase(1)))]);
    const stop = new AbortController();
    const events = follow(api.url, { signal: stop.signal });
    await events.next();
    const waiting = events.next();
    stop.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
  });

  it("ends a stream that waits to connect again", async () => {
    await using api = await serveHttp([refusal(503, "shutting_down", true)]);
    const stop = new AbortController();
    const waiting = follow(api.url, { signal: stop.signal }).next();
    await expect.poll(() => api.asked.length).toBeGreaterThan(0);
    stop.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
  });

  it("that was aborted before asks for nothing", async () => {
    await using api = await serveHttp([open(frame(phase(1)))]);
    await expect(follow(api.url, { signal: AbortSignal.abort(new Error("enough")) }).next()).rejects.toThrow("enough");
    expect(api.asked).toHaveLength(0);
  });
});

describe("bytes", () => {
  const said = [phase(1), delta(2, 0, "你好🌍 “ok”👩‍👩‍👧 é\u2028\r\n\u0000"), phase(3)];

  it.each([
    ["LF", "\n"],
    ["CRLF", "\r\n"],
    ["CR", "\r"],
  ])("framed with %s mean the same wherever they are cut", async (_name, lineEnd) => {
    const [, text = phase(1)] = said;
    const lines = ["\ufeff: open", "", "retry: 1000", "", frame(text, lineEnd) + ": still here", "", ""];
    const bytes = new TextEncoder().encode(lines.join(lineEnd));
    for (let at = 1; at < bytes.length; at += 1) {
      expect(await readChunks([bytes.subarray(0, at), bytes.subarray(at)])).toEqual([text]);
    }
    expect(await readChunks(Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual([text]);
  });

  it("that come one by one over a socket mean the same", async () => {
    const bytes = Buffer.from(said.map((event) => frame(event, "\r\n")).join(""));
    const oneByOne: ScriptedAnswer = async (response) => {
      response.socket?.setNoDelay(true);
      response.writeHead(200, HEAD);
      for (const byte of bytes) await new Promise((resolve) => response.write(Uint8Array.of(byte), resolve));
      response.end();
    };
    await using api = await serveHttp([oneByOne]);
    expect(await take(follow(api.url, { follow: false }), 9)).toEqual(said);
  });

  it("of events that this release does not know are passed over", async () => {
    const strange = 'id: 2\nevent: weather.changed\ndata: {"type":"weather.changed","sequence":2}\n\n';
    await using api = await serveHttp([stream(frame(phase(1)), strange, frame(phase(3)))]);
    expect(sequences(await take(follow(api.url, { follow: false }), 9))).toEqual([1, 3]);
  });
});

/** What a reader makes of a body that comes in these chunks. */
async function readChunks(chunks: readonly Uint8Array[]): Promise<readonly PlatformEvent[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  const answer = async (): Promise<Response> => new Response(body, { headers: HEAD });
  const transport = new Transport({ url: "http://127.0.0.1", apiKey: "sbx_key", actor: null, fetch: answer });
  return take(conversationEvents(transport, "cnv_1", { follow: false }), 99);
}

describe("a stream whose events are no longer kept", () => {
  it("ends with the code, unless it is told to go on with what is kept", async () => {
    const expired = refusal(410, "cursor_expired");
    await using told = await serveHttp([expired]);
    await expect(take(follow(told.url, { after: 3 }), 1)).rejects.toMatchObject({
      code: "cursor_expired",
      status: 410,
    });

    await using api = await serveHttp([cut(frame(phase(4))), expired, open(frame(phase(9)), frame(phase(10)))]);
    const events = await take(follow(api.url, { after: 3, expired: "restart" }), 3);
    expect(sequences(events)).toEqual([4, 9, 10]);
    expect(api.asked.map(({ url }) => url)).toEqual([
      "/v1/conversations/cnv_1/events?after=3&follow=true",
      "/v1/conversations/cnv_1/events?after=4&follow=true",
      "/v1/conversations/cnv_1/events?follow=true",
    ]);
  });
});
