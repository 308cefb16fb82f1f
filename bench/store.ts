/**
 * What the record costs on the embedded database: each statement of a run by itself, one after the other, and events by
 * group commit. `node --conditions=@signalbox/source bench/store.ts [--json]`; a server of your own by
 * `--url postgresql://…` (an empty database).
 */
import { createHash, randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  makeId,
  snapshotHashText,
  uuidV7Bytes,
  type Actor,
  type IdKind,
  type OwnerEvent,
  type Snapshot,
} from "@signalbox/contract";
import type { AdmitCommand, Log, Ownership } from "@signalbox/core";
import { LiveBus } from "../packages/server/src/channels/live/live-bus.ts";
import { createTranscriptRecord } from "../packages/server/src/channels/transcript/transcript-record.ts";
import { createAdmissionRecord } from "../packages/server/src/channels/truth/admission-record.ts";
import { createGateRecord } from "../packages/server/src/channels/truth/gate-record.ts";
import { GroupCommit } from "../packages/server/src/channels/truth/group-commit.ts";
import { createOwnershipRecord } from "../packages/server/src/channels/truth/ownership-record.ts";
import { PostgresProcessRecord } from "../packages/server/src/channels/truth/process-record.ts";
import { openDatabase } from "../packages/server/src/database/open-database.ts";
import { BoundSlots } from "../packages/server/src/store/bound-slots.ts";
import { migrate } from "../packages/server/src/store/migrations.ts";
import { connectDirectly, StorePools } from "../packages/server/src/store/pools.ts";
import { AgentQueries } from "../packages/server/src/store/queries/agent-queries.ts";
import { ConversationQueries } from "../packages/server/src/store/queries/conversation-queries.ts";
import { RUN_ROLE } from "../packages/server/src/store/roles.ts";
import { SnapshotCache } from "../packages/server/src/store/snapshot-cache.ts";
import { TenantDatabase } from "../packages/server/src/store/tenant-database.ts";

const { values: flags } = parseArgs({
  options: { json: { type: "boolean" }, url: { type: "string" }, rounds: { type: "string" } },
});
const ROUNDS = Number(flags.rounds ?? 200);
const WARM_UP_ROUNDS = 20;
const actor: Actor = { keyId: "key_bench", user: null, roles: [], units: [] };
const log: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };

function newId<K extends IdKind>(kind: K): ReturnType<typeof makeId<K>> {
  return makeId(kind, uuidV7Bytes(Date.now(), randomBytes(10)));
}

interface Row {
  readonly id: string;
  readonly value: number;
  readonly unit: string;
  readonly n: number;
  readonly note: string;
}

const samples = new Map<string, number[]>();
let measuring = false;

