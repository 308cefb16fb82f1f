/** The thin clients of model gate and tool gate against bytes as providers and servers really send them. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { startMcpServer, startSim, type RawAnswer } from "@signalbox/testkit";
import { GateConnections, ModelClient, ToolClient, type ModelDelta } from "@signalbox/worker";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

let connections: GateConnections;
const toEnd: AsyncDisposable[] = [];
beforeEach(() => {
  connections = new GateConnections();
});
afterEach(async () => {
  connections[Symbol.dispose]();
  for (const each of toEnd.splice(0)) {
    await each[Symbol.asyncDispose]();
  }
});

const BODY = JSON.stringify({ model: "m", max_tokens: 10, stream: true, messages: [{ role: "user", content: "hi" }] });
const HEAD = { "content-type": "text/event-stream" };

function sse(...events: readonly object[]): string {
  return events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
}

const OPENING = sse(
  { type: "message_start", message: { model: "served" } },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
);
const CLOSING = sse({ type: "message_delta", delta: { stop_reason: "end_turn" } }, { type: "message_stop" });

function text(said: string): string {
  return sse({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: said } });
}

/** Sends a whole stream in pieces of so many bytes. */
function cutUp(stream: string, pieceBytes: number): RawAnswer {
  const bytes = Buffer.from(stream);
  const chunks: { readonly b64: string }[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    chunks.push({ b64: bytes.subarray(at, at + pieceBytes).toString("base64") });
  }
  return { raw: { headers: HEAD, chunks } };
}

async function ask(answer: RawAnswer, signal: AbortSignal = new AbortController().signal) {
  const sim = await startSim({ script: [answer] });
  toEnd.push(sim);
  const deltas: ModelDelta[] = [];
  const client = new ModelClient(connections, sim.url, "slot");
  const onDelta = (delta: ModelDelta): undefined => {
    deltas.push(delta);
  };
  const message = client.send({ body: BODY, signal, onDelta });
  const said = (): string => deltas.map((delta) => ("text" in delta ? delta.text : "")).join("");
  return { message, said, sim, deltas };
}

describe("model client", () => {
  const sentence = "Grüße 👩‍👩‍👧 – e\u0301, \u2028 and ʻokina";

  it.each([1, 2, 3, 7, 4096])("reads characters, not bytes, from pieces of %i bytes", async (pieceBytes) => {
    const { message, said } = await ask(cutUp(OPENING + text(sentence) + CLOSING, pieceBytes));
    expect(await message).toMatchObject({ content: [{ type: "text", text: sentence }], servedModel: "served" });
    expect(said()).toBe(sentence);
  });

  it.each([1, 5])("reads CRLF, comments and fields without a space, in pieces of %i bytes", async (pieceBytes) => {
    const stream = `: hello\r\n\r\n${(OPENING + text("a") + CLOSING).replaceAll("data: ", "data:").replaceAll("\n", "\r\n")}`;
    expect((await (await ask(cutUp(stream, pieceBytes))).message).content).toEqual([{ type: "text", text: "a" }]);
  });

  it("tells what came before an error, and then the error", async () => {
    const error = sse({ type: "error", error: { type: "overloaded_error", message: "Overloaded" } });
    const { message, said } = await ask(cutUp(OPENING + text("half") + error, 4096));
    await expect(message).rejects.toMatchObject({ code: "provider_overloaded" });
    expect(said()).toBe("half");
  });

  it.each([
    ["before its stop", [{ utf8: OPENING + text("half") }]],
    ["inside an event", [{ utf8: `${OPENING}data: {"type":"content_bl` }]],
    ["by the socket", [{ utf8: OPENING + text("half") }, { cut: true }]],
  ] as const)("knows a stream that ended %s as broken", async (_where, chunks) => {
    const { message } = await ask({ raw: { headers: HEAD, chunks } });
    await expect(message).rejects.toMatchObject({ code: "provider_stream_broken" });
  });

  it("closes the request when it is aborted, with the reason of the signal", async () => {
    const stop = new AbortController();
    const asked = await ask(
      { raw: { headers: HEAD, chunks: [{ utf8: OPENING + text("a") }, { hang: true }] } },
      stop.signal,
    );
    const reason = new Error("enough");
    await asked.sim.waitFor((requests) => requests.length === 1);
    stop.abort(reason);
    await expect(asked.message).rejects.toBe(reason);
    await asked.sim.waitFor((requests) => requests[0]?.closedAtMs !== null);
  });

  it("presents the slot token, and says so when nobody is there", async () => {
    const { message, sim } = await ask(cutUp(OPENING + text("a") + CLOSING, 4096));
    await message;
    expect(sim.requests[0]?.headers).toMatchObject({ authorization: "Bearer slot", "anthropic-version": "2023-06-01" });
    const nobody = new ModelClient(connections, "http://127.0.0.1:9", "slot");
    await expect(
      nobody.send({ body: BODY, signal: new AbortController().signal, onDelta: () => undefined }),
    ).rejects.toMatchObject({ code: "provider_unreachable" });
  });

  it("holds the stream back while what it told is not taken", async () => {
    const sim = await startSim({ script: [cutUp(OPENING + text("a") + text("b") + CLOSING, 4096)] });
    toEnd.push(sim);
    const taken = Promise.withResolvers<void>();
    const first = Promise.withResolvers<void>();
    const told: ModelDelta[] = [];
    const message = new ModelClient(connections, sim.url, "slot").send({
      body: BODY,
      signal: new AbortController().signal,
      onDelta: (delta) => {
        told.push(delta);
        first.resolve();
        return taken.promise;
      },
    });
    await first.promise;
    await sim.waitFor((requests) => requests[0]?.finished === true);
    expect(told).toHaveLength(1);
    taken.resolve();
    await message;
    expect(told).toHaveLength(2);
  });
});

