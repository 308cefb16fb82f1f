/**
 * A store that is not what it was: promoted, put back from a copy, copied elsewhere, or said to be so. No earlier owner,
 * token or approval acts in it.
 */
import { appendFileSync, cpSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { expect, test } from "vitest";
import { PostgresProcessRecord } from "../../../packages/server/src/channels/truth/process-record.ts";
import { openDatabase } from "../../../packages/server/src/database/open-database.ts";
import { embeddedWitness } from "../../../packages/server/src/database/store-witness.ts";
import { migrate } from "../../../packages/server/src/store/migrations.ts";
import { connectDirectly } from "../../../packages/server/src/store/pools.ts";
import { RUN_ROLE } from "../../../packages/server/src/store/roles.ts";
import type { ClonedDatabase } from "../../setup/clone-database.ts";
import { proves } from "../../setup/proves.ts";
import { Scratch } from "../database-processes.ts";
import { codeOf, proposalOf, startedRun, textEvent, TURN } from "./record-parts.ts";
import { RecordWorld, silentLog, until } from "./record-world.ts";

const JUMP = 1_048_576;

proves("INV-25", {
  title: "after a failover no earlier owner, token or process acts, and what was outside becomes unknown",
  sabotages: ["nobody_looks", "generations_stay", "tokens_stay", "calls_stay_open"],
  timeoutMs: 60_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "nobody_looks") await own.sabotage("store_stands", "not exists", "true or not exists");
    if (sabotage === "generations_stay") await own.sabotage("open_era", "generation + 1048576", "generation + 0");
    if (sabotage === "tokens_stay") await own.sabotage("open_era", "delete from signalbox.slot;", "");
    if (sabotage === "calls_stay_open") await own.sabotage("open_era", "t.state = 'executing'", "false");
    const place = await own.conversation();
    const first = await own.process();
    const { ownership } = await startedRun(first, place);
    const bound = await first.bind(ownership);
    const [done, open] = [proposalOf({ effect: "write" }), proposalOf({ effect: "write" })];
    expect(await first.propose(bound, [done, open])).toBe(true);
    await first.openTool(bound, open);

    // What a promotion does to the store, seen from inside: it is written on another timeline than it was opened on.
    await own.rows("update signalbox.store_identity set timeline = timeline - 1");
    expect(await codeOf(first.openModel(bound.tokenHash))).toBe("stale_generation");
    expect(await codeOf(first.claim())).toBe("stale_generation");

    // Whoever registers first opens the era.
    const second = await own.process();
    const { generation, era } = await own.one<{ generation: number; era: number }>(
      `select o.generation, s.era from signalbox.ownership o, signalbox.store_identity s where o.conversation_id = $1`,
      [place.conversationId],
    );
    expect(era).toBe(2);
    expect(generation).toBeGreaterThanOrEqual(ownership.claim.generation + JUMP);
    expect(await codeOf(ownership.append([textEvent("from before")], TURN))).toBe("stale_generation");
    expect(await codeOf(second.openModel(bound.tokenHash))).toBe("slot_unknown");
    expect(await own.rows("select state from signalbox.tool_call order by state")).toEqual([
      { state: "proposed" },
      { state: "unknown" },
    ]);
    expect(await own.rows("select from signalbox.process where dead_at is null")).toHaveLength(1);
    expect(second.incarnation).toBeGreaterThan(first.incarnation + 65_535);

    const again = await second.claimOne();
    expect(again.claim.runId).toBe(ownership.claim.runId);
    expect(again.claim.generation).toBeGreaterThan(generation);
    expect(await codeOf(ownership.append([textEvent("from before")], TURN))).toBe("stale_generation");
    // The process of before hears that it is dead, and begins anew.
    expect(await codeOf(first.processes.heartbeat(first.incarnation))).toBe("stale_generation");
    const { told } = await own.one<{ told: string }>(
      `select convert_from(bytes, 'UTF8') as told from signalbox.audit_pending where action = 'incarnation_opened'`,
    );
    expect(JSON.parse(told)).toMatchObject({ facts: { cause: "failover", era: 2 } });
  },
});

test("a worker that is ahead of the record opens an era; one that is not does not", async () => {
  await using own = await RecordWorld.open();
  const place = await own.conversation();
  const process = await own.process();
  const { ownership } = await startedRun(process, place);
  const { conversationId, generation } = ownership.claim;
  const era = async () => (await own.one<{ era: number }>("select era from signalbox.store_identity")).era;
  await process.processes.judgeSessions([{ conversationId, generation }]);
  expect(await era()).toBe(1);
  await process.processes.judgeSessions([{ conversationId, generation: generation + 1 }]);
  expect(await era()).toBe(2);
  expect(await codeOf(process.processes.heartbeat(process.incarnation))).toBe("stale_generation");
});

