/** What operators do, on the real record: pauses and stops at every scope, and commands on one run. */
import type { RunId, StopKind, StopScope } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeptCalls } from "../../../packages/server/src/gates/kept-calls.ts";
import { OperatorQueries } from "../../../packages/server/src/store/queries/operator-queries.ts";
import { systemClock } from "../../../packages/server/src/system/ports.ts";
import { ACTOR, codeOf, commandFor, conclusionOf, finishRun, newId, proposalOf, startedRun } from "./record-parts.ts";
import { RecordWorld, until, type Bound, type RecordProcess } from "./record-world.ts";

let world: RecordWorld;
let process: RecordProcess;

beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

const LIMIT = 200;

async function bound(options: { readonly tenantId?: string } = {}) {
  const place = await world.conversation(options);
  const { admission, ownership } = await startedRun(process, place);
  return { place, runId: admission.runId, ...(await process.bind(ownership)) };
}

interface Put {
  readonly subject: string | null;
  readonly tenantId?: string;
}

async function put(kind: StopKind, scope: StopScope, { subject, tenantId = "default" }: Put) {
  const stopId = newId("stop");
  const stop = await process.operators.createStop({
    tenantId,
    actor: ACTOR,
    stopId,
    kind,
    scope,
    subject,
    reason: "test",
  });
  if (kind === "stop") await process.operators.carryOut(LIMIT);
  return stop;
}

async function lift(stopId: Awaited<ReturnType<typeof put>>["stopId"], tenantId = "default") {
  await process.operators.liftStop({ tenantId, actor: ACTOR, stopId });
  await process.operators.carryOut(LIMIT);
}

const runRow = (runId: string) =>
  world.one<{ state: string; reason: string | null; cancel_cause: string | null }>(
    "select state, reason, cancel_cause from signalbox.run where id = $1",
    [runId],
  );

function keptGate(patienceMs: number) {
  return createKeptCalls({
    record: process.gates,
    subscribe: (conversationId) => process.bus.subscribe(conversationId),
    clock: systemClock,
    patienceMs,
    pollMs: 20,
  });
}

const modelIntent = ({ tokenHash }: Bound) =>
  ({
    tokenHash,
    modelCallId: newId("modelCall"),
    process: process.incarnation,
    wire: "anthropic",
    requestedModel: "sim/echo",
    requestBytes: 400,
    rules: [],
  }) as const;

describe.each(["run", "conversation", "agent", "tenant"] as const)("at the scope %s", (scope) => {
  const tenantId = `t-${scope}`;
  const subjectOf = (of: Awaited<ReturnType<typeof bound>>): string | null =>
    ({ run: of.runId, conversation: of.place.conversationId, agent: of.place.agentId, tenant: null })[scope];

  it("a pause keeps every intent of the run, in one hold, until it is lifted", async () => {
    const run = await bound({ tenantId });
    const other = await bound();
    const stop = await put("pause", scope, { subject: subjectOf(run), tenantId });
    const again = await put("pause", scope, { subject: subjectOf(run), tenantId });
    expect(again).toEqual({ stopId: stop.stopId, created: false });
    expect(await codeOf(process.openModel(run.tokenHash))).toBe("run_suspended");
    expect(await codeOf(process.openModel(run.tokenHash))).toBe("run_suspended");
    const holds = await world.rows("select from signalbox.hold where run_id = $1 and state = 'open'", [run.runId]);
    expect(holds).toHaveLength(1);
    await expect(process.openModel(other.tokenHash)).resolves.toBeDefined();
    await lift(stop.stopId, tenantId);
    await expect(process.openModel(run.tokenHash)).resolves.toBeDefined();
  });

  it("a stop ends what runs and what waits, refuses what would begin, and can be lifted", async () => {
    const run = await bound({ tenantId });
    const queued = await process.admission.admit(commandFor(run.place));
    const stop = await put("stop", scope, { subject: subjectOf(run), tenantId });
    expect(await codeOf(process.openModel(run.tokenHash))).toBe("run_cancelled");
    expect(await runRow(run.runId)).toMatchObject({ state: "running", cancel_cause: "operator_stop" });
    const covered = scope !== "run";
    expect((await runRow(queued.runId)).state).toBe(covered ? "cancelled" : "queued");
    if (covered) {
      expect((await runRow(queued.runId)).reason).toBe("operator_stop");
      expect(await codeOf(process.admission.admit(commandFor(run.place)))).toBe("operator_stopped");
    }
    await lift(stop.stopId, tenantId);
    await expect(process.admission.admit(commandFor(run.place))).resolves.toMatchObject({ kind: "admitted" });
    await expect(process.admission.admit(commandFor((await bound()).place))).resolves.toBeDefined();
  });
});