describe("tool client", () => {
  const client = (url: string): ToolClient =>
    new ToolClient(connections, { toolUrl: url, slotToken: "slot" }, { name: "test", version: "1" });
  const signal = (): AbortSignal => new AbortController().signal;

  it("lists and calls, statelessly, with the tool-use id", async () => {
    const mcp = await startMcpServer({
      tools: { docs__read: { description: "Reads.", handler: (input) => JSON.stringify(input) } },
      token: "slot",
    });
    toEnd.push(mcp);
    const tools = client(mcp.url);
    expect((await tools.list(signal())).map(({ name, description }) => [name, description])).toEqual([
      ["docs__read", "Reads."],
    ]);
    const outcome = await tools.call({ name: "docs__read", input: { a: "ü" }, toolUseId: "tu_1", signal: signal() });
    expect(outcome).toEqual({ content: [{ type: "text", text: '{"a":"ü"}' }], isError: false });
    expect(mcp.calls[0]?.meta["signalbox/toolUseId"]).toBe("tu_1");
  });

  it("takes a refusal of one call as something the model can read", async () => {
    const mcp = await startMcpServer({
      tools: { docs__breaks: { breaks: "no such file" }, docs__fails: { fails: "failed" } },
    });
    toEnd.push(mcp);
    const tools = client(mcp.url);
    for (const name of ["docs__breaks", "docs__fails", "docs__unknown"]) {
      const outcome = await tools.call({ name, input: {}, toolUseId: name, signal: signal() });
      expect(outcome.isError).toBe(true);
      expect(outcome.content[0]?.text).not.toBe("");
    }
  });

  it("cancels a call by closing its request", async () => {
    const mcp = await startMcpServer({ tools: { docs__slow: { delayMs: 60_000, result: "late" } } });
    toEnd.push(mcp);
    const stop = new AbortController();
    const call = client(mcp.url).call({ name: "docs__slow", input: {}, toolUseId: "t", signal: stop.signal });
    await mcp.waitFor((calls) => calls.length === 1);
    stop.abort(new Error("enough"));
    await expect(call).rejects.toThrow("enough");
    await mcp.waitFor((calls) => calls[0]?.outcome === "cancelled");
  });

  it("finds its answer in a stream, behind progress", async () => {
    const url = await serve((request, response) => {
      request.resume();
      response.writeHead(200, HEAD);
      response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", method: "notifications/progress", params: {} })}\n\n`);
      response.end(
        `data: ${JSON.stringify({ jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: "x" }] } })}\n\n`,
      );
    });
    const outcome = await client(url).call({ name: "t", input: {}, toolUseId: "t", signal: signal() });
    expect(outcome.content).toEqual([{ type: "text", text: "x" }]);
  });

  it.each([
    [410, { "signalbox-code": "run_cancelled" }, "run_cancelled"],
    [410, {}, "stale_generation"],
    [401, {}, "slot_unknown"],
    [502, {}, "tool_upstream_failed"],
    [200, {}, "tool_upstream_failed"],
  ])("ends the run for HTTP %i %j with %s", async (...[status, headers, code]) => {
    const url = await serve((request, response) => {
      request.resume();
      response.writeHead(status, { "content-type": "application/json", ...headers }).end("{}");
    });
    await expect(client(url).call({ name: "t", input: {}, toolUseId: "t", signal: signal() })).rejects.toMatchObject({
      code,
    });
  });

  it("asks again on a new connection when a kept one was closed under it", async () => {
    let count = 0;
    const url = await serve((request, response) => {
      count += 1;
      if (count === 2) {
        request.socket.destroy();
        return;
      }
      request.resume();
      const answer = { jsonrpc: "2.0", id: count === 1 ? 1 : 2, result: { content: [] } };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
    const tools = client(url);
    await tools.call({ name: "t", input: {}, toolUseId: "a", signal: signal() });
    await tools.call({ name: "t", input: {}, toolUseId: "b", signal: signal() });
    expect(count).toBe(3);
  });
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  toEnd.push({
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}
