import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { proves } from "../../setup/proves.ts";
import { ACTOR, codeOf, commandFor, finishRun, startedRun, type ConversationPlace } from "./record-parts.ts";
import { RecordWorld, until, type RecordProcess } from "./record-world.ts";

let world: RecordWorld;
let process: RecordProcess;

beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function runsOf(place: ConversationPlace) {
  return world.rows<{ id: string; state: string; position: number }>(
    "select id, state, position from signalbox.run where conversation_id = $1 order by position",
    [place.conversationId],
  );
}

it("records message, run, snapshot, events and audit in one step and claims it for this process", async () => {
  const place = await world.conversation();
  const command = commandFor(place, { claimFor: process.incarnation, text: "What is new?" });
  const admission = await process.admission.admit(command);
  expect(admission).toMatchObject({ kind: "admitted", accepted: "started", position: 0, cursor: 0 });
  expect(admission.claim).toMatchObject({
    runId: command.runId,
    generation: 1,
    attempt: 1,
    cause: "ready",
    text: "What is new?",
    snapshot: command.snapshot,
    lastUserMessageAgeMs: null,
    lastUserSnippet: null,
    leaf: null,
    hasHistory: false,
    missed: [],
    cancelRequested: false,
    visibleItems: [],
    outcomeUnknown: false,
    sealed: null,
  });
  const events = await world.rows("select sequence, type from signalbox.event where conversation_id = $1 order by 1", [
    place.conversationId,
  ]);
  expect(events).toEqual([
    { sequence: 1, type: "run.admitted" },
    { sequence: 2, type: "run.started" },
  ]);
  const audited = await world.rows("select action from signalbox.audit_pending where run_id = $1 order by id", [
    command.runId,
  ]);
  expect(audited.map((row) => row["action"])).toEqual(["message_received", "run_admitted", "run_started"]);
});

it("waits behind the active run, in order, and refuses what does not fit", async () => {
  const place = await world.conversation();
  await startedRun(process, place);
  const second = await process.admission.admit(commandFor(place, { queueLimit: 2 }));
  const third = await process.admission.admit(commandFor(place, { queueLimit: 2 }));
  expect([second, third].map(({ accepted, position }) => [accepted, position])).toEqual([
    ["queued", 1],
    ["queued", 2],
  ]);
  expect(await codeOf(process.admission.admit(commandFor(place, { queueLimit: 2 })))).toBe("queue_full");
  const active = (await runsOf(place))[0]?.id;
  await expect(process.admission.admit(commandFor(place, { whenBusy: "reject" }))).rejects.toMatchObject({
    code: "conversation_busy",
    extra: { activeRunId: active },
  });
});

it("knows the previous message of the person and that there is a history", async () => {
  const place = await world.conversation();
  const first = await startedRun(process, place, { text: "first question" });
  await finishRun(first.ownership);
  const second = await startedRun(process, place, { text: "second question" });
  expect(second.ownership.claim).toMatchObject({ lastUserSnippet: "first question", hasHistory: true });
  expect(second.ownership.claim.lastUserMessageAgeMs).toBeGreaterThanOrEqual(0);
  expect(await second.ownership.history(10)).toEqual([
    { role: "user", text: "first question", calls: [] },
    { role: "assistant", text: "an answer", calls: [] },
  ]);
});

it("does not claim for a process that was declared dead", async () => {
  const place = await world.conversation();
  const dead = await world.process();
  await world.rows("update signalbox.process set dead_at = signalbox.clock() where incarnation = $1", [
    dead.incarnation,
  ]);
  const admission = await dead.admission.admit(commandFor(place, { claimFor: dead.incarnation }));
  expect(admission).toMatchObject({ accepted: "started", claim: null });
  const [claimed] = await process.claim();
  expect(claimed?.claim.runId).toBe(admission.runId);
});

