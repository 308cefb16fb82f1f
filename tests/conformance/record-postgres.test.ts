import type { RunId } from "@signalbox/contract";
import { AgentQueries } from "../../packages/server/src/store/queries/agent-queries.ts";
import { ConversationQueries } from "../../packages/server/src/store/queries/conversation-queries.ts";
import { EventQueries } from "../../packages/server/src/store/queries/event-queries.ts";
import { RecordWorld, until, type RecordProcess } from "../integration/store/record-world.ts";
import type { BenchConversation, BenchProcess, RecordBench, RecordedMessage, RecordedRun } from "./record/bench.ts";
import { ACTOR, newId } from "./record/story.ts";
import { recordConformance } from "./record/suite.ts";

/** Nobody is judged for one lease after the server came up, so the lease is short enough to wait for. */
const LEASE_MS = 2_000;
const EVENT_COUNT = 1_000;

class PostgresBench implements RecordBench {
  readonly #world: RecordWorld;
  readonly #reader: RecordProcess;
  #shared: Promise<BenchProcess> | null = null;

  private constructor(world: RecordWorld, reader: RecordProcess) {
    this.#world = world;
    this.#reader = reader;
  }

  static async open(): Promise<RecordBench> {
    const world = await RecordWorld.open();
    try {
      await world.rows("insert into signalbox.database_start default values on conflict do nothing");
      await world.rows("update signalbox.database_start set at = pg_postmaster_start_time()");
      await until("the server has been up for a lease", async () => {
        const { up } = await world.one<{ up: boolean }>(
          "select clock_timestamp() > pg_postmaster_start_time() + make_interval(secs => $1) as up",
          [LEASE_MS / 1_000],
        );
        return up;
      });
      await world.keyOf(ACTOR.keyId);
      return new PostgresBench(world, await world.process({ registered: false }));
    } catch (thrown) {
      await world[Symbol.asyncDispose]();
      throw thrown;
    }
  }

  async process(): Promise<BenchProcess> {
    const process = await this.#world.process({ leaseMs: LEASE_MS });
    const { incarnation, processes, admission, owners, gates, operators } = process;
    // Nobody sends heartbeats here, and only what a test lets die shall be judged.
    await this.#world.rows("update signalbox.process set lease_until = 'infinity' where incarnation = $1", [
      incarnation,
    ]);
    // Ending the adapter without a word ends the session that carries the presence, as a crash does.
    const decide: BenchProcess["decide"] = (command) => operators.decide(command);
    return { incarnation, processes, admission, owners, gates, decide, die: () => processes[Symbol.asyncDispose]() };
  }

  shared(): Promise<BenchProcess> {
    this.#shared ??= this.process();
    return this.#shared;
  }

  async conversation(): Promise<BenchConversation> {
    const { tenants } = this.#reader;
    const place = {
      tenantId: "default",
      agentId: newId("agent"),
      conversationId: newId("conversation"),
      runtime: "scripted",
    };
    const { tenantId, agentId, conversationId, runtime } = place;
    const name = `agent-${agentId.slice(-12)}`;
    await new AgentQueries(tenants).create({ tenantId, agentId, name, runtime, definition: {}, actor: ACTOR }, null);
    await new ConversationQueries(tenants).create(
      { tenantId, conversationId, agentId, title: null, metadata: {}, actor: ACTOR },
      null,
    );
    return place;
  }

  events({ tenantId, conversationId }: BenchConversation) {
    const queries = new EventQueries(this.#reader.pools.app);
    return queries.after({ tenantId, user: null }, conversationId, { afterSequence: 0, limit: EVENT_COUNT });
  }

  run(runId: RunId): Promise<RecordedRun> {
    return this.#world.one<RecordedRun & object>(
      "select state, reason, generation, owner from signalbox.run where id = $1",
      [runId],
    );
  }

  messages({ conversationId }: BenchConversation): Promise<readonly RecordedMessage[]> {
    return this.#world.rows<RecordedMessage & object>(
      `select m.role, m.text, m.partial from signalbox.message m join signalbox.run r on r.id = m.run_id
       where m.conversation_id = $1 order by r.position, m.role desc`,
      [conversationId],
    );
  }

  async auditActions({ conversationId }: BenchConversation): Promise<readonly string[]> {
    const rows = await this.#world.rows<{ action: string }>(
      "select action from signalbox.audit_pending where conversation_id = $1 order by action",
      [conversationId],
    );
    return rows.map(({ action }) => action);
  }

  async corruptTranscript({ conversationId }: BenchConversation, entryId: string): Promise<void> {
    await this.#world.rows(
      "update signalbox.transcript_entry set body = '\\x01' where conversation_id = $1 and entry_id = $2",
      [conversationId, entryId],
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#world[Symbol.asyncDispose]();
  }
}

recordConformance("in PostgreSQL", () => PostgresBench.open());
