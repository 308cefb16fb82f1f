/** What is owed to webhooks: written with the event it tells of, begun by one process at a time, never lost. */
import { LIMITS, type DeliveryRecord } from "@signalbox/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createDeliveryRecord } from "../../../packages/server/src/channels/truth/delivery-record.ts";
import { createUpkeepRecord } from "../../../packages/server/src/channels/truth/upkeep-record.ts";
import { DeliveryQueries } from "../../../packages/server/src/store/queries/delivery-queries.ts";
import { WebhookQueries } from "../../../packages/server/src/store/queries/webhook-queries.ts";
import { proves } from "../../setup/proves.ts";
import { ACTOR, finishRun, newId, proposalOf, startedRun } from "../store/record-parts.ts";
import { RecordWorld, type RecordProcess } from "../store/record-world.ts";

const KEY = "the key of these tests";
const DAY_MS = 86_400_000;

let world: RecordWorld;
let process: RecordProcess;
beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

interface Owed {
  readonly id: string;
  readonly webhook_id: string;
  readonly type: string;
  readonly state: string;
  readonly payload: string;
  readonly sequence: number;
}

async function webhook(
  options: { readonly tenantId?: string; readonly events?: readonly string[]; readonly disabled?: boolean } = {},
  own: RecordProcess = process,
): Promise<string> {
  const webhookId = newId("webhook");
  const { tenantId = newTenant(), events = ["run.finished"], disabled = false } = options;
  await new WebhookQueries(own.tenants).create({
    tenantId,
    webhookId,
    actor: ACTOR,
    url: "https://example.com/hooks",
    description: "",
    events,
    disabled,
    secret: Buffer.from("sealed"),
    secretKey: KEY,
    countMax: 10,
  });
  return webhookId;
}

let tenantCount = 0;
function newTenant(): string {
  tenantCount += 1;
  return `tenant-${tenantCount}`;
}

const owedTo = (webhookId: string, own: RecordWorld = world) =>
  own.rows<Owed>("select * from signalbox.webhook_delivery where webhook_id = $1 order by id", [webhookId]);

function recordOf(own: RecordProcess, keyId: string = KEY): DeliveryRecord {
  return createDeliveryRecord({ database: own.pools.run, keyId, failingMs: LIMITS.webhookFailingMs });
}

const due = (record: DeliveryRecord, query: { readonly busy?: readonly string[]; readonly limit?: number } = {}) =>
  record.begin({ busy: [], limit: 100, each: 8, patienceMs: 60_000, ...query });

/** One delivery that is owed and nothing else. */
async function oneOwed(tenantId = newTenant(), own: RecordProcess = process): Promise<Owed> {
  const webhookId = await webhook({ tenantId }, own);
  const place = await world.conversation({ tenantId });
  await finishRun((await startedRun(own, place)).ownership);
  const [owed, ...rest] = await owedTo(webhookId);
  expect(rest).toEqual([]);
  return owed ?? expect.unreachable("nothing is owed");
}

const FAILED = { verdict: "failed", durationMs: 7, status: 500, errorCode: "http_status", response: "no" } as const;

proves("INV-13", {
  title: "what a webhook is to be told is owed from the very transaction in which it happened",
  sabotages: ["owed_after_the_commit"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "owed_after_the_commit") {
      await own.sabotage("write_event", "signalbox.owe_deliveries", "pg_typeof");
    }
    const one = await own.process();
    const webhookId = await webhook({ tenantId: "default" }, one);
    const place = await own.conversation();
    await finishRun((await startedRun(one, place)).ownership);
    const owed = await own.rows<{ same: boolean; payload: string; sequence: number }>(
      `select e.xmin = d.xmin as same, d.payload, d.sequence
       from signalbox.event e
       left join signalbox.webhook_delivery d on d.conversation_id = e.conversation_id and d.sequence = e.sequence
         and d.webhook_id = $1
       where e.type = 'run.finished'`,
      [webhookId],
    );
    expect(
      owed.map(({ same }) => same),
      "INV-13: an intent in the same transaction",
    ).toEqual([true]);
    const { data, ...rest } = JSON.parse(owed[0]!.payload);
    expect(rest).toMatchObject({ type: "run.finished", id: expect.stringMatching(/^dlv_[0-9a-f]{32}$/) });
    expect(data).toMatchObject({
      type: "run.finished",
      conversationId: place.conversationId,
      sequence: owed[0]!.sequence,
      outcome: "completed",
      reason: "answered",
    });
  },
});