async function timed<T>(name: string, work: () => Promise<T>): Promise<T> {
  const startedAtMs = performance.now();
  const result = await work();
  if (measuring) {
    const all = samples.get(name) ?? [];
    all.push(performance.now() - startedAtMs);
    samples.set(name, all);
  }
  return result;
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

const stack = new AsyncDisposableStack();
try {
  const rows = await measure();
  if (flags.json === true) {
    console.log(JSON.stringify(rows, null, 2));
  } else {
    for (const { id, value, unit, n, note } of rows) {
      console.log(`${id.padEnd(34)} ${value.toFixed(2).padStart(10)} ${unit.padEnd(10)} n=${n}  ${note}`);
    }
  }
} finally {
  await stack.disposeAsync();
}

async function openRecord() {
  const folder = await mkdtemp(join(tmpdir(), "sbx-bench-"));
  await chmod(folder, 0o755);
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const database = stack.use(await openDatabase({ url: flags.url, dataDir: join(folder, "data") }));
  const config = database.pgConfig;
  await migrate(config);
  const pools = stack.use(new StorePools(config));
  const live = new LiveBus();
  const snapshots = new SnapshotCache(pools.run);
  const events = stack.use(new GroupCommit({ database: pools.run, live, log }));
  const processes = stack.use(
    new PostgresProcessRecord({
      connect: () => connectDirectly(config, { role: RUN_ROLE, name: "presence", queryTimeoutMs: 5_000 }),
      database: pools.run,
      live,
      log,
    }),
  );
  const { process } = await processes.register(["bench"]);
  const run = { database: pools.run, live, snapshots, authority: processes, slots: new BoundSlots() };
  return {
    pools,
    events,
    process,
    tenants: new TenantDatabase(pools.app),
    admission: createAdmissionRecord({ ...run, database: pools.app, expectedSeat: () => null }),
    owners: createOwnershipRecord({ ...run, events }),
    gates: createGateRecord({ ...run, transcript: createTranscriptRecord(pools.run) }),
  };
}

type BenchRecord = Awaited<ReturnType<typeof openRecord>>;

async function measure(): Promise<readonly Row[]> {
  const record = await openRecord();
  const agentId = newId("agent");
  const agent = { tenantId: "bench", agentId, name: "bench", runtime: "scripted", definition: {}, actor };
  await new AgentQueries(record.tenants).create(agent, null);
  const conversationId = await newConversation(record, agentId);
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
    measuring = round >= WARM_UP_ROUNDS;
    await oneRun(record, { agentId, conversationId });
  }
  measuring = false;
  const rows: Row[] = [];
  for (const [id, all] of samples) {
    const sorted = all.toSorted((left, right) => left - right);
    const note = `p95 ${quantile(sorted, 0.95).toFixed(2)} ms`;
    rows.push({ id: `store/${id}`, value: quantile(sorted, 0.5), unit: "ms", n: sorted.length, note });
  }
  rows.push(await throughput(record, agentId, { conversations: 50, appends: 40 }));
  rows.push(await throughput(record, agentId, { conversations: 500, appends: 10 }));
  return rows;
}

async function newConversation(record: BenchRecord, agentId: AgentIdOf) {
  const conversationId = newId("conversation");
  await new ConversationQueries(record.tenants).create(
    { tenantId: "bench", conversationId, agentId, title: null, metadata: {}, actor },
    null,
  );
  return conversationId;
}

type AgentIdOf = ReturnType<typeof makeId<"agent">>;

interface Place {
  readonly agentId: AgentIdOf;
  readonly conversationId: string;
}

function command(record: BenchRecord, place: Place): AdmitCommand {
  const snapshot: Snapshot = {
    agentId: place.agentId,
    agentName: "bench",
    revision: 1,
    runtime: "scripted",
    instructions: "Help.",
    model: "sim/echo",
    maxOutputTokens: 1_000,
    tools: [],
    limits: { modelCallCount: 100, toolCallCount: 100, wallClockMs: 3_600_000 },
  };
  return {
    tenantId: "bench",
    conversationId: place.conversationId,
    messageId: newId("message"),
    runId: newId("run"),
    actor,
    text: "hello",
    metadata: {},
    whenBusy: "enqueue",
    snapshot,
    snapshotHash: createHash("sha256").update(snapshotHashText(snapshot)).digest("hex"),
    requested: {},
    granted: {},
    traceId: randomBytes(16).toString("hex"),
    idempotency: { key: randomBytes(8).toString("hex"), bodyHash: "b" },
    queueLimit: 20,
    minuteLimit: 1_000_000,
    tenantLimit: 1_000_000,
    steerable: [],
    claimFor: record.process,
  };
}

async function start(record: BenchRecord, place: Place): Promise<Ownership> {
  const { claim } = await timed("admit with claim", () => record.admission.admit(command(record, place)));
  if (claim === null) {
    throw new Error("the run was not claimed");
  }
  return record.owners.adopt(claim);
}

