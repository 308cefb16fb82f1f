/** The gates as our own engines meet them, through the worker's thin clients. */
import { startMcpServer, startSim, type Script } from "@signalbox/testkit";
import { GateConnections, ModelClient, ToolClient } from "@signalbox/worker";
import { describe, expect, it } from "vitest";
import { createGateServer } from "../../../packages/server/src/gates/gate-server.ts";
import { createModelGate } from "../../../packages/server/src/model-gate/model-gate.ts";
import { HttpClient } from "../../../packages/server/src/gates/http-client.ts";
import { systemClock, systemDigest, systemRandomness } from "../../../packages/server/src/system/ports.ts";
import { createToolGate } from "../../../packages/server/src/tool-gate/tool-gate.ts";
import { allowing } from "./allowing.ts";
import { failed, started, stopped, stream, text, toolUse } from "./anthropic-events.ts";
import { MESSAGE, raw, recordingLog } from "./gate-fixture.ts";
import { frozenTools, newCatalog, newPool } from "./tool-fixture.ts";
import { snapshotWith, TOKEN, WatchedRecord } from "./watched-record.ts";

interface Engine {
  readonly record: WatchedRecord;
  readonly models: ModelClient;
  readonly tools: ToolClient;
}

async function withEngine(script: Script, test: (engine: Engine) => Promise<void>): Promise<void> {
  await using sim = await startSim({ script });
  await using neighbour = await startMcpServer({ tools: { read: { result: "read" } } });
  const docs = { transport: "http", url: neighbour.url, headers: {}, tools: { read: { effect: "read" } } } as const;
  await using catalog = newCatalog({ servers: { docs } });
  await catalog.start();
  const record = await WatchedRecord.open(snapshotWith({ tools: frozenTools(catalog) }));
  const ports = {
    record,
    judge: allowing,
    clock: systemClock,
    digest: systemDigest,
    randomness: systemRandomness,
    log: recordingLog(),
  };
  const provider = { name: "sim", baseUrl: sim.url, wire: "anthropic", apiKey: null, simulated: true } as const;
  const process = (): number => record.process;
  await using modelGate = createModelGate({ ...ports, process, providers: [provider] });
  using http = new HttpClient();
  await using pool = newPool({ docs }, { log: ports.log, http });
  await using toolGate = createToolGate({ ...ports, process, catalog, pool });
  const address = { host: "127.0.0.1", port: 0, clock: systemClock };
  await using server = await createGateServer({
    modelGate,
    toolGate,
    connectRoutes: [],
    messageBytesMax: 1_000,
    ...address,
  });
  using connections = new GateConnections();
  const toolUrl = `${server.url}/mcp/units/default`;
  await test({
    record,
    models: new ModelClient(connections, `${server.url}/model`, TOKEN),
    tools: new ToolClient(connections, { toolUrl, slotToken: TOKEN }, { name: "test", version: "1" }),
  });
}

const { signal } = new AbortController();
const send = (models: ModelClient, said: string[] = []) =>
  models.send({
    body: JSON.stringify(MESSAGE),
    signal,
    onDelta: (delta) => {
      if (delta.type !== "block_stopped") said.push(delta.text);
      return undefined;
    },
  });
const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(() => "none").catch((thrown: { readonly code?: unknown }) => thrown.code);
const call = { name: "docs__read", input: { path: "a" }, toolUseId: "toolu_1", signal };

describe("an engine of ours", () => {
  it("gets a message, calls what it proposes, and reads the result", () =>
    withEngine(
      [
        raw({
          utf8: stream(
            started(),
            ...text(0, "I ", "look."),
            ...toolUse(1, "toolu_1", '{"path":"a"}'),
            ...stopped("tool_use"),
          ),
        }),
      ],
      async ({ models, tools, record }) => {
        const said: string[] = [];
        const message = await send(models, said);
        expect(said).toEqual(["I ", "look."]);
        expect(message.content.at(-1)).toMatchObject({ type: "tool_use", id: "toolu_1", input: { path: "a" } });
        expect((await tools.list(signal)).map((tool) => tool.name)).toEqual(["docs__read"]);
        expect(await tools.call(call)).toEqual({ content: [{ type: "text", text: "read" }], isError: false });
        expect(record.toolCalls).toMatchObject([{ state: "succeeded" }]);
      },
    ));

  it("sees a message whose calls were cut off as cut off", () =>
    withEngine(
      [raw({ utf8: stream(started(), ...toolUse(0, "toolu_1", '{"path":"a"}'), ...stopped("max_tokens")) })],
      async ({ models }) => {
        const message = await send(models);
        expect(message.stopReason).toBe("max_tokens");
        expect(message.content.map((block) => block.type)).toEqual(["text"]);
      },
    ));

  it.each([
    [
      "an overloaded provider",
      raw({ utf8: stream(started(), failed("overloaded_error", "x")) }),
      "provider_overloaded",
    ],
    ["a cut stream", raw({ utf8: stream(started(), ...text(0, "x")) }, { cut: true }), "provider_stream_broken"],
    ["a provider's limit", { status: 429, body: {} }, "provider_rate_limited"],
    ["a provider's own failure", { status: 500, body: {} }, "provider_failed"],
    ["a provider's refusal", { status: 400, body: {} }, "provider_error"],
  ] as const)("hears of %s by its code", async (_name, answer, code) =>
    withEngine([answer], async ({ models }) => {
      expect(await codeOf(send(models))).toBe(code);
    }),
  );

  it.each(["stale_generation", "run_cancelled", "run_timeout", "model_not_granted"] as const)(
    "hears of its own end by its code: %s",
    async (code) =>
      withEngine([{ extractive: true }], async ({ models, tools, record }) => {
        record.failures.openModelCall = [code];
        expect(await codeOf(send(models))).toBe(code);
        record.failures.slot = ["stale_generation"];
        expect(await codeOf(tools.call(call))).toBe("stale_generation");
      }),
  );

  it("reads a refused call as the tool's answer", () =>
    withEngine([{ extractive: true }], async ({ tools }) => {
      expect(await tools.call(call)).toEqual({
        content: [{ type: "text", text: "Refused (tool_not_proposed): The model did not propose this call." }],
        isError: true,
      });
    }));
});
