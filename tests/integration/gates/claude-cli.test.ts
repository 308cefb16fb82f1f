/** The gates as the real Claude CLI meets them: what it lists, calls, tries again and gives up on. */
import { startMcpServer, startSim, type Script } from "@signalbox/testkit";
import { describe, expect, it } from "vitest";
import { createGateServer } from "../../../packages/server/src/gates/gate-server.ts";
import { createModelGate, type ModelGate } from "../../../packages/server/src/model-gate/model-gate.ts";
import { HttpClient } from "../../../packages/server/src/gates/http-client.ts";
import { systemClock, systemDigest, systemRandomness } from "../../../packages/server/src/system/ports.ts";
import { createToolGate } from "../../../packages/server/src/tool-gate/tool-gate.ts";
import { allowing } from "./allowing.ts";
import { started, stopped, stream, text, toolUse } from "./anthropic-events.ts";
import { askClaudeCli, type CliOptions } from "./claude-cli.ts";
import { raw, recordingLog } from "./gate-fixture.ts";
import { frozenTools, newCatalog, newPool } from "./tool-fixture.ts";
import { snapshotWith, WatchedRecord } from "./watched-record.ts";

interface Engine {
  readonly record: WatchedRecord;
  readonly modelGate: ModelGate;
}

async function runCli(
  script: Script,
  options: Partial<CliOptions> & { readonly prepare?: (engine: Engine) => Partial<CliOptions> } = {},
) {
  await using sim = await startSim({ script });
  await using neighbour = await startMcpServer({
    tools: { read: { handler: (input) => `read ${JSON.stringify(input)}` } },
  });
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
    process: () => record.process,
  };
  const provider = { name: "sim", baseUrl: sim.url, wire: "anthropic", apiKey: null, simulated: true } as const;
  await using modelGate = createModelGate({ ...ports, providers: [provider] });
  using http = new HttpClient();
  await using pool = newPool({ docs }, { log: ports.log, http });
  await using toolGate = createToolGate({ ...ports, catalog, pool });
  const address = { host: "127.0.0.1", port: 0, clock: systemClock };
  await using server = await createGateServer({
    modelGate,
    toolGate,
    connectRoutes: [],
    messageBytesMax: 1_000,
    ...address,
  });
  const prepared = options.prepare?.({ record, modelGate }) ?? {};
  const outcome = await askClaudeCli({ gatesUrl: server.url, ...options, ...prepared });
  await toolGate[Symbol.asyncDispose]();
  return { outcome, record, requests: sim.modelRequests(), calls: neighbour.calls };
}

const good = raw({ utf8: stream(started(), ...text(0, "All good."), ...stopped("end_turn")) });
const cutInText = raw({ utf8: stream(started(), ...text(0, "The total is ").slice(0, 2)) }, { cut: true });

describe("the Claude CLI", () => {
  it("lists and calls a tool: proposed, executed once, answered, settled", async () => {
    const asks = raw({ utf8: stream(started(), ...toolUse(0, "toolu_1", '{"p":"a"}'), ...stopped("tool_use")) });
    const { outcome, record, calls } = await runCli([asks, good]);
    expect(outcome).toMatchObject({ toolServer: "connected", answer: "All good.", isError: false, retryCount: 0 });
    expect(outcome.toolResults).toEqual(['[{"type":"text","text":"read {\\"p\\":\\"a\\"}"}]']);
    expect(calls).toHaveLength(1);
    expect(record.toolCalls).toMatchObject([{ toolUseId: "toolu_1", name: "docs__read", state: "succeeded" }]);
    expect(record.settlements.map(({ state, stopReason }) => [state, stopReason])).toEqual([
      ["succeeded", "tool_use"],
      ["succeeded", "end_turn"],
    ]);
    expect(record.intents.every(({ rules }) => rules[0] === "model_prefix")).toBe(true);
  });

  it.each([
    ["unterminated", '{"p":"rm -rf'],
    ["complete by chance", '{"p":"all"}'],
  ])("runs no call that was cut off (%s), and reads in its history that it was", async (_name, json) => {
    const cut = raw({ utf8: stream(started(), ...toolUse(0, "toolu_1", json), ...stopped("max_tokens")) });
    const { outcome, record, calls, requests } = await runCli([cut, good]);
    expect(outcome).toMatchObject({ answer: "All good.", isError: false, toolResults: [] });
    expect(calls).toEqual([]);
    expect(record.toolCalls).toEqual([]);
    expect(JSON.stringify(requests[1]!.body)).toContain("was cut off at the output limit and was not run");
  });

  it("runs no call of a message that an error ended, and tries again", async () => {
    const overloaded = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
    const broken = raw({ utf8: stream(started(), ...toolUse(0, "toolu_1", '{"p":"pay-100"}'), overloaded) });
    const { outcome, record, calls } = await runCli([broken, good]);
    expect(outcome).toMatchObject({ answer: "All good.", isError: false });
    expect(calls).toEqual([]);
    expect(record.toolCalls).toEqual([]);
  });

  it("tries again after a cut in its text when broken streams end quietly, and keeps only the whole answer", async () => {
    const env = { ANTHROPIC_CUSTOM_HEADERS: "signalbox-broken-stream: end" };
    const { outcome, record } = await runCli([cutInText, good], { env });
    expect(outcome).toMatchObject({ answer: "All good.", isError: false, retryCount: 1 });
    expect(record.settlements.map(({ state }) => state)).toEqual(["estimated", "succeeded"]);
  });

  it("stops at once when its run was cancelled in the middle of a stream", async () => {
    const endless = raw({ utf8: stream(started(), ...text(0, "The total is ").slice(0, 2)) }, { hang: true });
    const { outcome, requests } = await runCli([endless], {
      prepare: ({ record, modelGate }) => ({
        onText: () => void record.cancel().then(() => modelGate.look(record.conversationId)),
      }),
    });
    expect(outcome).toMatchObject({ isError: true, retryCount: 0 });
    expect(requests).toHaveLength(1);
  });

  it.each([
    ["stale_generation", 410],
    ["run_timeout", 402],
    ["model_not_granted", 403],
  ] as const)("does not try again what is refused with %s (%i)", async (code, status) => {
    const { outcome, requests, record } = await runCli([good], {
      prepare: ({ record: prepared }) => {
        prepared.failures.openModelCall = Array.from({ length: 5 }, () => code);
        return {};
      },
    });
    expect(outcome).toMatchObject({ isError: true, apiStatus: status, retryCount: 0 });
    expect(requests).toEqual([]);
    expect(record.counts.openModelCall).toBe(1);
  });

  it("waits as long as a provider asks and tries again", async () => {
    const limited = {
      status: 429,
      headers: { "retry-after": "1" },
      body: { type: "error", error: { type: "rate_limit_error", message: "slow down" } },
    };
    const { outcome, requests } = await runCli([limited, good]);
    expect(outcome).toMatchObject({ answer: "All good.", retryCount: 1 });
    expect(requests[1]!.arrivedAtMs - requests[0]!.arrivedAtMs).toBeGreaterThanOrEqual(1_000);
  });
});