async function oneRun(record: BenchRecord, place: Place): Promise<void> {
  const { gates, pools, process } = record;
  const wire = { wire: "anthropic", requestedModel: "sim/echo", requestBytes: 1_000, rules: [] } as const;
  await timed("empty transaction", () => pools.run.query("select 1"));
  await timed("plain one-row commit", () =>
    pools.run.query("update signalbox.process set heartbeat_at = heartbeat_at where incarnation = $1", [process]),
  );
  const ownership = await start(record, place);
  const tokenHash = randomBytes(32).toString("hex");
  await timed("bind slot", () => ownership.bindSlot({ tokenHash, workerId: "w" }));
  const modelCallId = newId("modelCall");
  await timed("open model call", () => gates.openModelCall({ tokenHash, modelCallId, process, ...wire }));
  const toolUseId = `toolu_${randomBytes(8).toString("hex")}`;
  const proposal = {
    toolCallId: newId("toolCall"),
    toolUseId,
    name: "files__read",
    server: "files",
    tool: "read",
    effect: "read",
    definitionHash: "d",
    argumentsJson: "{}",
    argumentsDigest: "a",
    callDigest: null,
    judged: null,
  } as const;
  await timed("settle model call", () =>
    gates.settleModelCall({
      modelCallId,
      state: "succeeded",
      servedModel: "echo",
      usage: { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 },
      costMicros: 1,
      priceVersion: "v",
      stopReason: "tool_use",
      errorCode: null,
      proposals: [proposal],
    }),
  );
  const intent = {
    tokenHash,
    process,
    toolUseId,
    name: proposal.name,
    argumentsDigest: proposal.argumentsDigest,
    policyVersion: null,
  };
  const { toolCallId } = await timed("open tool call", () => gates.openToolCall(intent));
  const outcome = { state: "succeeded", resultJson: "{}", resultSummary: "", errorCode: null } as const;
  await timed("settle tool call", () => gates.settleToolCall({ toolCallId, ...outcome }));
  const entry = { kind: "item", entryId: newId("item"), stream: "", body: Buffer.alloc(2_000, "x") } as const;
  await timed("append transcript (2 kB)", () => gates.appendTranscript(tokenHash, [entry]));
  await timed("append one event, alone", () => ownership.append([textEvent(1)], newId("turn")));
  await end(ownership, entry.entryId);
}

async function end(ownership: Ownership, leaf: string | null): Promise<void> {
  const seal = await timed("seal", () =>
    ownership.seal({
      generation: ownership.claim.generation,
      ending: "done",
      answer: "done",
      stopReason: "end_turn",
      leaf,
      servedModel: "echo",
      rung: "native",
      error: null,
    }),
  );
  await timed("finish", () =>
    ownership.finish({
      outcome: "completed",
      reason: "answered",
      error: null,
      answer: { messageId: newId("message"), text: "done", partial: false },
      rung: "native",
      continuity: seal.leaf === null ? "kept" : "moved",
      leaf: seal.leaf,
      digest: seal.digest,
      servedModel: "echo",
    }),
  );
}

function textEvent(revision: number): OwnerEvent {
  return {
    type: "text.delta",
    itemId: "itm_bench",
    revision,
    data: { offset: 0, text: "forty tokens of text ".repeat(8) },
  };
}

/** Every conversation appends, waits for its commit, and appends again. */
async function throughput(
  record: BenchRecord,
  agentId: AgentIdOf,
  load: { readonly conversations: number; readonly appends: number },
): Promise<Row> {
  const owners: Ownership[] = [];
  for (let index = 0; index < load.conversations; index += 1) {
    owners.push(await start(record, { agentId, conversationId: await newConversation(record, agentId) }));
  }
  const waits: number[] = [];
  const startedAtMs = performance.now();
  await Promise.all(
    owners.map(async (ownership) => {
      const turnId = newId("turn");
      for (let revision = 1; revision <= load.appends; revision += 1) {
        const sentAtMs = performance.now();
        await ownership.append([textEvent(revision)], turnId);
        waits.push(performance.now() - sentAtMs);
      }
    }),
  );
  const seconds = (performance.now() - startedAtMs) / 1_000;
  const sorted = waits.toSorted((left, right) => left - right);
  return {
    id: `store/group commit, ${load.conversations} writers`,
    value: waits.length / seconds,
    unit: "events/s",
    n: waits.length,
    note: `ack p50 ${quantile(sorted, 0.5).toFixed(1)} ms, p95 ${quantile(sorted, 0.95).toFixed(1)} ms`,
  };
}
