import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { proves } from "../../setup/proves.ts";
import {
  ACTOR,
  codeOf,
  commandFor,
  conclusionOf,
  finalizationOf,
  finishRun,
  modelSettlement,
  newId,
  startedRun,
  textEvent,
  TURN,
} from "./record-parts.ts";
import { RecordWorld } from "./record-world.ts";

const COUNTS_THE_CALL = `update signalbox.run set model_call_count = model_call_count + 1
  where id = v_run.id and model_call_count < model_call_limit;`;

let world: RecordWorld;

beforeAll(async () => {
  world = await RecordWorld.open();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

const cancelOf = (tenantId: string, runId: Awaited<ReturnType<typeof startedRun>>["admission"]["runId"]) => ({
  tenantId,
  runId,
  actor: ACTOR,
});

proves("INV-20", {
  title: "once a cancel is acknowledged no intent commits, and an intent in flight holds the acknowledgement up",
  sabotages: ["intents_ignore_the_mark", "cancel_does_not_wait"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "intents_ignore_the_mark") {
      await own.sabotage("enter_gate", "v_cancel_at is not null", "false");
    } else if (sabotage === "cancel_does_not_wait") {
      await own.sabotage("enter_gate", "for share", "");
      // The count of calls locks the run's row, too.
      await own.sabotage("begin_model_call", COUNTS_THE_CALL, "perform from signalbox.run where id = v_run.id;");
    }
    const place = await own.conversation();
    const process = await own.process();
    const { admission, ownership } = await startedRun(process, place);
    const { tokenHash } = await process.bind(ownership);
    const gate = await own.session();
    await gate.query("begin");
    await gate.query("select signalbox.begin_model_call($1, $2, $3, 'anthropic', 'sim/echo', 10, '{}')", [
      tokenHash,
      newId("modelCall"),
      process.incarnation,
    ]);
    let acknowledged = false;
    const cancelling = process.admission.requestCancel(cancelOf(place.tenantId, admission.runId)).then((outcome) => {
      acknowledged = true;
      return outcome;
    });
    if (sabotage === "cancel_does_not_wait") {
      await cancelling;
    } else {
      await own.untilBlockedBy(gate);
    }
    expect(acknowledged, "INV-20: acknowledged beside an intent that is not committed").toBe(false);
    await gate.query("commit");
    expect(await cancelling).toEqual({ kind: "requested", state: "running" });
    expect(await codeOf(process.openModel(tokenHash)), "INV-20: an intent after the acknowledgement").toBe(
      "run_cancelled",
    );
    expect(await process.owners.cancelled(process.incarnation)).toEqual([
      { conversationId: place.conversationId, generation: ownership.claim.generation },
    ]);
    expect(await process.admission.requestCancel(cancelOf(place.tenantId, admission.runId))).toEqual({
      kind: "requested",
      state: "running",
    });
  },
});

proves("INV-08", {
  title: "cancel and finish at once: whichever commits first stands, and there is one terminal event",
  sabotages: ["ends_twice"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "ends_twice") {
      await own.superuser.query("drop trigger run_ending on signalbox.run; drop index signalbox.event_one_ending");
      await own.sabotage(
        "end_from_outside",
        "p_run.state in ('completed', 'cancelled', 'failed', 'rolled_back')",
        "false",
      );
    }
    const process = await own.process();

    // Finish first: the cancel finds the run ended.
    const one = await own.conversation();
    const finished = await startedRun(process, one);
    await finished.ownership.seal(conclusionOf(finished.ownership));
    const finishing = await own.session();
    await finishing.query("begin");
    await finishing.query(
      "select signalbox.finish($1, $2, 'completed', 'answered', null, $3, 'text', false, 'fresh', 'kept', null, null, 'm')",
      [one.conversationId, finished.ownership.claim.generation, newId("message")],
    );
    const late = process.admission.requestCancel(cancelOf(one.tenantId, finished.admission.runId));
    await own.untilBlockedBy(finishing);
    await finishing.query("commit");
    const outcome = await late.catch((thrown: unknown) => thrown);
    await oneEnding(own, finished.admission.runId, "completed");
    expect(outcome).toEqual({ kind: "already_ended", state: "completed" });

    // Cancel first: the owner hears of it in the seal and ends the run as cancelled.
    const two = await own.conversation();
    const cancelled = await startedRun(process, two);
    await process.admission.requestCancel(cancelOf(two.tenantId, cancelled.admission.runId));
    const seal = await cancelled.ownership.seal(conclusionOf(cancelled.ownership));
    expect(seal.cancelCause).toBe("user_cancel");
    await cancelled.ownership.finish(finalizationOf({ outcome: "cancelled", reason: "user_cancel", answer: null }));
    await oneEnding(own, cancelled.admission.runId, "cancelled");
    expect(await codeOf(cancelled.ownership.finish(finalizationOf()))).toBe("stale_generation");
    await oneEnding(own, cancelled.admission.runId, "cancelled");
  },
});

