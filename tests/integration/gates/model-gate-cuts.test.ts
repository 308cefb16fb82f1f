/** Calls that end from our side: the engine goes away, the run may no longer act, the record does not follow. */
import { createServer } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import { frame, started, stopped, stream, text, toolUse } from "./anthropic-events.ts";
import { ask, MESSAGE, open, raw, startModelFixture, StreamReader, type ModelFixture, until } from "./gate-fixture.ts";
import { TOKEN } from "./watched-record.ts";

const begun = stream(started(), ...text(0, "The invoice total is ").slice(0, 2));
const endless = raw({ utf8: begun }, { hang: true });
const ours = (type: string, code: string, message: string) => frame({ type: "error", error: { type, message, code } });

/** A cancel is marked, and its bell is heard. */
async function cancelled({ record, gate }: Pick<ModelFixture, "record" | "gate">): Promise<void> {
  await record.cancel();
  gate.look(record.conversationId);
}

describe("an engine that goes away", () => {
  it("closes the provider's socket within a second and is charged what was received", async () => {
    await using fixture = await startModelFixture({ script: [endless] });
    const leave = new AbortController();
    const reader = new StreamReader(await open(fixture.url, { signal: leave.signal }));
    await reader.until("total is");
    const leftAtMs = Date.now();
    leave.abort();
    await until(() => (fixture.sim.requests[0]?.closedAtMs ?? null) !== null);
    expect(fixture.sim.requests[0]!.closedAtMs! - leftAtMs).toBeLessThan(1_000);
    await until(() => fixture.record.settlements.length === 1);
    expect(fixture.record.settlements).toMatchObject([
      { state: "estimated", errorCode: null, usage: { inputTokens: 25, outputTokens: 6 }, proposals: [] },
    ]);
  });

  it("before the first byte costs nothing, and the provider is not kept", async () => {
    await using fixture = await startModelFixture({ script: [{ noAnswer: "hang" }] });
    const leave = new AbortController();
    const answered = open(fixture.url, { signal: leave.signal }).catch(() => null);
    await until(() => fixture.sim.requests.length === 1);
    leave.abort();
    await answered;
    await until(() => (fixture.sim.requests[0]?.closedAtMs ?? null) !== null, 1_000);
    await until(() => fixture.record.settlements.length === 1);
    expect(fixture.record.settlements).toMatchObject([{ errorCode: null, usage: { inputTokens: 0, outputTokens: 0 } }]);
  });

  it("in the middle of a call without a stream ends that call too", async () => {
    await using fixture = await startModelFixture({ script: [{ noAnswer: "hang" }] });
    const leave = new AbortController();
    const answered = open(fixture.url, { signal: leave.signal, body: { ...MESSAGE, stream: false } }).catch(() => null);
    await until(() => fixture.sim.requests.length === 1);
    leave.abort();
    await answered;
    await until(() => (fixture.sim.requests[0]?.closedAtMs ?? null) !== null, 1_000);
    await until(() => fixture.record.settlements.length === 1);
  });

  it("that reads slowly slows the provider down and loses nothing", async () => {
    // More than all sockets on the way can hold together.
    const pieces = Array.from({ length: 32 }, () => "x".repeat(1024 * 1024));
    const events = [started(), ...text(0, ...pieces), ...stopped("end_turn")];
    await using writer = await startWriter(events);
    const provider = { name: "sim", baseUrl: writer.url, wire: "anthropic", apiKey: null, simulated: true } as const;
    await using fixture = await startModelFixture({ providers: [provider], limits: { streamIdleMs: 1_500 } });
    const socket = connect(fixture.server.port, "127.0.0.1");
    const body = JSON.stringify(MESSAGE);
    socket.write(
      `POST /model/v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKEN}\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    // Until nothing moves any more, for longer than the idle limit: what waits for the engine is no silence.
    let seenCount = 0;
    let movedAtMs = performance.now();
    await until(() => {
      if (writer.writtenCount() !== seenCount) movedAtMs = performance.now();
      seenCount = writer.writtenCount();
      return seenCount > 0 && performance.now() - movedAtMs > 2_500;
    }, 40_000);
    expect(seenCount).toBeLessThan(events.length);
    expect(fixture.record.settlements).toEqual([]);
    let receivedBytes = 0;
    socket.on("data", (chunk) => (receivedBytes += chunk.length));
    await until(() => socket.readableEnded, 40_000);
    expect(receivedBytes).toBeGreaterThan(32 * 1024 * 1024);
    expect(fixture.record.settlements).toMatchObject([{ state: "succeeded" }]);
    socket.destroy();
  });
});

/** A provider that writes as fast as it is read and counts the events it could write. */
async function startWriter(events: readonly Parameters<typeof frame>[0][]) {
  let writtenCount = 0;
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    const write = (): void => {
      const event = events[writtenCount];
      if (event === undefined) {
        response.end();
        return;
      }
      writtenCount += 1;
      if (response.write(frame(event))) setImmediate(write);
      else response.once("drain", write);
    };
    write();
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    writtenCount: () => writtenCount,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

describe("a run that may no longer act", () => {
  it("is cut when a cancel rings: error event, provider closed, estimate recorded", async () => {
    await using fixture = await startModelFixture({ script: [endless] });
    const reader = new StreamReader(await open(fixture.url));
    await reader.until("total is");
    fixture.gate.look(fixture.record.conversationId);
    await fixture.record.cancel();
    fixture.gate.look("another conversation");
    fixture.gate.look(fixture.record.conversationId);
    expect(await reader.toEnd()).toBe(begun + ours("permission_error", "run_cancelled", "The run was cancelled."));
    await until(() => (fixture.sim.requests[0]?.closedAtMs ?? null) !== null, 1_000);
    expect(fixture.record.settlements).toMatchObject([{ state: "estimated", errorCode: "run_cancelled" }]);
  });

  it.each([
    ["without a stream", false],
    ["before its first byte", true],
  ])(
    "is cut %s: provider closed within a second, nothing charged, and the estimate says so",
    async (_when, streams) => {
      await using fixture = await startModelFixture({ script: [{ noAnswer: "hang" }] });
      const answered = ask(fixture.url, { body: { ...MESSAGE, stream: streams } });
      await until(() => fixture.sim.requests.length === 1);
      const cancelledAtMs = Date.now();
      await cancelled(fixture);
      expect((await answered).body).toContain('"code":"run_cancelled"');
      await until(() => (fixture.sim.requests[0]?.closedAtMs ?? null) !== null);
      expect(fixture.sim.requests[0]!.closedAtMs! - cancelledAtMs).toBeLessThan(1_000);
      expect(fixture.record.settlements).toMatchObject([
        { state: "estimated", errorCode: "run_cancelled", usage: { inputTokens: 0, outputTokens: 0 }, proposals: [] },
      ]);
    },
  );

  it("is charged nothing for an answer that only began: the count of its opening is no token received", async () => {
    await using fixture = await startModelFixture({ script: [raw({ utf8: stream(started()) }, { hang: true })] });
    const reader = new StreamReader(await open(fixture.url));
    await reader.until("message_start");
    await cancelled(fixture);
    await reader.toEnd();
    expect(fixture.record.settlements).toMatchObject([
      { state: "estimated", usage: { inputTokens: 25, outputTokens: 0 } },
    ]);
  });

  it("is told so also when its engine wants broken streams to end quietly", async () => {
    await using fixture = await startModelFixture({ script: [endless] });
    const reader = new StreamReader(await open(fixture.url, { headers: { "signalbox-broken-stream": "end" } }));
    await reader.until("total is");
    await cancelled(fixture);
    expect(await reader.toEnd()).toContain("event: error");
  });

  it("is cut when a takeover rings, but not its successor", async () => {
    await using fixture = await startModelFixture({ script: [endless] });
    const old = new StreamReader(await open(fixture.url));
    await old.until("total is");
    await fixture.record.changeWorker();
    await fixture.record.bind();
    const next = new StreamReader(await open(fixture.url));
    await next.until("total is");
    fixture.gate.look(fixture.record.conversationId);
    expect(await old.toEnd()).toContain('"code":"stale_generation"');
    expect(fixture.record.settlements).toHaveLength(1);
    await cancelled(fixture);
    await next.toEnd();
  });

  it.each([
    ["the slot was unbound", async ({ record }: ModelFixture) => record.unbind()],
    ["another worker took over", ({ record }: ModelFixture) => record.changeWorker()],
    [
      "the slot serves a later generation",
      async ({ record }: ModelFixture) => {
        await record.changeWorker();
        await record.bind();
      },
    ],
    [
      "the slot is gone",
      async ({ record }: ModelFixture) => {
        record.failures.slot = ["slot_unknown"];
      },
    ],
  ])("is cut within a second without any bell when %s", async (_name, change) => {
    await using fixture = await startModelFixture({ script: [endless] });
    const reader = new StreamReader(await open(fixture.url));
    await reader.until("total is");
    const changedAtMs = performance.now();
    await change(fixture);
    expect(await reader.toEnd()).toContain('"code":"stale_generation"');
    // A second, and room for a busy machine.
    expect(performance.now() - changedAtMs).toBeLessThan(1_500);
  });

  it("is not cut because the record cannot be read", async () => {
    await using fixture = await startModelFixture({ script: [endless], limits: { recheckEveryMs: 20 } });
    const reader = new StreamReader(await open(fixture.url));
    await reader.until("total is");
    fixture.record.failures.slot = ["database_unavailable", "internal"];
    const before = fixture.record.counts.slot ?? 0;
    await until(() => (fixture.record.counts.slot ?? 0) > before + 3);
    expect(fixture.record.settlements).toEqual([]);
    await cancelled(fixture);
    await reader.toEnd();
  });

  it("gets no call of a message that ended after it was taken over", async () => {
    const calls = stream(...toolUse(1, "toolu_1", '{"n":1}'));
    const script = [
      raw(
        { utf8: begun + frame({ type: "content_block_stop", index: 0 }) },
        { utf8: calls },
        { delayMs: 300 },
        { utf8: stream(...stopped("tool_use")) },
      ),
    ];
    await using fixture = await startModelFixture({ script });
    const reader = new StreamReader(await open(fixture.url));
    await reader.until("total is");
    await fixture.record.changeWorker();
    const seen = await reader.toEnd();
    expect(seen).not.toContain("toolu_1");
    expect(seen).toContain('"code":"stale_generation"');
    expect(fixture.record.toolCalls).toEqual([]);
  });

  it("gets no message with a call that another call of the run has the id of", async () => {
    const first = raw({ utf8: stream(started(), ...toolUse(0, "toolu_1", '{"n":1}'), ...stopped("tool_use")) });
    const second = raw({ utf8: stream(started(), ...toolUse(0, "toolu_1", '{"n":2}'), ...stopped("tool_use")) });
    await using fixture = await startModelFixture({ script: [first, second] });
    expect((await ask(fixture.url)).body).toContain("toolu_1");
    const { body } = await ask(fixture.url);
    expect(body).not.toContain("toolu_1");
    expect(body).toContain("could not be recorded as proposals");
  });
});

describe("a record that does not follow", () => {
  const answer = raw({ utf8: stream(started(), ...toolUse(0, "toolu_1", '{"n":1}'), ...stopped("tool_use")) });

  it("is asked again, and the calls are released once it has them", async () => {
    await using fixture = await startModelFixture({ script: [answer] });
    fixture.record.failures.settleModelCall = ["database_unavailable", "database_unavailable"];
    const { body } = await ask(fixture.url);
    expect(body).toContain("toolu_1");
    expect(fixture.record.settlements).toHaveLength(1);
  });

  it("releases nothing when it refuses for good", async () => {
    await using fixture = await startModelFixture({ script: [answer] });
    fixture.record.failures.settleModelCall = ["internal"];
    const { body } = await ask(fixture.url);
    expect(body).toBe(stream(started()) + ours("api_error", "internal", "Something failed inside the platform."));
    await until(() => fixture.log.lines.some((line) => line.level === "error"));
  });
});

describe("a gate that shuts down", () => {
  it("settles what is open and tells its engines", async () => {
    const fixture = await startModelFixture({ script: [endless] });
    const reader = new StreamReader(await open(fixture.url));
    await reader.until("total is");
    await fixture[Symbol.asyncDispose]();
    expect(await reader.toEnd()).toContain('"code":"shutting_down"');
    expect(fixture.record.settlements).toMatchObject([{ state: "estimated", errorCode: "shutting_down" }]);
  });
});