it("sends a snapshot again that the record has lost", async () => {
  const place = await world.conversation();
  await startedRun(process, place);
  await world.rows("delete from signalbox.snapshot where tenant_id = $1", [place.tenantId]);
  const queued = await process.admission.admit(commandFor(place));
  expect(queued.accepted).toBe("queued");
  expect(await world.rows("select from signalbox.snapshot where tenant_id = $1", [place.tenantId])).toHaveLength(1);
});

it("keeps a conversation of a user to that user", async () => {
  const place = await world.conversation({ user: "u_1" });
  const as = (user: string | null) => commandFor(place, { actor: { ...ACTOR, user } });
  expect(await codeOf(process.admission.admit(as("u_2")))).toBe("not_found");
  const admission = await process.admission.admit(as("u_1"));
  const cancel = (user: string | null, tenantId = place.tenantId) =>
    process.admission.requestCancel({ tenantId, runId: admission.runId, actor: { ...ACTOR, user } });
  expect(await codeOf(cancel("u_2"))).toBe("not_found");
  expect(await codeOf(cancel(null, "other"))).toBe("not_found");
  expect(await cancel(null)).toEqual({ kind: "ended", state: "cancelled" });
});

it("ends a queued run directly and moves up those behind it", async () => {
  const place = await world.conversation();
  await startedRun(process, place);
  const second = await process.admission.admit(commandFor(place));
  const third = await process.admission.admit(commandFor(place));
  const cancel = () => process.admission.requestCancel({ tenantId: place.tenantId, runId: second.runId, actor: ACTOR });
  expect(await cancel()).toEqual({ kind: "ended", state: "cancelled" });
  expect(await cancel()).toEqual({ kind: "already_ended", state: "cancelled" });
  const moved = await world.rows<{ data: string; revision: number }>(
    "select data, revision from signalbox.event where conversation_id = $1 and item_id = $2 order by sequence",
    [place.conversationId, third.messageId],
  );
  expect(moved.map((row) => JSON.parse(row.data))).toEqual([
    { messageId: third.messageId, position: 2 },
    { messageId: third.messageId, position: 1 },
  ]);
  expect(moved[1]!.revision).toBeGreaterThan(moved[0]!.revision);
});

it("admits the next message when an admitted run is cancelled before anybody owned it", async () => {
  const place = await world.conversation({ runtime: "elsewhere" });
  const first = await process.admission.admit(commandFor(place));
  const second = await process.admission.admit(commandFor(place));
  const { tenantId } = place;
  await process.admission.requestCancel({ tenantId, runId: first.runId, actor: ACTOR });
  expect((await process.claimOne("elsewhere")).claim.runId).toBe(second.runId);
});

proves("INV-03", {
  title: "ten parallel posts with one key make one run, and another body is refused",
  sabotages: ["key_is_forgotten"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "key_is_forgotten") {
      await own.sabotage("admit_message", "if p_key is not null then", "if false then");
    }
    const place = await own.conversation();
    const replicas = [await own.process(), await own.process()];
    const idempotency = { key: randomUUID(), bodyHash: "a" };
    const posts = Array.from({ length: 10 }, (_, index) =>
      replicas[index % 2]!.admission.admit(commandFor(place, { idempotency })),
    );
    const answers = (await Promise.allSettled(posts)).flatMap((post) =>
      post.status === "fulfilled" ? [post.value] : [],
    );
    expect(new Set(answers.map((answer) => answer.runId)).size, "INV-03: one key, one run").toBe(1);
    expect(answers.filter((answer) => answer.kind === "replayed")).toHaveLength(9);
    const other = commandFor(place, { idempotency: { ...idempotency, bodyHash: "b" } });
    expect(await codeOf(replicas[0]!.admission.admit(other))).toBe("idempotency_key_reused");
    const elsewhere = await own.conversation({ tenantId: "other" });
    const foreign = await replicas[1]!.admission.admit(commandFor(elsewhere, { idempotency }));
    expect(foreign.kind, "another tenant's key is another key").toBe("admitted");
  },
});

