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
import { DAY_MS, type BatchCall, type Log } from "@signalbox/core";
import pg from "pg";
import { apiKeyHmac, Callers } from "../../packages/server/src/api/caller.ts";
import { createClientJudge } from "../../packages/server/src/gates/client-judge.ts";
import { createGateServer } from "../../packages/server/src/gates/gate-server.ts";
import { HttpClient } from "../../packages/server/src/gates/http-client.ts";
import { judgeMessage } from "../../packages/server/src/gates/judging.ts";
import { createPolicyJudge, wordOf } from "../../packages/server/src/gates/policy-judge.ts";
import { PolicySource } from "../../packages/server/src/gates/policy-source.ts";
import { createModelGate } from "../../packages/server/src/model-gate/model-gate.ts";
import { migrate } from "../../packages/server/src/store/migrations.ts";
import { systemClock, systemDigest, systemRandomness } from "../../packages/server/src/system/ports.ts";
import { createGateway } from "../../packages/server/src/tool-gate/gateway/gateway.ts";
import { ToolCatalog } from "../../packages/server/src/tool-gate/tool-catalog.ts";
import { createToolGate } from "../../packages/server/src/tool-gate/tool-gate.ts";
import { UpstreamPool } from "../../packages/server/src/tool-gate/upstream-pool.ts";
import type { ToolServerConfig } from "../../packages/server/src/tool-gate/tool-server.ts";
import { createApiRecord } from "../../packages/server/src/wiring/api-record.ts";
import { openRecord } from "../../packages/server/src/wiring/record.ts";
import type { ProposedCalls } from "./gate-process.ts";
import { serveOrders } from "./measured-process.ts";

const TENANT = "default";
const SECRET = "secret of the bench";
const ACTOR = { keyId: "key_bench", user: null, roles: [], units: [] };
const PLENTY = 1_000_000_000;
const BEAT_MS = 1_000;
const log: Log = { info: () => undefined, warn: () => undefined, error: (text, thrown) => console.error(text, thrown) };

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
    secret: SECRET,
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
const catalog = stack.use(
  new ToolCatalog({ ...ports, servers, store: record.queries.tools, tenantId: TENANT, posture: "dev" }),
);
await catalog.start();

const token = randomBytes(32).toString("base64url");
const tokenHash = sha256(token);
const tools: readonly SnapshotTool[] = catalog.tools().map((tool) => {
  const { name, server, title, description, inputSchema, effect, definitionHash } = tool;
  return { name, server, tool: tool.tool, title, description, inputSchema, effect, definitionHash };
});
await startRun();

// The policy that is shipped, as a platform judges by it.
const source = stack.use(new PolicySource({ ...ports, record: record.policies, tenantId: TENANT }));
const said = {
  source,
  words: (server: string, tool: string) => wordOf(catalog.classification({ server, tool })),
  wordsVersion: () => catalog.wordsVersion(),
  clock: systemClock,
} as const;
const judge = createPolicyJudge({ ...said, record: record.policies, posture: "dev" });
await source.current();
const clients = createClientJudge({
  ...said,
  record: record.gateway,
  nameOf: (server, tool) => `${server}__${tool}`,
  posture: "dev",
  log,
});
const key = await newKey();

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
const callers = new Callers({
  record: createApiRecord(record.queries),
  secret: SECRET,
  monotonicMs: () => systemClock.monotonicMs(),
});
const gateway = stack.use(
  createGateway({
    ...ports,
    catalog,
    pool,
    servers: Object.keys(servers),
    record: record.gateway,
    judge: clients,
    identify: async ({ authorization }) => {
      const { scope, actor } = await callers.identify({ authorization, actor: undefined });
      return { tenantId: scope.tenantId, actor };
    },
    process: () => incarnation,
    secret: SECRET,
    hosts: null,
    retentionMs: DAY_MS,
  }),
);
const server = stack.use(
  await createGateServer({
    modelGate,
    toolGate,
    gateway,
    connectRoutes: [],
    messageBytesMax: 1_000,
    host: "127.0.0.1",
    port: 0,
    clock: systemClock,
  }),
);

await serveOrders({ url: server.url, token, key }, async (order) => {
  // `gate-process.ts` sends these and nothing else.
  if ("propose" in order) await propose(order.propose as ProposedCalls);
  return {};
});

async function newKey(): Promise<string> {
  const made = `sbx_${randomBytes(24).toString("base64url")}`;
  const client = new pg.Client(config);
  await client.connect();
  await client.query(
    `insert into signalbox.api_key (id, tenant_id, name, prefix, hash, rights)
     values ('key_bench', $1, 'bench', $2, $3, '{tools}')`,
    [TENANT, made.slice(0, 8), apiKeyHmac(SECRET, made)],
  );
  await client.end();
  return made;
}

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

async function propose(asked: ProposedCalls): Promise<void> {
  const modelCallId = newId("modelCall");
  const intent = {
    tokenHash,
    modelCallId,
    process: incarnation,
    wire: "anthropic",
    requestedModel: "sim/bench",
  } as const;
  await record.gates.openModelCall({ ...intent, requestBytes: 1, rules: [] });
  const argumentsJson = canonicalJson(asked.input);
  const proposed = asked.ids.map((toolUseId) => {
    const tool = tools.find((each) => each.name === asked.name);
    if (tool === undefined) throw new Error(`there is no tool ${asked.name}`);
    return {
      toolCallId: newId("toolCall"),
      toolUseId,
      name: asked.name,
      argumentsJson,
      server: tool.server,
      tool: tool.tool,
      effect: tool.effect,
      definitionHash: tool.definitionHash,
      argumentsDigest: sha256(argumentsJson),
    };
  });
  // As the model gate judges a message before it lets go of it.
  const calls = proposed.map((call): BatchCall => ({ ...call, state: "proposed" }));
  const { policyVersion, judged } = await judgeMessage(
    { ...ports, judge },
    { view: await record.gates.slot(tokenHash), calls },
  );
  const proposals = proposed.map((call, at) => {
    const verdict = judged[at]?.verdict;
    if (verdict === undefined) throw new Error("a call was not judged");
    return { ...call, callDigest: verdict.callDigest, judged: { ...verdict, policyVersion } };
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