it("is owed to those of the tenant who asked for it, and to nobody else", async () => {
  const tenantId = newTenant();
  const wants = await webhook({ tenantId, events: ["run.finished", "hold.opened"] });
  const wantsToo = await webhook({ tenantId });
  const wantsOther = await webhook({ tenantId, events: ["hold.decided"] });
  const disabled = await webhook({ tenantId, disabled: true });
  const foreign = await webhook({ tenantId: newTenant(), events: ["run.finished", "hold.opened"] });
  const place = await world.conversation({ tenantId });
  const { ownership } = await startedRun(process, place);
  const { tokenHash } = await process.bind(ownership);
  await process.gates.openHold({
    tokenHash,
    process: process.incarnation,
    holdId: newId("hold"),
    kind: "input",
    subject: { question: 'a "quoted" \u0001 \\u0000 é 😀', nothing: {} },
    digest: null,
    expiresInMs: null,
  });
  await ownership.suspend();
  await process.admission.requestCancel({
    tenantId,
    runId: (
      await world.one<{ id: string }>("select id from signalbox.run where conversation_id = $1", [place.conversationId])
    ).id as never,
    actor: ACTOR,
  });
  expect((await owedTo(wants)).map(({ type }) => type)).toEqual(["hold.opened", "run.finished"]);
  expect((await owedTo(wantsToo)).map(({ type }) => type)).toEqual(["run.finished"]);
  for (const id of [wantsOther, disabled, foreign]) expect(await owedTo(id)).toEqual([]);
  const opened = JSON.parse((await owedTo(wants))[0]!.payload);
  expect(opened.data.subject).toEqual({ question: 'a "quoted" \u0001 \\u0000 é 😀', nothing: {} });
});

it("tells of calls whose outcome is not known, and of no others", async () => {
  const tenantId = newTenant();
  const webhookId = await webhook({ tenantId, events: ["tool.unknown"] });
  const place = await world.conversation({ tenantId });
  const { ownership } = await startedRun(process, place);
  const bound = await process.bind(ownership);
  const calls = [proposalOf({ toolUseId: "tu_1" }), proposalOf({ toolUseId: "tu_2" })];
  await process.propose(bound, calls);
  const [first, second] = [await process.openTool(bound, calls[0]!), await process.openTool(bound, calls[1]!)];
  const settled = { resultJson: "{}", resultSummary: "", errorCode: null };
  await process.gates.settleToolCall({ ...settled, toolCallId: first.toolCallId, state: "succeeded" });
  await process.gates.settleToolCall({ ...settled, toolCallId: second.toolCallId, state: "unknown" });
  const owed = await owedTo(webhookId);
  expect(owed.map(({ type }) => type)).toEqual(["tool.unknown"]);
  expect(JSON.parse(owed[0]!.payload).data).toMatchObject({
    type: "tool.finished",
    state: "unknown",
    toolCallId: second.toolCallId,
  });
  await finishRun(ownership);
});

it("is begun by one process at a time, noted before it is, and begun again when nobody noted what came of it", async () => {
  const owed = await oneOwed();
  const other = await world.process({ registered: false });
  const both = await Promise.all([due(recordOf(process)), due(recordOf(other))]);
  const begun = both.flatMap((each) => each.due.filter(({ deliveryId }) => deliveryId === owed.id));
  expect(begun).toMatchObject([{ number: 1, effort: 1, payload: owed.payload, url: "https://example.com/hooks" }]);
  const attempts = () =>
    world.rows("select number, status from signalbox.webhook_attempt where delivery_id = $1", [owed.id]);
  expect(await attempts()).toEqual([{ number: 1, status: null }]);
  const isDue = async () => (await due(recordOf(other))).due.some(({ deliveryId }) => deliveryId === owed.id);
  expect(await isDue()).toBe(false);
  await world.rows("update signalbox.webhook_delivery set next_at = signalbox.clock() where id = $1", [owed.id]);
  expect(await isDue()).toBe(true);
  // The first one comes back after all: it is noted, and what counts is the second.
  await recordOf(process).settle({ ...FAILED, deliveryId: owed.id, number: 1, retryMs: null });
  expect((await owedTo(owed.webhook_id))[0]).toMatchObject({ state: "pending", attempt_count: 2 });
  await recordOf(other).settle({
    ...FAILED,
    deliveryId: owed.id,
    number: 2,
    verdict: "delivered",
    status: 204,
    errorCode: null,
    retryMs: null,
  });
  expect((await owedTo(owed.webhook_id))[0]).toMatchObject({ state: "delivered", next_at: null });
  expect(await attempts()).toEqual([
    { number: 1, status: 500 },
    { number: 2, status: 204 },
  ]);
});

