import pg, { type Pool } from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { StorePools } from "../../../packages/server/src/store/pools.ts";
import { PolicyQueries } from "../../../packages/server/src/store/queries/policy-queries.ts";
import { proves } from "../../setup/proves.ts";
import { commandFor, finishRun, newId, proposalOf, startedRun, textEvent, TURN } from "./record-parts.ts";
import { RecordWorld, type RecordProcess } from "./record-world.ts";

/** Tables of the whole installation, not of a tenant. */
const UNTENANTED = ["database_start", "era", "migration", "process", "process_offer", "store_identity", "upkeep"];

let world: RecordWorld;

beforeAll(async () => {
  world = await RecordWorld.open();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function tenantTables(own: RecordWorld): Promise<readonly string[]> {
  const rows = await own.rows<{ name: string }>(
    `select c.relname as name from pg_class c
     where c.relnamespace = 'signalbox'::regnamespace and c.relkind in ('r', 'p') order by 1`,
  );
  return rows.map((row) => row.name).filter((name) => !UNTENANTED.includes(name));
}

it("every table has forced row-level security, a policy, and a tenant that is never empty", async () => {
  const rows = await world.rows<{ name: string; forced: boolean; policies: number; tenant: boolean; guarded: boolean }>(
    `select c.relname as name, c.relrowsecurity and c.relforcerowsecurity as forced,
            (select count(*)::integer from pg_policy p where p.polrelid = c.oid) as policies,
            exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and a.attnotnull) as tenant,
            exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'c'
                    and pg_get_constraintdef(k.oid) like '%tenant_id <> ''''%') as guarded
     from pg_class c where c.relnamespace = 'signalbox'::regnamespace and c.relkind in ('r', 'p') order by 1`,
  );
  expect(rows.length).toBeGreaterThan(18);
  for (const row of rows) {
    expect(row.forced, `${row.name} is forced`).toBe(true);
    expect(row.policies, `${row.name} has a policy`).toBeGreaterThan(0);
    const untenanted = UNTENANTED.includes(row.name);
    expect([row.tenant, row.guarded], `${row.name} and its tenant`).toEqual(untenanted ? [false, false] : [true, true]);
  }
});

it("the roles that serve own nothing and may not bypass a policy", async () => {
  const roles = await world.rows(
    `select rolname, rolsuper, rolbypassrls, rolcreaterole, rolcanlogin,
            (select count(*)::integer from pg_class c where c.relowner = r.oid) as owns
     from pg_roles r where rolname like 'signalbox\\_%' order by 1`,
  );
  const harmless = { rolsuper: false, rolbypassrls: false, rolcreaterole: false, rolcanlogin: false };
  expect(roles).toMatchObject(
    ["signalbox_app", "signalbox_owner", "signalbox_run"].map((rolname) => ({ rolname, ...harmless })),
  );
  expect(roles.filter((role) => role["rolname"] !== "signalbox_owner").map((role) => role["owns"])).toEqual([0, 0]);
});

/** Leaves at least one row of a tenant in every table. */
async function fill(own: RecordWorld, process: RecordProcess, tenantId: string): Promise<void> {
  const place = await own.conversation({ tenantId });
  const idempotency = { key: "k", bodyHash: "b" };
  const { ownership } = await startedRun(process, place, { idempotency });
  const bound = await process.bind(ownership);
  await process.propose(bound, [proposalOf()]);
  await process.gates.appendTranscript(bound.tokenHash, [
    { kind: "item", entryId: "e", stream: "", body: Buffer.from("x") },
  ]);
  await ownership.append([textEvent("hi")], TURN);
  await own.rows(
    `insert into signalbox.tool (tenant_id, server, tool, title, definition, definition_hash, effect)
     values ($1, 's', 't', 'T', '{}', 'h', 'read')`,
    [tenantId],
  );
  await own.rows(
    `insert into signalbox.tool_pin (tenant_id, server, tool, event, definition, definition_hash)
     values ($1, 's', 't', 'trust', '{}', 'h')`,
    [tenantId],
  );
  await own.rows(
    "insert into signalbox.mcp_server (tenant_id, server, transport, origin) values ($1, 's', 'http', 'o')",
    [tenantId],
  );
  await own.rows(
    `insert into signalbox.api_key (id, tenant_id, name, prefix, hash, rights)
     values ($1, $2, 'n', 'p', decode(md5($1), 'hex'), '{}')`,
    [newId("apiKey"), tenantId],
  );
  await process.gates.openHold({
    tokenHash: bound.tokenHash,
    process: process.incarnation,
    holdId: newId("hold"),
    kind: "input",
    subject: {},
    digest: null,
    expiresInMs: null,
  });
  await own.rows("insert into signalbox.feed_horizon values ($1, '1', 'cnv_x', 1)", [tenantId]);
  await own.rows(
    `insert into signalbox.webhook (id, tenant_id, url, description, events, secret, secret_key)
     values ($1, $2, 'https://example.com', '', array['run.finished'], '', 'k')`,
    [newId("webhook"), tenantId],
  );
  await own.rows(
    "select signalbox.refuse_gateway_call($1, $2, '{}', 'p', 'servers/s', 's', 't', 'read', '{}', '', 'x', 'y', null, null)",
    [newId("gatewayCall"), tenantId],
  );
  const stopId = newId("stop");
  const actor = { keyId: "key_1", user: null, roles: [], units: [] };
  await new PolicyQueries(process.tenants).create(
    { tenantId, policyId: newId("policy"), hash: "h", document: "{}", actor },
    null,
  );
  const stop = { kind: "pause", scope: "tenant", subject: null, reason: null } as const;
  await process.operators.createStop({ tenantId, actor, stopId, ...stop });
  await finishRun(ownership);
  await own.rows(
    "insert into signalbox.webhook_attempt select id, 1, tenant_id from signalbox.webhook_delivery d where not exists (select from signalbox.webhook_attempt a where a.delivery_id = d.id)",
  );
}

/** What a request may read of a table: a number of rows, or that it may not at all. */
async function visible(pool: Pool, table: string, tenantId: string | null): Promise<number | "denied"> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    if (tenantId !== null) {
      await client.query("select set_config('signalbox.tenant', $1, true)", [tenantId]);
    }
    const { rows } = await client.query<{ n: number }>(`select count(*)::integer as n from signalbox.${table}`);
    await client.query("commit");
    return rows[0]!.n;
  } catch (thrown) {
    await client.query("rollback");
    if (thrown instanceof pg.DatabaseError && thrown.code === "42501") {
      return "denied";
    }
    throw thrown;
  } finally {
    client.release();
  }
}