it("a key used in two conversations at once belongs to the first", async () => {
  const places = [await world.conversation(), await world.conversation()];
  const idempotency = { key: randomUUID(), bodyHash: "a" };
  const codes = await Promise.all(
    places.map((place) => codeOf(process.admission.admit(commandFor(place, { idempotency })))),
  );
  expect(codes.toSorted()).toEqual(["accepted", "idempotency_key_reused"]);
});

proves("INV-04", {
  title: "two messages admitted at once are answered in the order they were acknowledged",
  sabotages: ["last_in_first_out"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    const place = await own.conversation();
    const owner = await own.process();
    const { ownership } = await startedRun(owner, place);
    const slow = await own.session("signalbox_app");
    if (sabotage === "last_in_first_out") {
      await own.sabotage("hand_over", "order by r.position limit 1", "order by r.position desc limit 1");
    }
    await slow.query("begin");
    await slow.query("select set_config('signalbox.tenant', $1, true)", [place.tenantId]);
    await slow.query("select from signalbox.ownership where conversation_id = $1 for update", [place.conversationId]);
    const [earlier, later] = [commandFor(place, { text: "earlier" }), commandFor(place, { text: "later" })];
    const acknowledged: string[] = [];
    const waiting = [earlier, later].map((command) =>
      owner.admission.admit(command).then((answer) => acknowledged.push(answer.runId)),
    );
    await own.untilBlockedBy(slow);
    await slow.query("commit");
    await Promise.all(waiting);
    const answered: string[] = [];
    let current = ownership;
    while (answered.length < 2) {
      answered.push((await finishRun(current))!);
      current = await owner.claimOne();
    }
    expect(answered, "INV-04: order of acknowledgement").toEqual(acknowledged);
  },
});

proves("INV-01", {
  title: "admissions, claims and cancels at once never make two runs of a conversation active",
  sabotages: ["admitted_without_asking"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "admitted_without_asking") {
      await own.superuser.query("drop index signalbox.run_one_active");
      await own.sabotage("admit_message", "when v_before = 0", "when true");
    }
    const place = await own.conversation();
    const [left, right] = [await own.process(), await own.process()];
    const admissions = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        (index % 2 === 0 ? left : right).admission.admit(
          commandFor(place, { claimFor: index % 3 === 0 ? left.incarnation : null }),
        ),
      ),
    );
    expect(admissions.filter((each) => each.accepted === "started")).toHaveLength(1);
    await Promise.all([
      left.claim(),
      right.claim(),
      ...admissions
        .slice(1, 4)
        .map(({ runId }) => right.admission.requestCancel({ tenantId: place.tenantId, runId, actor: ACTOR })),
    ]);
    const active = await own.rows(
      "select from signalbox.run where state in ('admitted', 'running', 'suspended', 'finalizing')",
    );
    expect(active.length, "INV-01: one active run").toBeLessThanOrEqual(1);
  },
});

it("a message in the closing moment of a run is not stranded", async () => {
  const place = await world.conversation();
  const { ownership } = await startedRun(process, place);
  await ownership.seal({
    generation: ownership.claim.generation,
    ending: "done",
    answer: "x",
    stopReason: "end_turn",
    leaf: null,
    servedModel: null,
    rung: null,
    error: null,
  });
  const holder = await world.session();
  await holder.query("begin");
  await holder.query("select from signalbox.ownership where conversation_id = $1 for share", [place.conversationId]);
  const finished = finishRun(ownership);
  const late = process.admission.admit(commandFor(place));
  await world.untilBlockedBy(holder);
  await holder.query("commit");
  const [next, admission] = await Promise.all([finished, late]);
  expect([next, admission.accepted]).toSatisfy(([nextRunId, accepted]: [string | null, string]) =>
    accepted === "queued" ? nextRunId === admission.runId : nextRunId === null,
  );
  await until("the late message can be claimed", async () =>
    (await process.claim()).some(({ claim }) => claim.runId === admission.runId),
  );
});