it("is left to whoever can read the secret, to others than the busy ones, and a few of each webhook at once", async () => {
  const tenantId = newTenant();
  const webhookId = await webhook({ tenantId });
  const place = await world.conversation({ tenantId });
  for (let count = 0; count < 10; count += 1) await finishRun((await startedRun(process, place)).ownership);
  const mine = (found: Awaited<ReturnType<typeof due>>) =>
    found.due.filter((each) => each.webhookId === webhookId).length;
  expect(mine(await due(recordOf(process, "another key")))).toBe(0);
  expect(mine(await due(recordOf(process), { busy: [webhookId] }))).toBe(0);
  await world.rows("update signalbox.webhook set failing_since = signalbox.clock() where id = $1", [webhookId]);
  expect(mine(await due(recordOf(process)))).toBe(1);
  await world.rows("update signalbox.webhook set failing_since = null where id = $1", [webhookId]);
  expect(mine(await due(recordOf(process)))).toBe(8);
  expect(mine(await due(recordOf(process), { limit: 3 }))).toBe(1);
});

it("comes to every webhook, however long the line is before another one", async () => {
  const [busy, quiet] = [newTenant(), newTenant()];
  const busyId = await webhook({ tenantId: busy });
  await world.rows(
    `insert into signalbox.webhook_delivery (id, tenant_id, webhook_id, type, payload, next_at)
     select 'dlv_' || n, $1, $2, 'run.finished', '{}', signalbox.clock() - interval '1 hour' from generate_series(1, 500) n`,
    [busy, busyId],
  );
  const { webhook_id: quietId } = await oneOwed(quiet);
  const begun = (await due(recordOf(process), { limit: 32 })).due.map(({ webhookId }) => webhookId);
  expect(begun).toContain(quietId);
  await world.rows("delete from signalbox.webhook_delivery where webhook_id = $1", [busyId]);
});

it("is tried again later, gives up in the end, and disables what has failed for days, which the audit tells", async () => {
  const owed = await oneOwed();
  const record = recordOf(process);
  await due(record);
  await record.settle({ ...FAILED, deliveryId: owed.id, number: 1, retryMs: 5_000 });
  const state = () =>
    world.one<{ failing: boolean; disabled_cause: string | null }>(
      "select failing_since is not null as failing, disabled_cause from signalbox.webhook where id = $1",
      [owed.webhook_id],
    );
  expect(await state()).toEqual({ failing: true, disabled_cause: null });
  const { wait } = await world.one<{ wait: number }>(
    "select extract(epoch from next_at - signalbox.clock())::float as wait from signalbox.webhook_delivery where id = $1",
    [owed.id],
  );
  expect(wait).toBeGreaterThan(3);
  expect(wait).toBeLessThanOrEqual(5);
  await world.rows(
    `with w as (update signalbox.webhook set failing_since = failing_since - make_interval(secs => $2) where id = $1)
     update signalbox.webhook_delivery set next_at = signalbox.clock() where webhook_id = $1`,
    [owed.webhook_id, (3 * DAY_MS) / 1_000],
  );
  await due(record);
  await record.settle({ ...FAILED, deliveryId: owed.id, number: 2, retryMs: null });
  expect((await owedTo(owed.webhook_id))[0]).toMatchObject({ state: "failed" });
  expect(await state()).toEqual({ failing: true, disabled_cause: "failing" });
  const audited = await world.rows<{ facts: string }>(
    "select convert_from(bytes, 'UTF8')::json ->> 'facts' as facts from signalbox.audit_pending where action = 'webhook_disabled'",
  );
  expect(audited.map(({ facts }) => JSON.parse(facts))).toContainEqual({
    cause: "failing",
    webhookId: owed.webhook_id,
  });
});

it("disables at once what answers that it is gone", async () => {
  const owed = await oneOwed();
  await due(recordOf(process));
  await recordOf(process).settle({
    ...FAILED,
    deliveryId: owed.id,
    number: 1,
    verdict: "gone",
    status: 410,
    retryMs: null,
  });
  expect(await world.one("select disabled_cause from signalbox.webhook where id = $1", [owed.webhook_id])).toEqual({
    disabled_cause: "gone",
  });
});

it("does not count an attempt that a process gave up because it ended", async () => {
  const owed = await oneOwed();
  const record = recordOf(process);
  await due(record);
  const interrupted = { ...FAILED, verdict: "interrupted", status: null, errorCode: "shutting_down" } as const;
  await record.settle({ ...interrupted, deliveryId: owed.id, number: 1, retryMs: 0 });
  const again = (await due(record)).due.find(({ deliveryId }) => deliveryId === owed.id);
  expect(again).toMatchObject({ number: 2, effort: 1 });
});