describe("a call that is kept at its gate", () => {
  it("goes on at once when the pause is lifted", async () => {
    const run = await bound();
    using kept = keptGate(20_000);
    const { stopId } = await put("pause", "run", { subject: run.runId });
    const opening = kept.record.openModelCall(modelIntent(run));
    await until(
      "it waits",
      async () =>
        (await world.rows("select from signalbox.hold where run_id = $1 and state = 'open'", [run.runId])).length === 1,
    );
    await lift(stopId);
    await expect(opening).resolves.toMatchObject({ run: { runId: run.runId } });
    expect((await runRow(run.runId)).state).toBe("running");
  });

  it("ends when patience does: the run is suspended, and goes on when the pause is lifted", async () => {
    const run = await bound();
    using kept = keptGate(50);
    const { stopId } = await put("pause", "run", { subject: run.runId });
    expect(await codeOf(kept.record.openModelCall(modelIntent(run)))).toBe("run_suspended");
    expect((await runRow(run.runId)).state).toBe("suspended");
    await lift(stopId);
    expect((await runRow(run.runId)).state).toBe("admitted");
    await finishRun(await process.claimOne());
  });

  it("hears of a cancel", async () => {
    const run = await bound();
    using kept = keptGate(20_000);
    await put("pause", "run", { subject: run.runId });
    const opening = codeOf(kept.record.openModelCall(modelIntent(run)));
    await process.admission.requestCancel({ tenantId: "default", runId: run.runId, actor: ACTOR });
    expect(await opening).toBe("run_cancelled");
  });

  it("is let go when its gate leaves", async () => {
    const run = await bound();
    const kept = keptGate(20_000);
    await put("pause", "run", { subject: run.runId });
    const opening = codeOf(kept.record.openModelCall(modelIntent(run)));
    kept[Symbol.dispose]();
    expect(await opening).toBe("shutting_down");
  });

  it("a pause that is lifted while another stands keeps the run", async () => {
    const run = await bound();
    const wide = await put("pause", "conversation", { subject: run.place.conversationId });
    const narrow = await put("pause", "run", { subject: run.runId });
    await codeOf(process.openModel(run.tokenHash));
    await lift(narrow.stopId);
    expect(await codeOf(process.openModel(run.tokenHash))).toBe("run_suspended");
    await lift(wide.stopId);
    await expect(process.openModel(run.tokenHash)).resolves.toBeDefined();
  });
});

describe("a stop whose process died before it was carried out", () => {
  it("is carried out by the sweep of another one", async () => {
    const run = await bound();
    const stopId = newId("stop");
    const stop = { kind: "stop", scope: "run", subject: run.runId, reason: null } as const;
    await process.operators.createStop({ tenantId: "default", actor: ACTOR, stopId, ...stop });
    expect(await codeOf(process.openModel(run.tokenHash))).toBe("run_stopped");
    await process.processes.sweep(process.incarnation);
    expect(await codeOf(process.openModel(run.tokenHash))).toBe("run_cancelled");
  });
});

