/** A record on a database of its own, with the adapters of one or more processes and short ways to a running run. */
import { randomBytes } from "node:crypto";
import type { ModelCallId } from "@signalbox/contract";
import type { Log, Ownership, Proposal } from "@signalbox/core";
import pg, { type Client, type QueryResultRow } from "pg";
import { expect } from "vitest";
import { LiveBus } from "../../../packages/server/src/channels/live/live-bus.ts";
import { createTranscriptRecord } from "../../../packages/server/src/channels/transcript/transcript-record.ts";
import { createAdmissionRecord } from "../../../packages/server/src/channels/truth/admission-record.ts";
import { createGateRecord } from "../../../packages/server/src/channels/truth/gate-record.ts";
import { GroupCommit } from "../../../packages/server/src/channels/truth/group-commit.ts";
import { createOwnershipRecord } from "../../../packages/server/src/channels/truth/ownership-record.ts";
import { createOperatorRecord } from "../../../packages/server/src/channels/truth/operator-record.ts";
import { PostgresProcessRecord } from "../../../packages/server/src/channels/truth/process-record.ts";
import { BoundSlots } from "../../../packages/server/src/store/bound-slots.ts";
import { connectDirectly, StorePools } from "../../../packages/server/src/store/pools.ts";
import { AgentQueries } from "../../../packages/server/src/store/queries/agent-queries.ts";
import { ConversationQueries } from "../../../packages/server/src/store/queries/conversation-queries.ts";
import { RUN_ROLE } from "../../../packages/server/src/store/roles.ts";
import { SnapshotCache } from "../../../packages/server/src/store/snapshot-cache.ts";
import { TenantDatabase } from "../../../packages/server/src/store/tenant-database.ts";
import { ACTOR, modelSettlement, newId, type ConversationPlace } from "./record-parts.ts";
import { cloneDatabase, type ClonedDatabase } from "../../setup/clone-database.ts";

const DIRECT_TIMEOUT_MS = 5_000;
const WAIT_MS = 10_000;

export const silentLog: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };

export interface Bound {
  readonly ownership: Ownership;
  readonly tokenHash: string;
}

/** The adapters of one process. */
export class RecordProcess implements AsyncDisposable {
  readonly bus = new LiveBus();
  readonly pools: StorePools;
  readonly snapshots: SnapshotCache;
  readonly events: GroupCommit;
  readonly processes: PostgresProcessRecord;
  readonly presenceSessions: Client[] = [];
  /** The seat that the next run admitted here is said to get. */
  nextSeat: { readonly tokenHash: string; readonly workerId: string } | null = null;
  readonly admission;
  readonly owners;
  readonly gates;
  readonly operators;
  readonly tenants: TenantDatabase;
  #incarnation = 0;

  constructor(database: ClonedDatabase, leaseMs: number) {
    const { config } = database;
    this.pools = new StorePools(config, { connectionCount: 6 });
    const { app, run } = this.pools;
    const live = this.bus;
    this.snapshots = new SnapshotCache(run);
    this.events = new GroupCommit({ database: run, live, log: silentLog });
    this.processes = new PostgresProcessRecord({
      connect: async () => {
        const client = await connectDirectly(config, {
          role: RUN_ROLE,
          name: "presence",
          queryTimeoutMs: DIRECT_TIMEOUT_MS,
        });
        this.presenceSessions.push(client);
        return client;
      },
      database: run,
      live,
      log: silentLog,
      leaseMs,
    });
    const { snapshots, events, processes: authority } = this;
    const slots = new BoundSlots();
    const expectedSeat = () => this.nextSeat;
    this.admission = createAdmissionRecord({ database: app, snapshots, live, authority, slots, expectedSeat });
    this.owners = createOwnershipRecord({ database: run, snapshots, slots, events, live, authority });
    this.gates = createGateRecord({
      database: run,
      snapshots,
      live,
      authority,
      transcript: createTranscriptRecord(run),
    });
    this.tenants = new TenantDatabase(app);
    this.operators = createOperatorRecord({ requests: app, sweeps: run, live, log: silentLog });
  }

  get incarnation(): number {
    return this.#incarnation;
  }

  async register(): Promise<number> {
    this.#incarnation = (await this.processes.register(["supervisor", "gate"])).process;
    return this.#incarnation;
  }

  async claim(runtime = "scripted", limit = 1): Promise<readonly Ownership[]> {
    return this.owners.claim({ process: this.incarnation, room: { [runtime]: limit }, limit });
  }

  async claimOne(runtime = "scripted"): Promise<Ownership> {
    const [ownership] = await this.claim(runtime);
    expect(ownership, "something was claimable").toBeDefined();
    return ownership!;
  }

  async bind(ownership: Ownership): Promise<Bound> {
    const tokenHash = randomBytes(32).toString("hex");
    await ownership.bindSlot({ tokenHash, workerId: "w1" });
    return { ownership, tokenHash };
  }

  /** Opens a model call and settles it with these proposals. */
  async propose(bound: Bound, proposals: readonly Proposal[]): Promise<boolean> {
    const modelCallId = await this.openModel(bound.tokenHash);
    return (await this.gates.settleModelCall(modelSettlement(modelCallId, proposals))).proposalsAccepted;
  }

  async openModel(tokenHash: string): Promise<ModelCallId> {
    const modelCallId = newId("modelCall");
    await this.gates.openModelCall({
      tokenHash,
      modelCallId,
      process: this.incarnation,
      wire: "anthropic",
      requestedModel: "sim/echo",
      requestBytes: 400,
      rules: [],
    });
    return modelCallId;
  }