it("begins anew when it is asked for again, unless it is under way", async () => {
  const owed = await oneOwed();
  const { webhook_id: webhookId, id: deliveryId } = owed;
  const { tenant_id: tenantId } = await world.one<{ tenant_id: string }>(
    "select tenant_id from signalbox.webhook where id = $1",
    [webhookId],
  );
  const record = recordOf(process);
  const queries = new DeliveryQueries(process.tenants);
  await due(record);
  await queries.renew({ tenantId, webhookId, deliveryId });
  expect((await due(record)).due.filter((each) => each.deliveryId === deliveryId)).toEqual([]);
  await record.settle({ ...FAILED, deliveryId, number: 1, retryMs: null });
  expect(await queries.renew({ tenantId, webhookId, deliveryId })).toMatchObject({
    state: "pending",
    finishedAtMs: null,
  });
  expect((await due(record)).due).toMatchObject([{ deliveryId, number: 2, effort: 1, payload: owed.payload }]);
  await expect(queries.renew({ tenantId: newTenant(), webhookId, deliveryId })).rejects.toMatchObject({
    code: "not_found",
  });
});

it("goes on without what was said once the conversation is deleted, and forgets what ended long ago", async () => {
  const tenantId = newTenant();
  const webhookId = await webhook({ tenantId, events: ["hold.opened", "run.finished"] });
  const place = await world.conversation({ tenantId });
  const { ownership } = await startedRun(process, place);
  const { tokenHash } = await process.bind(ownership);
  const hold = {
    holdId: newId("hold"),
    kind: "input",
    subject: { q: "a secret" },
    digest: null,
    expiresInMs: null,
  } as const;
  await process.gates.openHold({ tokenHash, process: process.incarnation, ...hold });
  await finishRun(ownership);
  const [first] = (await due(recordOf(process))).due.filter((each) => each.webhookId === webhookId);
  await recordOf(process).settle({
    ...FAILED,
    deliveryId: first!.deliveryId,
    number: 1,
    response: "a secret",
    retryMs: 0,
  });
  await world.rows("select signalbox.delete_conversation($1, null, $2, $3)", [
    tenantId,
    place.conversationId,
    JSON.stringify(ACTOR),
  ]);
  const upkeep = createUpkeepRecord(process.pools.run);
  while ((await upkeep.eraseDeleted(10)) >= 10);
  const left = await owedTo(webhookId);
  expect(left.map(({ state }) => state)).toEqual(["pending", "pending"]);
  for (const { id, type, payload, sequence } of left) {
    const about = { conversationId: place.conversationId, sequence, erased: true };
    expect(JSON.parse(payload)).toMatchObject({ id, type, data: about });
  }
  const all = await world.rows<{ text: string }>(
    `select payload || coalesce((select string_agg(a.response, '') from signalbox.webhook_attempt a where a.delivery_id = d.id), '')
       as text from signalbox.webhook_delivery d where webhook_id = $1`,
    [webhookId],
  );
  expect(JSON.stringify(all)).not.toContain("secret");

  await world.rows(
    `update signalbox.webhook_delivery set state = 'delivered', next_at = null, finished_at = signalbox.clock() - interval '31 days'
     where id = $1`,
    [left[0]!.id],
  );
  await upkeep.pruneDeliveries({ ageMs: 30 * DAY_MS, limit: 100 });
  expect((await owedTo(webhookId)).map(({ id }) => id)).toEqual([left[1]!.id]);
  await world.rows("delete from signalbox.webhook where id = $1", [webhookId]);
  await upkeep.pruneDeliveries({ ageMs: 30 * DAY_MS, limit: 100 });
  expect(await owedTo(webhookId)).toEqual([]);
});

it("gives up what has been due for so long that nobody will tell it", async () => {
  const tenantId = newTenant();
  const webhookId = await webhook({ tenantId });
  for (let count = 0; count < 2; count += 1) {
    await finishRun((await startedRun(process, await world.conversation({ tenantId }))).ownership);
  }
  const [old, fresh] = await owedTo(webhookId);
  await world.rows(
    "update signalbox.webhook_delivery set next_at = signalbox.clock() - interval '31 days' where id = $1",
    [old!.id],
  );
  await createUpkeepRecord(process.pools.run).pruneDeliveries({ ageMs: 30 * DAY_MS, limit: 100 });
  const states = new Map((await owedTo(webhookId)).map(({ id, state }) => [id, state]));
  expect([states.get(old!.id), states.get(fresh!.id)]).toEqual(["failed", "pending"]);
  const renewed = await new DeliveryQueries(process.tenants).renew({ tenantId, webhookId, deliveryId: old!.id });
  expect(renewed.state).toBe("pending");
});
