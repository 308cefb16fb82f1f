/**
 * The gates as a process of their own, on a real record: a run under way, a slot bound to it, and calls proposed as
 * they are asked for. Its orders come over the channel; what it spends, it measures itself.
 */
import { createHash, randomBytes } from "node:crypto";
import {
  canonicalJson,
  makeId,
  NO_USAGE,
  snapshotHashText,
  uuidV7Bytes,
  type IdKind,
  type SnapshotTool,
} from "@signalbox/contract";
import { callVerdict, type Log, type ToolJudge } from "@signalbox/core";
import { createGateServer } from "../../packages/server/src/gates/gate-server.ts";
import { HttpClient } from "../../packages/server/src/gates/http-client.ts";
import { createModelGate } from "../../packages/server/src/model-gate/model-gate.ts";
import { migrate } from "../../packages/server/src/store/migrations.ts";
import { systemClock, systemDigest, systemRandomness } from "../../packages/server/src/system/ports.ts";
import { ToolCatalog } from "../../packages/server/src/tool-gate/tool-catalog.ts";
import { createToolGate } from "../../packages/server/src/tool-gate/tool-gate.ts";
import { UpstreamPool } from "../../packages/server/src/tool-gate/upstream-pool.ts";
import type { ToolServerConfig } from "../../packages/server/src/tool-gate/tool-server.ts";
import { openRecord } from "../../packages/server/src/wiring/record.ts";
import type { ProposedCalls } from "./gate-process.ts";
import { serveOrders } from "./measured-process.ts";

const TENANT = "default";
const ACTOR = { keyId: "key_bench", user: null, roles: [], units: [] };
const PLENTY = 1_000_000_000;
const BEAT_MS = 1_000;
const log: Log = { info: () => undefined, warn: () => undefined, error: (text, thrown) => console.error(text, thrown) };

const judge: ToolJudge = {
  version: () => "allowing",
  judge: async ({ calls }) => calls.map(() => callVerdict({ verdict: "allow", reason: "" })),
};

const newId = <K extends IdKind>(kind: K) => makeId(kind, uuidV7Bytes(Date.now(), randomBytes(10)));
const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

await using stack = new AsyncDisposableStack();
const config = { connectionString: process.env.BENCH_DATABASE_URL ?? "" };
await migrate(config);
const record = stack.use(
  openRecord({
    config,
    directConfig: config,
    log,
    expectedSeat: () => null,
    secret: "secret of the bench",
    egressAllow: { names: [], networks: [] },
  }),
);
const { process: incarnation } = await record.processes.register(["gates"]);
const beat = setInterval(() => {
  record.processes.heartbeat(incarnation).catch(() => undefined);
}, BEAT_MS);
stack.defer(() => clearInterval(beat));

const ports = { clock: systemClock, digest: systemDigest, randomness: systemRandomness, log };
// The parent writes this variable with JSON.stringify.
const servers = JSON.parse(process.env.BENCH_TOOL_SERVERS ?? "{}") as Readonly<Record<string, ToolServerConfig>>;
const http = stack.use(new HttpClient());
const pool = stack.use(new UpstreamPool({ ...ports, servers, http }));
const catalog = stack.use(new ToolCatalog({ ...ports, servers, store: record.queries.tools, tenantId: TENANT }));
await catalog.start();

const token = randomBytes(32).toString("base64url");
const tokenHash = sha256(token);
const tools: readonly SnapshotTool[] = catalog.tools().map((tool) => {
  const { name, server, title, description, inputSchema, effect, definitionHash } = tool;
  return { name, server, tool: tool.tool, title, description, inputSchema, effect, definitionHash };
});
await startRun();

const gatePorts = { ...ports, judge, record: record.gates, process: () => incarnation };
const provider = {
  name: "sim",
  baseUrl: process.env.BENCH_MODEL_URL ?? "",
  wire: "anthropic",
  apiKey: null,
  simulated: true,
} as const;
const modelGate = stack.use(createModelGate({ ...gatePorts, providers: [provider] }));
const toolGate = stack.use(createToolGate({ ...gatePorts, catalog, pool }));
const server = stack.use(
  await createGateServer({
    modelGate,
    toolGate,
    connectRoutes: [],
    messageBytesMax: 1_000,
    host: "127.0.0.1",
    port: 0,
    clock: systemClock,
  }),
);

await serveOrders({ url: server.url, token }, async (order) => {
  // `gate-process.ts` sends these and nothing else.
  if ("propose" in order) await propose(order.propose as ProposedCalls);
  return {};
});

async function startRun(): Promise<void> {
  const agentId = newId("agent");
  const conversationId = newId("conversation");
  const { agents, conversations } = record.queries;
  const runtime = "scripted";
  await agents.create({ tenantId: TENANT, agentId, name: "bench", runtime, definition: {}, actor: ACTOR }, null);
  const conversation = { tenantId: TENANT, conversationId, agentId, title: null, metadata: {}, actor: ACTOR };
  await conversations.create(conversation, null);
  const snapshot = {
    agentId,
    agentName: "bench",
    revision: 1,
    runtime,
    instructions: "Help.",
    model: "sim/bench",
    tools,
    maxOutputTokens: 8_192,
    limits: { modelCallCount: PLENTY, toolCallCount: PLENTY, wallClockMs: PLENTY },
  };
  const { claim } = await record.admission.admit({
    tenantId: TENANT,
    conversationId,
    messageId: newId("message"),
    runId: newId("run"),
    actor: ACTOR,
    text: "go",
    metadata: {},
    whenBusy: "enqueue",
    snapshot,
    snapshotHash: sha256(snapshotHashText(snapshot)),
    requested: {},
    granted: {},
    traceId: randomBytes(16).toString("hex"),
    idempotency: null,
    queueLimit: 1,
    minuteLimit: 1_000_000,
    tenantLimit: 1_000_000,
    steerable: [],
    claimFor: incarnation,
  });
  if (claim === null) throw new Error("the run was not claimed");
  await record.ownership.adopt(claim).bindSlot({ tokenHash, workerId: "bench" });
}

async function propose(calls: ProposedCalls): Promise<void> {
  const modelCallId = newId("modelCall");
  const intent = {
    tokenHash,
    modelCallId,
    process: incarnation,
    wire: "anthropic",
    requestedModel: "sim/bench",
  } as const;
  await record.gates.openModelCall({ ...intent, requestBytes: 1, rules: [] });
  const argumentsJson = canonicalJson(calls.input);
  const proposals = calls.ids.map((toolUseId) => {
    const tool = tools.find((each) => each.name === calls.name);
    if (tool === undefined) throw new Error(`there is no tool ${calls.name}`);
    return {
      toolCallId: newId("toolCall"),
      toolUseId,
      name: calls.name,
      argumentsJson,
      server: tool.server,
      tool: tool.tool,
      effect: tool.effect,
      definitionHash: tool.definitionHash,
      argumentsDigest: sha256(argumentsJson),
      callDigest: null,
      judged: null,
    };
  });
  await record.gates.settleModelCall({
    modelCallId,
    state: "succeeded",
    servedModel: "bench",
    usage: NO_USAGE,
    costMicros: 0,
    priceVersion: "sim",
    stopReason: "tool_use",
    errorCode: null,
    proposals,
  });
}