  openTool(bound: Bound, proposal: Proposal, process = this.incarnation) {
    const { toolUseId, name, argumentsDigest } = proposal;
    return this.gates.openToolCall({
      tokenHash: bound.tokenHash,
      process,
      toolUseId,
      name,
      argumentsDigest,
      policyVersion: null,
    });
  }

  /** Kills the session that carries the presence, as a crash of this process would. */
  async dropPresence(superuser: Client): Promise<void> {
    const session = this.presenceSessions.at(-1)!;
    const { rows } = await session.query<{ pid: number }>("select pg_backend_pid() as pid");
    await superuser.query("select pg_terminate_backend($1)", [rows[0]!.pid]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.events[Symbol.asyncDispose]();
    await this.processes[Symbol.asyncDispose]();
    await this.pools[Symbol.asyncDispose]();
    this.bus.close();
  }
}

export class RecordWorld implements AsyncDisposable {
  readonly database: ClonedDatabase;
  /** Superuser: sees every row, and breaks what a sabotage breaks. */
  readonly superuser: Client;
  readonly #stack = new AsyncDisposableStack();

  private constructor(database: ClonedDatabase, superuser: Client) {
    this.database = database;
    this.superuser = superuser;
  }

  static async open(): Promise<RecordWorld> {
    return RecordWorld.over(await cloneDatabase());
  }

  /** On a migrated database that is there already; it is disposed with this. */
  static async over(database: ClonedDatabase): Promise<RecordWorld> {
    const superuser = new pg.Client({ ...database.config, types: { getTypeParser } });
    await superuser.connect();
    return new RecordWorld(database, superuser);
  }

  /** A key by this id that may read and write, for actors whose right is looked at once more. */
  async keyOf(id: string): Promise<void> {
    await this.rows(
      `insert into signalbox.api_key (id, tenant_id, name, prefix, hash, rights)
       values ($1, 'default', $1, 'sbx_test', sha256(convert_to($1, 'UTF8')), '{read,write}') on conflict do nothing`,
      [id],
    );
  }

  async process(options: { readonly leaseMs?: number; readonly registered?: boolean } = {}): Promise<RecordProcess> {
    const process = this.#stack.use(new RecordProcess(this.database, options.leaseMs ?? 60_000));
    if (options.registered !== false) {
      await process.register();
    }
    return process;
  }

  /** A raw connection as the run side, for transactions that a test holds open. */
  async session(role: string = RUN_ROLE): Promise<Client> {
    const client = new pg.Client({ ...this.database.config, types: { getTypeParser } });
    await client.connect();
    await client.query(`set role ${role}`);
    this.#stack.defer(() => client.end());
    return client;
  }

  async conversation(
    options: { readonly tenantId?: string; readonly user?: string | null; readonly runtime?: string } = {},
  ): Promise<ConversationPlace> {
    const { tenantId = "default", user = null, runtime = "scripted" } = options;
    const process = await this.process({ registered: false });
    const agentId = newId("agent");
    const conversationId = newId("conversation");
    const actor = { ...ACTOR, user };
    await new AgentQueries(process.tenants).create(
      { tenantId, agentId, name: `agent-${agentId.slice(-12)}`, runtime, definition: {}, actor },
      null,
    );
    await new ConversationQueries(process.tenants).create(
      { tenantId, conversationId, agentId, title: null, metadata: {}, actor },
      null,
    );
    return { tenantId, conversationId, agentId, runtime };
  }

  async rows<Row extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    return (await this.superuser.query<Row>(text, [...values])).rows;
  }

  async one<Row extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row> {
    const [row] = await this.rows<Row>(text, values);
    if (row === undefined) {
      throw new Error(`no row: ${text}`);
    }
    return row;
  }

  /** Breaks a function of the record: its text with one part replaced. */
  async sabotage(name: string, part: string, instead: string): Promise<void> {
    const { text } = await this.one<{ text: string }>(
      "select pg_get_functiondef(p.oid) as text from pg_proc p where p.pronamespace = 'signalbox'::regnamespace and proname = $1",
      [name],
    );
    // Not an assertion: a sabotage that did not happen must never pass for a promise that was seen broken.
    if (!text.includes(part)) {
      throw new Error(`${name} has no part that could be sabotaged so`);
    }
    await this.superuser.query(text.replaceAll(part, instead));
  }

  /** Waits until a session of this database waits for a lock that `holder` has. */
  async untilBlockedBy(holder: Client): Promise<void> {
    const { rows } = await holder.query<{ pid: number }>("select pg_backend_pid() as pid");
    await until("somebody waits for the lock", async () => {
      const waiting = await this.rows("select from pg_stat_activity where $1 = any (pg_blocking_pids(pid))", [
        rows[0]!.pid,
      ]);
      return waiting.length > 0;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
    await this.superuser.end();
    await this.database[Symbol.asyncDispose]();
  }
}

/** Polls a state with a bound. */
export async function until(
  what: string,
  holds: () => Promise<boolean> | boolean,
  boundMs: number = WAIT_MS,
): Promise<void> {
  const giveUpAtMs = performance.now() + boundMs;
  while (!(await holds())) {
    if (performance.now() > giveUpAtMs) {
      throw new Error(`still not so: ${what}`);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const getTypeParser: typeof pg.types.getTypeParser = (oid: number, format?: "text" | "binary") =>
  (oid === 20 ? Number : pg.types.getTypeParser(oid, format)) as never;