describe("what stands and cannot be carried out", () => {
  it("is logged and keeps nothing else from being carried out", async () => {
    await using own = await RecordWorld.open();
    const supervisor = await own.process();
    const runs: RunId[] = [];
    for (let count = 0; count < 3; count += 1) {
      const { admission } = await startedRun(supervisor, await own.conversation());
      runs.push(admission.runId);
      const stop = { kind: "stop", scope: "run", subject: admission.runId, reason: null } as const;
      await supervisor.operators.createStop({ tenantId: "default", actor: ACTOR, stopId: newId("stop"), ...stop });
    }
    const breaks = `if p_run = '${runs[1]}' then raise exception 'broken'; end if; v_stop := signalbox.stop_over`;
    await own.sabotage("stop_run", "v_stop := signalbox.stop_over", breaks);
    expect(await supervisor.operators.carryOut(LIMIT)).toBe(2);
    await supervisor.processes.sweep(supervisor.incarnation);
    const marked = await own.rows<{ id: string }>("select id from signalbox.run where cancel_cause = 'operator_stop'");
    expect(marked.map(({ id }) => id).sort()).toEqual([runs[0]!, runs[2]!].sort());
  });
});

describe("a run whose message was taken in", () => {
  async function takenIn() {
    const run = await bound();
    const merged = await process.admission.admit(commandFor(run.place, { whenBusy: "steer" }));
    expect(merged.accepted).toBe("steered");
    await run.ownership.takeIn(merged.messageId);
    return { ...run, merged };
  }

  it("is not ended by a stop of its own, nor looked at again and again", async () => {
    const { merged, ownership } = await takenIn();
    const { stopId } = await put("stop", "run", { subject: merged.runId });
    expect(await process.operators.carryOut(LIMIT)).toBe(0);
    expect(await runRow(merged.runId)).toMatchObject({ state: "queued", cancel_cause: null });
    await lift(stopId);
    await finishRun(ownership);
    expect(await runRow(merged.runId)).toMatchObject({ state: "completed", reason: "merged" });
  });

  it("stands in no line, and cannot be failed", async () => {
    const { place, merged, ownership } = await takenIn();
    const later = await process.admission.admit(commandFor(place));
    const queries = new OperatorQueries(process.tenants);
    const placeOf = async (runId: string) =>
      (await queries.explained({ tenantId: "default", user: null }, runId))?.queuePlace;
    expect(await placeOf(merged.runId)).toBeNull();
    expect(await placeOf(later.runId)).toBe(1);
    const failing = { tenantId: "default", actor: ACTOR, runId: merged.runId, force: true };
    expect(await codeOf(process.operators.fail(failing))).toBe("command_refused");
    expect((await runRow(merged.runId)).state).toBe("queued");
    await finishRun(ownership);
    await finishRun(await process.claimOne());
  });
});

describe("commands on one run", () => {
  const command = (runId: RunId) => ({ tenantId: "default", actor: ACTOR, runId });

  it("fail ends a run that is driven, frees the conversation and lets the next one in; its owner is stale", async () => {
    const run = await bound();
    const queued = await process.admission.admit(commandFor(run.place));
    await process.operators.fail({ ...command(run.runId), force: false });
    expect(await runRow(run.runId)).toMatchObject({ state: "failed", reason: "operator_stop" });
    expect((await runRow(queued.runId)).state).toBe("admitted");
    expect(await codeOf(process.openModel(run.tokenHash))).toBe("slot_unknown");
    expect(await codeOf(finishRun(run.ownership))).toBe("stale_generation");
    expect(await codeOf(process.operators.fail({ ...command(run.runId), force: true }))).toBe("command_refused");
    await finishRun(await process.claimOne());
  });

  it("fail refuses while a call with an effect is outside, and goes against that by force; the outcome still lands", async () => {
    const run = await bound();
    const proposal = proposalOf({ effect: "write" });
    await process.propose(run, [proposal]);
    await process.openTool(run, proposal);
    expect(await codeOf(process.operators.fail({ ...command(run.runId), force: false }))).toBe("command_refused");
    expect((await runRow(run.runId)).state).toBe("running");
    await process.operators.fail({ ...command(run.runId), force: true });
    const { id } = await world.one<{ id: string }>("select id from signalbox.tool_call where run_id = $1", [run.runId]);
    await process.gates.settleToolCall({
      toolCallId: id as never,
      state: "succeeded",
      resultJson: "{}",
      resultSummary: "done",
      errorCode: null,
    });
    const call = await world.one<{ state: string }>("select state from signalbox.tool_call where id = $1", [id]);
    expect(call.state).toBe("succeeded");
  });

  it("release gives a run to whoever claims it next, and refuses while a call of it is outside", async () => {
    const run = await bound();
    await process.openModel(run.tokenHash);
    expect(await codeOf(process.operators.release(command(run.runId)))).toBe("command_refused");
    await world.superuser.query(
      "update signalbox.model_call set state = 'failed', finished_at = started_at where run_id = $1",
      [run.runId],
    );
    await process.operators.release(command(run.runId));
    expect(await codeOf(finishRun(run.ownership))).toBe("stale_generation");
    expect(await codeOf(process.operators.release(command(run.runId)))).toBe("command_refused");
    const again = await process.claimOne();
    expect(again.claim.runId).toBe(run.runId);
    await finishRun(again);
  });

  it("release notes nothing when there was nothing to give", async () => {
    const run = await bound();
    const move = "update signalbox.ownership set generation = generation + $2 where conversation_id = $1";
    await world.superuser.query(move, [run.place.conversationId, 1]);
    expect(await codeOf(process.operators.release(command(run.runId)))).toBe("command_refused");
    const noted = "select from signalbox.audit_pending where run_id = $1 and action = 'run_released'";
    expect(await world.rows(noted, [run.runId])).toEqual([]);
    await world.superuser.query(move, [run.place.conversationId, -1]);
    await process.operators.release(command(run.runId));
    expect(await world.rows(noted, [run.runId])).toHaveLength(1);
    await finishRun(await process.claimOne());
  });

  it("find nothing in another tenant", async () => {
    const run = await bound();
    const foreign = { ...command(run.runId), tenantId: "other" };
    expect(await codeOf(process.operators.fail({ ...foreign, force: true }))).toBe("not_found");
    expect(await codeOf(process.operators.release(foreign))).toBe("not_found");
    await finishRun(run.ownership);
  });
});