proves("INV-18", {
  title: "on one pooled connection, no table shows a request the rows of another tenant, or of the one before it",
  sabotages: ["setting_survives", "policy_is_not_forced", "empty_tenant_matches"],
  timeoutMs: 60_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    const process = await own.process();
    await fill(own, process, "a");
    await fill(own, process, "b");
    const tables = await tenantTables(own);
    switch (sabotage) {
      case "policy_is_not_forced":
        await own.rows("alter table signalbox.message disable row level security");
        break;
      case "empty_tenant_matches":
        await own.rows(
          "alter policy own_tenant on signalbox.agent using (tenant_id = coalesce(current_setting('signalbox.tenant', true), '') or true)",
        );
        break;
      case "setting_survives":
      case null:
        break;
    }
    await using pools = new StorePools(own.database.config, { connectionCount: 1 });
    for (const table of tables) {
      const all = await own.one<{ n: number }>(`select count(*)::integer as n from signalbox.${table}`);
      expect(all.n, `${table} has rows of both tenants`).toBeGreaterThan(1);
      const a = await visible(pools.app, table, "a");
      if (a === "denied") {
        continue;
      }
      const mine = await own.one<{ n: number }>(
        `select count(*)::integer as n from signalbox.${table} where tenant_id = 'a'`,
      );
      expect(a, `INV-18: ${table} as tenant a`).toBe(mine.n);
      // A request that fails after it named its tenant gives the connection back, too.
      const client = await pools.app.connect();
      await client.query("begin");
      await client.query("select set_config('signalbox.tenant', 'a', $1)", [sabotage !== "setting_survives"]);
      if (sabotage === "setting_survives") {
        await client.query("commit");
      } else {
        await client.query("select 1 / 0").catch(() => undefined);
        await client.query("rollback");
      }
      client.release();
      expect(await visible(pools.app, table, null), `INV-18: ${table} without a tenant`).toBe(0);
      expect(await visible(pools.app, table, ""), `INV-18: ${table} with an empty tenant`).toBe(0);
      expect(await visible(pools.app, table, "c"), `INV-18: ${table} as a stranger`).toBe(0);
    }
  },
});

it("a request writes into its own tenant only, and never into the audit of what was", async () => {
  const app = await world.session("signalbox_app");
  const place = await world.conversation({ tenantId: "one" });
  const attempts = [
    "insert into signalbox.agent (id, tenant_id, name, revision) values ('agt_x', 'two', 'x', 1)",
    "update signalbox.conversation set tenant_id = 'two'",
    "insert into signalbox.agent (id, tenant_id, name, revision) values ('agt_y', '', 'y', 1)",
    "delete from signalbox.event",
    "update signalbox.event set data = '{}'",
    "update signalbox.audit_pending set action = 'x'",
    "delete from signalbox.audit_pending",
    "select signalbox.release($1, 1)",
  ];
  for (const statement of attempts) {
    await app.query("begin");
    await app.query("select set_config('signalbox.tenant', 'one', true)");
    const values = statement.includes("$1") ? [place.conversationId] : [];
    const refused = await app.query(statement, values).then(
      ({ rows }) => (rows[0]?.release?.code as string | undefined) ?? "done",
      (thrown: pg.DatabaseError) => thrown.code,
    );
    await app.query("rollback");
    expect(refused, `refused: ${statement}`).toMatch(/^(42501|23514|stale_generation)$/);
  }
});

it("a connection of the pool acts as its role, not as the user who logged in", async () => {
  const process = await world.process({ registered: false });
  for (const [pool, role] of [
    [process.pools.app, "signalbox_app"],
    [process.pools.run, "signalbox_run"],
  ] as const) {
    const { rows } = await pool.query("select current_user as role, session_user as login");
    expect(rows).toEqual([{ role, login: "postgres" }]);
  }
});

it("the run side cannot admit: it has no right to", async () => {
  const place = await world.conversation();
  const process = await world.process();
  const run = await world.session();
  await expect(run.query("insert into signalbox.run select * from signalbox.run where false")).rejects.toMatchObject({
    code: "42501",
  });
  expect((await process.admission.admit(commandFor(place))).kind).toBe("admitted");
});
