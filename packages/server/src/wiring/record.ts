/** The record of one process: database, migrations, pools and the adapters of the core's ports over them. */
import type { Snapshot } from "@signalbox/contract";
import {
  LIMITS,
  type AdmissionRecord,
  type DeliveryRecord,
  type GateRecord,
  type GatewayRecord,
  type HoldRecord,
  type Log,
  type OwnershipRecord,
  type PolicyRecord,
  type UpkeepRecord,
} from "@signalbox/core";
import { LiveBus } from "../channels/live/live-bus.ts";
import { PostgresLiveChannel } from "../channels/live/live-channel.ts";
import { createTranscriptRecord } from "../channels/transcript/transcript-record.ts";
import { createAdmissionRecord, type ExpectedSeat } from "../channels/truth/admission-record.ts";
import { createDeletionRecord, type DeletionRecord } from "../channels/truth/deletion-record.ts";
import { createDeliveryRecord } from "../channels/truth/delivery-record.ts";
import { createGatewayRecord } from "../channels/truth/gateway-record.ts";
import { createGateRecord } from "../channels/truth/gate-record.ts";
import { GroupCommit } from "../channels/truth/group-commit.ts";
import { createOwnershipRecord } from "../channels/truth/ownership-record.ts";
import { createPolicyRecord } from "../channels/truth/policy-record.ts";
import { createUpkeepRecord } from "../channels/truth/upkeep-record.ts";
import { createOfferRecord, type OfferRecord } from "../channels/truth/offer-record.ts";
import { PostgresProcessRecord, type StoreWitness } from "../channels/truth/process-record.ts";
import type { PgConfig } from "../database/connection.ts";
import { EgressPolicy, type EgressAllowance } from "../egress/egress-policy.ts";
import { BoundSlots, type BoundSnapshot } from "../store/bound-slots.ts";
import { connectDirectly, StorePools } from "../store/pools.ts";
import { AgentQueries } from "../store/queries/agent-queries.ts";
import { AnsweringCache } from "../store/queries/answering-cache.ts";
import { AnsweringQueries } from "../store/queries/answering-queries.ts";
import { ApiKeyQueries } from "../store/queries/api-key-queries.ts";
import { ConversationQueries } from "../store/queries/conversation-queries.ts";
import { ConversationSearch } from "../store/queries/conversation-search.ts";
import { EventQueries } from "../store/queries/event-queries.ts";
import { FeedQueries } from "../store/queries/feed-queries.ts";
import { IdempotencyQueries } from "../store/queries/idempotency-queries.ts";
import { MessageQueries } from "../store/queries/message-queries.ts";
import { OperatorQueries } from "../store/queries/operator-queries.ts";
import { PolicyQueries } from "../store/queries/policy-queries.ts";
import { RunQueries } from "../store/queries/run-queries.ts";
import { ToolCommands } from "../store/queries/tool-commands.ts";
import { ToolQueries } from "../store/queries/tool-queries.ts";
import { RUN_ROLE } from "../store/roles.ts";
import { SnapshotCache } from "../store/snapshot-cache.ts";
import { TenantDatabase } from "../store/tenant-database.ts";
import { systemClock } from "../system/ports.ts";
import { createSealer, type Sealer } from "../tenancy/sealer.ts";
import type { CommandRecord } from "../api/command.ts";
import type { Queries } from "./api-record.ts";
import { createCommands } from "./commands.ts";
import { EndingStack } from "./ending-stack.ts";

const DIRECT_TIMEOUT_MS = 10_000;

export interface RecordOptions {
  readonly config: PgConfig;
  /** Past any pooler: for presence and doorbells. */
  readonly directConfig: PgConfig;
  readonly log: Log;
  /** What is known of the store outside it. */
  readonly witness?: StoreWitness;
  /** The seat a run that is admitted here will most likely get. */
  readonly expectedSeat: (conversationId: string, runtime: string) => ExpectedSeat | null;
  /** Seals what the record keeps of other systems' secrets. */
  readonly secret: string;
  /** What addresses that tenants give may reach besides the public network. */
  readonly egressAllow: EgressAllowance;
}

export interface PlatformRecord extends AsyncDisposable {
  readonly admission: AdmissionRecord;
  readonly ownership: OwnershipRecord;
  readonly processes: PostgresProcessRecord;
  readonly upkeep: UpkeepRecord;
  readonly gates: GateRecord & HoldRecord;
  readonly gateway: GatewayRecord;
  readonly commands: CommandRecord;
  readonly deliveries: DeliveryRecord;
  /** Of webhooks. */
  readonly sealer: Sealer;
  readonly operatorQueries: OperatorQueries;
  readonly policies: PolicyRecord;
  readonly policyQueries: PolicyQueries;
  readonly snapshot: (tenantId: string, hash: string) => Promise<Snapshot>;
  readonly offers: OfferRecord;
  /** What this process knows of a slot it has bound itself. A hint: only an intent's answer says what holds. */
  readonly boundSnapshot: (tokenHash: string) => BoundSnapshot | undefined;
  readonly queries: Queries;
  readonly live: PostgresLiveChannel;
  /** Resolves when the database answers. */
  ping(): Promise<void>;
}

