/** What people, gates and whoever tidies up do with conversations, as a storm of it is made of. */
import { WEBHOOK_EVENTS, type HoldId, type RunId, type ToolCallId } from "@signalbox/contract";
import { callVerdict, LIMITS, type Ownership, type Proposal } from "@signalbox/core";
import { createDeliveryRecord } from "../../../packages/server/src/channels/truth/delivery-record.ts";
import { createUpkeepRecord } from "../../../packages/server/src/channels/truth/upkeep-record.ts";
import { actorText } from "../../../packages/server/src/store/actor-text.ts";
import { WebhookQueries } from "../../../packages/server/src/store/queries/webhook-queries.ts";
import {
  ACTOR,
  codeOf,
  commandFor,
  finishRun,
  newId,
  proposalOf,
  textEvent,
  TURN,
  type ConversationPlace,
} from "./record-parts.ts";
import type { Bound, RecordProcess } from "./record-world.ts";

const TENANT = "default";
const WEBHOOK_KEY = "the key of the storm";

/** Answers a number below `count`. */
export type Choose = (count: number) => number;
export type Act = (by: RecordProcess, place: ConversationPlace) => Promise<unknown>;

/** A run that waits needs nobody; one that does not is over. */
async function left(ownership: Ownership, what: () => Promise<unknown>): Promise<void> {
  const code = await codeOf(what());
  if ((await ownership.suspend()) === "suspended") return;
  const cancelled = { outcome: "cancelled", reason: "user_cancel", answer: null } as const;
  await finishRun(ownership, code === "run_cancelled" ? cancelled : {});
}

/** What a run asks a person by itself. */
async function suspended(by: RecordProcess): Promise<void> {
  for (const ownership of await by.claim("scripted", 3)) {
    const hold = { holdId: newId("hold"), kind: "approval", subject: {}, digest: null, expiresInMs: null } as const;
    await left(ownership, async () => {
      const { tokenHash } = await by.bind(ownership);
      await Promise.all([
        ownership.append([textEvent("so far")], TURN),
        by.gates.openHold({ tokenHash, process: by.incarnation, ...hold }),
      ]);
    });
  }
}

interface Pending {
  readonly toolUseId: string;
  readonly name: string;
  readonly argumentsDigest: string;
}

/** Runs that go on: what was decided is made, and of some of it nobody learns the outcome; then two more are asked about. */
async function calling(by: RecordProcess, choose: Choose): Promise<void> {
  for (const ownership of await by.claim("scripted", 2)) {
    await left(ownership, async () => {
      const bound = await by.bind(ownership);
      const { rows } = await by.pools.run.query<Pending>(
        `select tool_use_id as "toolUseId", name, arguments_digest as "argumentsDigest" from signalbox.tool_call
         where run_id = $1 and state in ('proposed', 'awaiting_approval', 'authorized')`,
        [ownership.claim.runId],
      );
      await Promise.all(rows.map((call) => made(by, { bound, call }, choose)));
      const calls = choose(2) === 0 ? [asked("allow")] : [asked("allow"), asked("ask"), asked("ask")];
      await by.propose(bound, calls);
      await Promise.all(calls.map((call) => made(by, { bound, call }, choose)));
    });
  }
}

async function made(
  by: RecordProcess,
  { bound, call }: { readonly bound: Bound; readonly call: Pending },
  choose: Choose,
): Promise<void> {
  const { tokenHash } = bound;
  const { toolUseId, name, argumentsDigest } = call;
  const policyVersion = choose(2) === 0 ? "p" : "another";
  const intent = { tokenHash, process: by.incarnation, toolUseId, name, argumentsDigest, policyVersion };
  const grant = await by.gates.openToolCall(intent).catch(() => null);
  if (grant?.kind === "judge") {
    const { modelCallId, calls } = grant;
    const said = callVerdict({ verdict: choose(4) === 0 ? "deny" : "ask", reason: "By another policy." });
    const verdicts = calls.map(({ toolCallId }) => ({ ...said, toolCallId, callDigest: "d" }));
    const record = { tokenHash, process: by.incarnation, modelCallId, policyVersion, verdicts };
    await by.gates.recordVerdicts({ ...record, verdicts: verdicts.map((each) => ({ ...each, policyVersion })) });
  } else if (grant?.kind === "execute") {
    const state = choose(2) === 0 ? "unknown" : "succeeded";
    const outcome = { state, errorCode: null, resultJson: '{"content":[]}', resultSummary: "" } as const;
    await by.gates.settleToolCall({ toolCallId: grant.toolCallId, ...outcome });
  }
}

function asked(verdict: "ask" | "allow"): Proposal {
  const judged = { ...callVerdict({ verdict, reason: "" }), callDigest: "d", policyVersion: "p" };
  const call = { name: "bank__pay", server: "bank", tool: "pay", effect: "irreversible", callDigest: "d" } as const;
  return proposalOf({ ...call, judged });
}