describe("a run that used up its workers", () => {
  it("ends, withdraws its holds and lets the next one in, in one transaction", async () => {
    const run = await bound();
    const queued = await process.admission.admit(commandFor(run.place));
    await process.gates.openHold({
      tokenHash: run.tokenHash,
      process: process.incarnation,
      holdId: newId("hold"),
      kind: "input",
      subject: {},
      digest: null,
      expiresInMs: null,
    });
    let { ownership } = run;
    for (let attempt = 1; attempt < 5; attempt += 1) ownership = await ownership.changeWorker({ attemptLimit: 5 });
    expect(await codeOf(ownership.changeWorker({ attemptLimit: 5 }))).toBe("retries_exhausted");
    const error = { code: "retries_exhausted", detail: "lost", fault: "platform", retryable: false } as const;
    const next = await finishRun(ownership, {
      outcome: "failed",
      reason: "retries_exhausted",
      error,
      answer: null,
      continuity: "kept",
      leaf: null,
      digest: null,
    });
    expect(next).toBe(queued.runId);
    const [ending, withdrawn] = await world.rows<{ xid: string }>(
      `select xid::text from signalbox.audit_pending
       where run_id = $1 and action in ('message_completed', 'hold_withdrawn') order by action`,
      [run.runId],
    );
    expect(withdrawn?.xid).toBe(ending?.xid);
    expect((await runRow(queued.runId)).state).toBe("admitted");
    await finishRun(await process.claimOne());
  });
});

it("a run whose end is being decided is as old as its seal, whatever is said in its conversation since", async () => {
  const place = await world.conversation();
  const { ownership, admission } = await startedRun(process, place);
  await ownership.seal(conclusionOf(ownership));
  await world.rows("update signalbox.run set sealed_at = sealed_at - interval '1 hour' where id = $1", [
    admission.runId,
  ]);
  await process.admission.admit(commandFor(place));
  const queries = new OperatorQueries(process.tenants);
  const viewer = { tenantId: "default", user: null };
  const owed = await queries.obligations(viewer, 3_500_000, LIMIT);
  expect(owed).toMatchObject([{ kind: "finalizing_run", runId: admission.runId }]);
  const since = Date.parse((await queries.explained(viewer, admission.runId))?.since ?? "");
  expect(Date.now() - since).toBeGreaterThan(3_500_000);
  await finishRun(ownership);
});