export function openRecord(options: RecordOptions): PlatformRecord {
  const { config, directConfig, log } = options;
  const stack = new EndingStack();
  const onConnectionLost = ({ message }: Error): void =>
    log.warn("a database connection was lost", { reason: message });
  const pools = stack.use(new StorePools(config, { onConnectionLost }));
  const bus = new LiveBus();
  stack.defer(() => bus.close());
  const connect = (name: string) =>
    connectDirectly(directConfig, { role: RUN_ROLE, name, queryTimeoutMs: DIRECT_TIMEOUT_MS });
  const live = stack.use(
    new PostgresLiveChannel({ bus, connect: () => connect("doorbells"), database: pools.run, log }),
  );
  const tenants = new TenantDatabase(pools.app);
  const webhooks = { sealer: createSealer(options.secret, "webhooks"), policy: new EgressPolicy(options.egressAllow) };
  const snapshots = new SnapshotCache(pools.run);
  const slots = new BoundSlots();
  const events = stack.use(new GroupCommit({ database: pools.run, live, log }));
  const processes = stack.use(
    new PostgresProcessRecord({
      connect: () => connect("presence"),
      database: pools.run,
      live,
      log,
      ...(options.witness === undefined ? {} : { witness: options.witness }),
    }),
  );
  return {
    admission: createAdmissionRecord({
      database: pools.app,
      snapshots,
      slots,
      live,
      authority: processes,
      expectedSeat: options.expectedSeat,
    }),
    ownership: createOwnershipRecord({ database: pools.run, events, live, snapshots, slots, authority: processes }),
    processes,
    gates: createGateRecord({
      database: pools.run,
      snapshots,
      live,
      authority: processes,
      transcript: createTranscriptRecord(pools.run),
    }),
    gateway: createGatewayRecord({ database: pools.run, authority: processes }),
    upkeep: createUpkeepRecord(pools.run),
    commands: createCommands({ requests: pools.app, tenants, sweeps: pools.run, live, log, webhooks }),
    ...deliveriesOf(pools, webhooks.sealer),
    ...policiesOf(pools, { tenants, snapshots }),
    offers: createOfferRecord(pools.run),
    boundSnapshot: (tokenHash) => slots.find(tokenHash),
    queries: queriesOf(pools, { tenants, deletion: createDeletionRecord({ database: pools.run, live }) }),
    live,
    ping: async () => {
      await pools.run.query("select 1");
    },
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}

function deliveriesOf(pools: StorePools, sealer: Sealer): Pick<PlatformRecord, "deliveries" | "sealer"> {
  const { keyId } = sealer;
  const deliveries = createDeliveryRecord({ database: pools.run, keyId, failingMs: LIMITS.webhookFailingMs });
  return { deliveries, sealer };
}

function policiesOf(
  pools: StorePools,
  { tenants, snapshots }: { readonly tenants: TenantDatabase; readonly snapshots: SnapshotCache },
): Pick<PlatformRecord, "operatorQueries" | "policies" | "policyQueries" | "snapshot"> {
  return {
    snapshot: (tenantId, hash) => snapshots.get(tenantId, hash),
    operatorQueries: new OperatorQueries(tenants),
    policies: createPolicyRecord(pools.run),
    policyQueries: new PolicyQueries(tenants),
  };
}

function queriesOf(
  pools: StorePools,
  { tenants, deletion }: { readonly tenants: TenantDatabase; readonly deletion: DeletionRecord },
): Queries {
  return {
    agents: new AgentQueries(tenants),
    answering: new AnsweringCache(new AnsweringQueries(pools.app), () => systemClock.monotonicMs()),
    apiKeys: new ApiKeyQueries(tenants, pools.run),
    conversations: new ConversationQueries(tenants),
    search: new ConversationSearch(new TenantDatabase(pools.run)),
    deletion,
    events: new EventQueries(pools.app),
    feed: new FeedQueries(pools.app),
    idempotency: new IdempotencyQueries(tenants),
    messages: new MessageQueries(tenants),
    runs: new RunQueries(tenants),
    tools: new ToolQueries(tenants),
    toolCommands: new ToolCommands(tenants),
  };
}
