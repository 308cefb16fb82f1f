import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { FAREWELL_MS, HEARTBEAT_AFTER_MS, SLOW_READER_MS, SseResponse } from "./sse-response.ts";

const BEAT = [": still here"];

interface Reading extends AsyncDisposable {
  readonly response: ServerResponse;
  readonly socket: Socket;
  /** Everything that has come so far. */
  text(): string;
}

/** One request on a real socket, with its response in the test's hands. */
async function read(): Promise<Reading> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const asked = new Promise<ServerResponse>((resolve) => server.once("request", (_, response) => resolve(response)));
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  let text = "";
  socket.setEncoding("utf8").on("data", (chunk) => (text += String(chunk)));
  socket.on("error", () => undefined);
  socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  return {
    response: await asked,
    socket,
    text: () => text,
    async [Symbol.asyncDispose]() {
      socket.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe("an SSE response", () => {
  it("tells proxies to keep their hands off, and readers when to come again", async () => {
    await using reading = await read();
    using _stream = new SseResponse(reading.response, { headers: { "signalbox-request-id": "req_1" } });
    await expect.poll(() => reading.text()).toContain("retry: 1000\n\n");
    const head = reading.text().toLowerCase();
    expect(head).toMatch(/^http\/1.1 200 ok\r\n/);
    expect(head).toContain("content-type: text/event-stream; charset=utf-8\r\n");
    expect(head).toContain("cache-control: no-cache, no-transform\r\n");
    expect(head).toContain("x-accel-buffering: no\r\n");
    expect(head).toContain("signalbox-request-id: req_1\r\n");
    expect(head).not.toContain("content-encoding");
  });

  it("numbers what the log says, and nothing else", async () => {
    await using reading = await read();
    using stream = new SseResponse(reading.response, { headers: {} });
    await stream.send({ type: "text.delta", data: '{"a":"1\\n2"}', id: null });
    await stream.send({ type: "text.completed", data: "{}", id: 7 });
    stream.close("server_stopping");
    await expect.poll(() => reading.text()).toContain('event: text.delta\ndata: {"a":"1\\n2"}\n\n');
    await expect.poll(() => reading.text()).toContain("id: 7\nevent: text.completed\ndata: {}\n\n");
    await expect
      .poll(() => reading.text())
      .toContain('event: stream.closing\ndata: {"reason":"server_stopping","cursor":7}\n\n');
    expect(reading.text().match(/^id: /gm)).toHaveLength(1);
  });

  it("beats 8 seconds after the last byte, however often that is", async () => {
    expect(HEARTBEAT_AFTER_MS).toBeLessThanOrEqual(10_000);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      await using reading = await read();
      using stream = new SseResponse(reading.response, { headers: {} });
      vi.advanceTimersByTime(HEARTBEAT_AFTER_MS * 3);
      // A byte just before the next beat puts it off, and no further than from that byte on.
      vi.advanceTimersByTime(HEARTBEAT_AFTER_MS - 1);
      await stream.send({ type: "a", data: "{}", id: null });
      vi.advanceTimersByTime(HEARTBEAT_AFTER_MS - 1);
      await stream.send({ type: "b", data: "{}", id: null });
      vi.advanceTimersByTime(HEARTBEAT_AFTER_MS);
      vi.useRealTimers();
      const beats = (): readonly string[] => reading.text().match(/^(: still here|event: .)$/gm) ?? [];
      await expect.poll(() => beats()).toEqual([...BEAT, ...BEAT, ...BEAT, "event: a", "event: b", ...BEAT]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("notices that its reader had gone before it began", async () => {
    await using reading = await read();
    reading.socket.destroy();
    await expect.poll(() => reading.response.closed).toBe(true);
    using stream = new SseResponse(reading.response, { headers: {} });
    expect(stream.gone.aborted).toBe(true);
  });

  it("notices that its reader has gone, and says nothing more", async () => {
    await using reading = await read();
    using stream = new SseResponse(reading.response, { headers: {} });
    reading.socket.destroy();
    await expect.poll(() => stream.gone.aborted).toBe(true);
    await stream.send({ type: "text.delta", data: "{}", id: null });
    stream.close("internal");
  });

  it("waits for a slow reader, and goes on when there is room again", async () => {
    await using reading = await read();
    using stream = new SseResponse(reading.response, { headers: {} });
    reading.socket.pause();
    const data = JSON.stringify("x".repeat(300_000));
    let sent = 0;
    const sending = (async () => {
      for (; sent < 20; sent += 1) await stream.send({ type: "text.completed", data, id: sent + 1 });
    })();
    await expect.poll(() => reading.response.writableNeedDrain).toBe(true);
    expect(sent).toBeLessThan(20);
    reading.socket.resume();
    await sending;
    expect(sent).toBe(20);
  });

  it("cuts a reader off that takes nothing for a minute, holding no more for it than one frame", async () => {
    await using reading = await read();
    using stream = new SseResponse(reading.response, { headers: {} });
    reading.socket.pause();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      // More than any buffer between here and there holds.
      const data = JSON.stringify("x".repeat(16_000_000));
      const sending = stream.send({ type: "text.completed", data, id: 1 });
      await vi.advanceTimersByTimeAsync(SLOW_READER_MS - 1);
      expect(stream.gone.aborted).toBe(false);
      expect(reading.response.writableLength).toBeLessThan(data.length + 1_000);
      await vi.advanceTimersByTimeAsync(1);
      await sending;
      expect(stream.gone.aborted).toBe(true);
      await stream.send({ type: "text.completed", data, id: 2 });
      expect(reading.response.writableLength).toBeLessThan(data.length + 1_000);
      await vi.advanceTimersByTimeAsync(FAREWELL_MS);
      expect(reading.response.destroyed).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });

  it("tells a reader that was cut off why, and from where it may go on, should it read again", async () => {
    await using reading = await read();
    using stream = new SseResponse(reading.response, { headers: {}, slowReaderMs: 20 });
    reading.socket.pause();
    await stream.send({ type: "text.completed", data: JSON.stringify("x".repeat(16_000_000)), id: 41 });
    expect(stream.gone.aborted).toBe(true);
    reading.socket.resume();
    await expect
      .poll(() => reading.text().slice(-100), { timeout: 15_000 })
      .toContain('event: stream.closing\ndata: {"reason":"slow_reader","cursor":41}\n\n');
  });
});