test("a process that was told of a newer life than the store knows opens an era when it comes back", async () => {
  await using own = await RecordWorld.open();
  const process = await own.process();
  // The store goes back behind the process: its rows are those of an hour ago.
  await own.rows("update signalbox.process set heartbeat_at = heartbeat_at - interval '1 hour'");
  await process.dropPresence(own.superuser);
  await expect
    .poll(async () => await own.rows("select cause from signalbox.era"), { timeout: 10_000 })
    .toEqual([{ cause: "store_restored" }]);
});

/** A server that recovers from an archive is readable before it is promoted. */
async function untilPrimary(config: pg.ClientConfig): Promise<void> {
  const client = new pg.Client(config);
  await client.connect();
  try {
    await until("the end of the recovery", async () => {
      const { rows } = await client.query<{ standby: boolean }>("select pg_is_in_recovery() as standby");
      return rows[0]?.standby === false;
    });
  } finally {
    await client.end();
  }
}

/** A process that sees where its embedded store lies registers and leaves again. Answers the era and its cause. */
async function visit(
  dataDir: string,
  use: (world: RecordWorld) => Promise<void> = async () => undefined,
): Promise<{ readonly era: number; readonly cause: string | null }> {
  await using database = await openDatabase({ dataDir });
  const config = database.pgConfig;
  if (!("host" in config)) throw new Error("not an embedded database");
  await untilPrimary(config);
  await migrate(config);
  const place: ClonedDatabase = {
    config,
    url: database.connectionString,
    [Symbol.asyncDispose]: async () => undefined,
  };
  await using world = await RecordWorld.over(place);
  await using processes = new PostgresProcessRecord({
    connect: () => connectDirectly(config, { role: RUN_ROLE, name: "presence", queryTimeoutMs: 10_000 }),
    database: world.superuser,
    live: { ring: () => undefined, ringGates: () => undefined, ringSupervisors: () => undefined },
    log: silentLog,
    witness: embeddedWitness(dataDir),
  });
  const { process } = await processes.register(["supervisor"]);
  await use(world);
  await processes.heartbeat(process);
  await processes.unregister(process);
  const { era } = await world.one<{ era: number }>("select era from signalbox.store_identity");
  const [newest] = await world.rows<{ cause: string }>("select cause from signalbox.era order by number desc limit 1");
  return { era, cause: newest?.cause ?? null };
}

test(
  "a real store: restarted, put back from an older copy, copied elsewhere, promoted",
  { timeout: 180_000 },
  async () => {
    await using scratch = new Scratch();
    const { dataDir } = scratch;
    const cluster = join(dataDir, "postgres");
    const kept = `${dataDir}-kept`;
    const elsewhere = `${dataDir}-elsewhere`;
    try {
      expect(await visit(dataDir)).toEqual({ era: 1, cause: null });
      cpSync(cluster, kept, { recursive: true });
      // A restart is no sign of anything.
      let token = "";
      expect(
        await visit(dataDir, async (world) => {
          const process = await world.process();
          const { ownership } = await startedRun(process, await world.conversation());
          token = (await process.bind(ownership)).tokenHash;
        }),
      ).toEqual({ era: 1, cause: null });

      rmSync(cluster, { recursive: true });
      cpSync(kept, cluster, { recursive: true });
      expect(await visit(dataDir)).toEqual({ era: 2, cause: "store_restored" });
      expect(await visit(dataDir)).toEqual({ era: 2, cause: "store_restored" });

      cpSync(dataDir, elsewhere, { recursive: true });
      expect(
        await visit(elsewhere, async (world) => {
          expect(await codeOf((await world.process()).openModel(token))).toBe("slot_unknown");
        }),
      ).toEqual({ era: 3, cause: "store_copied" });
      // The one it was copied from knows nothing of that.
      expect(await visit(dataDir)).toEqual({ era: 2, cause: "store_restored" });

      // Recovers from an archive that has nothing more, and is promoted: another timeline.
      const copied = join(elsewhere, "postgres");
      appendFileSync(join(copied, "postgresql.auto.conf"), "restore_command = 'false'\n");
      writeFileSync(join(copied, "recovery.signal"), "");
      expect(await visit(elsewhere)).toEqual({ era: 4, cause: "failover" });
    } finally {
      for (const folder of [kept, elsewhere]) rmSync(folder, { recursive: true, force: true });
    }
  },
);
