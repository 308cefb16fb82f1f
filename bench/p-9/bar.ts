/** P-9: conversations that wait cost a claim nothing: the buffers it reads, without them and with a hundred thousand. */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { openDatabase } from "../../packages/server/src/database/open-database.ts";
import { migrate } from "../../packages/server/src/store/migrations.ts";
import type { Bar, BarResult, BenchOptions } from "../bar.ts";

/** Tables that are not empty have index pages, which any number of rows needs. */
const FEW_COUNT = 1_000;
const PARKED_COUNT = 100_000;
const CLAIM_COUNT = 9;

export const parked: Bar = {
  id: "P-9",
  title: "What a hundred thousand waiting conversations cost a claim",
  cases: ["P-9/buffers"],
  measure,
};

async function* measure({ say }: BenchOptions): AsyncGenerator<BarResult> {
  const folder = mkdtempSync(join(tmpdir(), "sbx-bench-parked-"));
  chmodSync(folder, 0o755);
  try {
    await using database = await openDatabase({ dataDir: join(folder, "data") });
    await migrate(database.pgConfig);
    const client = new pg.Client(database.pgConfig);
    await client.connect();
    try {
      const { rows } = await client.query<{ process: number }>(
        `insert into signalbox.process (roles, lease_until) values ('{supervisor}', clock_timestamp() + interval '1 hour')
         returning incarnation as process`,
      );
      const process = rows[0]?.process ?? 0;
      // What is read to plan a statement is not what the claim reads.
      await client.query("set plan_cache_mode = force_generic_plan");
      await client.query(AGENT);
      await client.query(PARK, [1, FEW_COUNT]);
      await client.query(ANALYZE);
      const before = await claimBuffers(client, process);
      say(`a claim reads ${before} buffers`);
      await client.query(PARK, [FEW_COUNT + 1, PARKED_COUNT]);
      await client.query(ANALYZE);
      const after = await claimBuffers(client, process);
      yield {
        id: "P-9/buffers",
        value: after - before,
        unit: "buffers added",
        bar: 0,
        holds: after <= before,
        n: CLAIM_COUNT,
        note: `a claim that finds nothing reads ${before} buffers with ${FEW_COUNT} suspended conversations and ${after} with ${PARKED_COUNT}`,
      };
    } finally {
      await client.end();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The fewest of several: the first calls of a session also read the catalogue. */
async function claimBuffers(client: pg.Client, process: number): Promise<number> {
  let fewest = Number.POSITIVE_INFINITY;
  for (let count = 0; count < CLAIM_COUNT; count += 1) {
    const { rows } = await client.query<{ "QUERY PLAN": readonly { readonly Plan: Plan }[] }>(
      `explain (analyze, buffers, format json) select * from signalbox.claim(${process}, '{"langgraph": 8}', 8)`,
    );
    const plan = rows[0]?.["QUERY PLAN"][0]?.Plan;
    fewest = Math.min(fewest, (plan?.["Shared Hit Blocks"] ?? 0) + (plan?.["Shared Read Blocks"] ?? 0));
  }
  return fewest;
}

interface Plan {
  readonly "Shared Hit Blocks": number;
  readonly "Shared Read Blocks": number;
}

const AGENT = `
  insert into signalbox.agent (id, tenant_id, name, revision) values ('agt_bench', 'default', 'bench', 1);
  insert into signalbox.snapshot (tenant_id, hash, body) values ('default', 'hash', '{}');`;

const ANALYZE = "vacuum analyze signalbox.run, signalbox.ownership, signalbox.conversation";

/** As a suspended run lies: no owner, not ready, no process, no slot. */
const PARK = `
  with made as (
    insert into signalbox.conversation (id, tenant_id, agent_id, created_by)
    select 'cnv_' || n, 'default', 'agt_bench', 'bench' from generate_series($1::integer, $2::integer) as n returning id
  ), owned as (
    insert into signalbox.ownership (conversation_id, tenant_id, generation, runtime)
    select id, 'default', 2, 'langgraph' from made
  )
  insert into signalbox.run (id, tenant_id, conversation_id, message_id, agent_id, agent_revision, snapshot_hash, runtime,
                             state, generation, position, cursor, actor, requested, granted, trace_id, model_call_limit,
                             tool_call_limit, wall_clock_ms, accepted_at)
  select 'run_' || id, 'default', id, 'msg_' || id, 'agt_bench', 1, 'hash', 'langgraph', 'suspended', 1, 1, 0, '{}', '{}',
         '{}', 'trace', 64, 256, 3600000, clock_timestamp()
  from made`;