async function oneEnding(own: RecordWorld, runId: string, state: string): Promise<void> {
  const run = await own.one<{ state: string }>("select state from signalbox.run where id = $1", [runId]);
  expect(run.state, "INV-08: the first ending stays").toBe(state);
  const endings = await own.rows("select from signalbox.event where run_id = $1 and type = 'run.finished'", [runId]);
  expect(endings.length, "INV-08: one terminal event").toBe(1);
}

it("a cancel after the seal changes nothing", async () => {
  const place = await world.conversation();
  const process = await world.process();
  const { admission, ownership } = await startedRun(process, place);
  await ownership.seal(conclusionOf(ownership));
  expect(await process.admission.requestCancel(cancelOf(place.tenantId, admission.runId))).toEqual({
    kind: "ending",
    state: "finalizing",
  });
});

it("a cancelled run still books what it spent, after its end", async () => {
  const place = await world.conversation();
  const process = await world.process();
  const { admission, ownership } = await startedRun(process, place);
  const { tokenHash } = await process.bind(ownership);
  const modelCallId = await process.openModel(tokenHash);
  await process.admission.requestCancel(cancelOf(place.tenantId, admission.runId));
  await finishRun(ownership, { outcome: "cancelled", reason: "user_cancel", answer: null });
  await process.gates.settleModelCall(modelSettlement(modelCallId));
  expect(
    await world.one("select state, input_tokens, cost_micros from signalbox.run where id = $1", [admission.runId]),
  ).toEqual({ state: "cancelled", input_tokens: 10, cost_micros: 7 });
});

it("a cancelled run that is given back has ended, and the next message follows", async () => {
  const place = await world.conversation({ runtime: "given-back" });
  const process = await world.process();
  const { admission, ownership } = await startedRun(process, place);
  await process.admission.requestCancel(cancelOf(place.tenantId, admission.runId));
  const queued = await process.admission.admit(commandFor(place));
  await ownership.append([textEvent("half an answer")], TURN);
  await ownership.release();
  expect(await world.one("select state, reason from signalbox.run where id = $1", [admission.runId])).toEqual({
    state: "cancelled",
    reason: "user_cancel",
  });
  expect(
    await world.rows("select text, partial from signalbox.message where run_id = $1 and role = 'assistant'", [
      admission.runId,
    ]),
  ).toEqual([{ text: "half an answer", partial: true }]);
  const next = await process.claimOne("given-back");
  expect(next.claim).toMatchObject({ runId: queued.runId, cancelRequested: false, leaf: null, hasHistory: true });
});

it("finish admits the next message in the same transaction, and it can be claimed at once", async () => {
  const place = await world.conversation({ runtime: "next" });
  const process = await world.process();
  const { ownership } = await startedRun(process, place);
  const queued = await process.admission.admit(commandFor(place));
  expect(await finishRun(ownership)).toBe(queued.runId);
  const next = await process.claimOne("next");
  expect(next.claim).toMatchObject({ runId: queued.runId, cancelRequested: false, hasHistory: true });
  const types = await world.rows<{ type: string }>(
    "select type from signalbox.event where conversation_id = $1 order by sequence",
    [place.conversationId],
  );
  expect(types.map(({ type }) => type)).toEqual([
    "run.admitted",
    "run.started",
    "queue.moved",
    "run.finished",
    "run.admitted",
    "run.started",
  ]);
});

it("whoever ends the marked run of a dead process rings for the one behind it", async () => {
  const [driver, other] = [await world.process(), await world.process()];
  const place = await world.conversation();
  const { admission } = await startedRun(driver, place);
  const next = await other.admission.admit(commandFor(place));
  await other.admission.requestCancel(cancelOf(place.tenantId, admission.runId));
  await driver.processes.unregister(driver.incarnation);
  const rung = vi.spyOn(other.bus, "ringSupervisors");
  await other.processes.sweep(other.incarnation);
  expect(rung).toHaveBeenCalled();
  const claimed = await other.claimOne();
  expect(claimed.claim.runId).toBe(next.runId);
  await finishRun(claimed);
});