async function decided(by: RecordProcess, { conversationId }: ConversationPlace, choose: Choose): Promise<void> {
  const { rows } = await by.pools.run.query<{ id: HoldId; digest: string | null }>(
    "select id, digest from signalbox.hold where conversation_id = $1 and state = 'open' limit 2",
    [conversationId],
  );
  const decision = choose(3) === 0 ? "reject" : "approve";
  const command = { tenantId: TENANT, actor: ACTOR, decision, response: {} } as const;
  for (const { id, digest } of rows) await by.operators.decide({ ...command, holdId: id, digest });
}

async function reconciled(by: RecordProcess, { conversationId }: ConversationPlace): Promise<void> {
  const { rows } = await by.pools.run.query<{ id: ToolCallId }>(
    "select id from signalbox.tool_call where conversation_id = $1 and state = 'unknown' limit 1",
    [conversationId],
  );
  const found = { outcome: "not_executed", resultJson: null, note: "Looked." } as const;
  if (rows[0] !== undefined) {
    await by.operators.reconcile({ tenantId: TENANT, actor: ACTOR, toolCallId: rows[0].id, ...found });
  }
}

/** What is owed is told, or is not; webhooks come and go meanwhile. */
async function delivered(by: RecordProcess, choose: Choose): Promise<void> {
  const record = createDeliveryRecord({
    database: by.pools.run,
    keyId: WEBHOOK_KEY,
    failingMs: LIMITS.webhookFailingMs,
  });
  const { due } = await record.begin({ busy: [], limit: 8, each: 4, patienceMs: 60_000 });
  const nothing = { durationMs: 1, status: 500, errorCode: "http_status", response: null } as const;
  await Promise.all(
    due.map(({ deliveryId, number }) => {
      const verdict = (["delivered", "failed", "gone"] as const)[choose(3)]!;
      return record.settle({ ...nothing, deliveryId, number, verdict, retryMs: verdict === "failed" ? 0 : null });
    }),
  );
}

async function webhooksChanged(by: RecordProcess, choose: Choose): Promise<void> {
  const webhooks = new WebhookQueries(by.tenants);
  const { items } = await webhooks.list(TENANT, { limit: 10, order: "asc", cursor: null });
  const [first] = items;
  if (first === undefined || choose(3) === 0) {
    await webhooks.create({
      tenantId: TENANT,
      webhookId: newId("webhook"),
      actor: ACTOR,
      url: "https://example.com/hooks",
      description: "",
      events: [...WEBHOOK_EVENTS],
      disabled: false,
      secret: Buffer.from("sealed"),
      secretKey: WEBHOOK_KEY,
      countMax: 1_000,
    });
  } else {
    const command = { tenantId: TENANT, webhookId: first.webhookId, actor: ACTOR };
    await (choose(2) === 0 ? webhooks.remove(command) : webhooks.change({ ...command, disabled: false }));
  }
}

async function cancelled(by: RecordProcess, { conversationId }: ConversationPlace): Promise<void> {
  const { rows } = await by.pools.run.query<{ id: RunId }>(
    "select id from signalbox.run where conversation_id = $1 and finished_at is null order by position limit 1",
    [conversationId],
  );
  if (rows[0] !== undefined) await by.admission.requestCancel({ tenantId: TENANT, runId: rows[0].id, actor: ACTOR });
}

async function paused(by: RecordProcess, place: ConversationPlace): Promise<void> {
  const stop = { stopId: newId("stop"), kind: "pause", scope: "conversation", reason: null } as const;
  const command = { tenantId: TENANT, actor: ACTOR, subject: place.conversationId, ...stop };
  const { stopId } = await by.operators.createStop(command);
  await by.operators.carryOut(20);
  await by.operators.liftStop({ tenantId: TENANT, actor: ACTOR, stopId });
  await by.operators.carryOut(20);
}

/** Each a transaction of its own, as the upkeep asks for them. */
async function tidied(by: RecordProcess): Promise<void> {
  await by.pools.run.query("select signalbox.expire_events(0, 100)");
  await by.pools.run.query("select signalbox.erase_deleted(100)");
  await createUpkeepRecord(by.pools.run).pruneDeliveries({ ageMs: 60_000, limit: 100 });
}

async function deleted(by: RecordProcess, place: ConversationPlace): Promise<void> {
  const values = [TENANT, place.conversationId, actorText(ACTOR)];
  await by.pools.run.query("select signalbox.delete_conversation($1, null, $2, $3)", values);
}

export function acts(choose: Choose): readonly Act[] {
  const send =
    (whenBusy: "enqueue" | "interrupt" | "rollback"): Act =>
    (by, place) =>
      by.admission.admit(commandFor(place, { whenBusy }));
  return [
    send("enqueue"),
    send("interrupt"),
    send("rollback"),
    (by) => suspended(by),
    (by) => calling(by, choose),
    (by) => calling(by, choose),
    (by) => calling(by, choose),
    cancelled,
    paused,
    (by, place) => decided(by, place, choose),
    (by, place) => decided(by, place, choose),
    (by, place) => decided(by, place, choose),
    reconciled,
    (by) => delivered(by, choose),
    // Two that remove the same one: not found, and no matter of the conversation.
    (by) => codeOf(webhooksChanged(by, choose)),
    tidied,
    (by, place) => (choose(8) === 0 ? deleted(by, place) : reconciled(by, place)),
  ];
}
