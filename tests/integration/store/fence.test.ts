import { afterAll, beforeAll, expect, it } from "vitest";
import { proves } from "../../setup/proves.ts";
import {
  codeOf,
  commandFor,
  conclusionOf,
  finalizationOf,
  finishRun,
  newId,
  proposalOf,
  startedRun,
  textEvent,
  TURN,
} from "./record-parts.ts";
import { RecordWorld, until } from "./record-world.ts";

const COUNTS_THE_CALL = `update signalbox.run set model_call_count = model_call_count + 1
  where id = v_run.id and model_call_count < model_call_limit;`;

let world: RecordWorld;

beforeAll(async () => {
  world = await RecordWorld.open();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

/** Declares a process dead, as a sweep would. */
async function bury(own: RecordWorld, incarnation: number): Promise<void> {
  await own.rows("update signalbox.process set dead_at = signalbox.clock() where incarnation = $1", [incarnation]);
}

proves("INV-06", {
  title: "an intent that is not committed holds a takeover up; none commits after it under the old generation",
  sabotages: ["intent_without_row_lock"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "intent_without_row_lock") {
      await own.sabotage("enter_gate", "for share", "");
      // The count of calls locks the run's row, too.
      await own.sabotage("begin_model_call", COUNTS_THE_CALL, "perform from signalbox.run where id = v_run.id;");
    }
    const place = await own.conversation();
    const [first, second] = [await own.process(), await own.process()];
    const { ownership } = await startedRun(first, place);
    const { tokenHash } = await first.bind(ownership);

    const gate = await own.session();
    await gate.query("begin");
    const { rows } = await gate.query<{ answer: { code?: string } }>(
      "select signalbox.begin_model_call($1, $2, $3, 'anthropic', 'sim/echo', 10, '{}') as answer",
      [tokenHash, newId("modelCall"), first.incarnation],
    );
    expect(rows[0]!.answer.code).toBeUndefined();
    await bury(own, first.incarnation);
    // The claim must not wait, and must not take what the intent holds.
    expect(await second.claim(), "INV-06: a takeover beside an uncommitted intent").toEqual([]);
    await gate.query("commit");
    const taken = await second.claimOne();
    expect(taken.claim.generation).toBeGreaterThan(ownership.claim.generation);
    const open = await own.rows("select state from signalbox.model_call where run_id = $1", [taken.claim.runId]);
    expect(open, "the intent is an obligation the new owner sees closed").toEqual([{ state: "estimated" }]);
    expect(await codeOf(first.openModel(tokenHash))).toBe("stale_generation");
  },
});

proves("INV-05", {
  title: "after a takeover the old owner changes nothing, whatever it tries",
  sabotages: ["append_without_generation", "transcript_without_fence", "finish_without_generation"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    switch (sabotage) {
      case "append_without_generation":
        await own.sabotage("append_events", "and o.generation = b.generation", "");
        await own.sabotage("append_events", "and r.generation = b.generation", "");
        break;
      case "transcript_without_fence":
        await own.sabotage("enter_gate", "v_generation <> v_slot.generation or", "");
        break;
      case "finish_without_generation":
        await own.sabotage("hold_exclusive", "and o.generation = p_generation", "");
        await own.sabotage("seal", "and generation = p_generation", "");
        break;
      case null:
        break;
    }
    const place = await own.conversation();
    const [first, second] = [await own.process(), await own.process()];
    const { ownership } = await startedRun(first, place);
    const bound = await first.bind(ownership);
    const proposal = proposalOf();
    await first.propose(bound, [proposal]);
    await bury(own, first.incarnation);
    const taken = await second.claimOne();
    const before = await counts(own);
    const attempts = {
      append: codeOf(ownership.append([textEvent("late")], TURN)),
      bind: codeOf(first.bind(ownership)),
      model: codeOf(first.openModel(bound.tokenHash)),
      tool: codeOf(first.openTool(bound, proposal)),
      transcript: codeOf(
        first.gates.appendTranscript(bound.tokenHash, [
          { kind: "item", entryId: "e1", stream: "", body: Buffer.from("late") },
        ]),
      ),
      change: codeOf(ownership.changeWorker({ attemptLimit: 9 })),
      seal: codeOf(ownership.seal(conclusionOf(ownership))),
      finish: codeOf(ownership.finish(finalizationOf())),
      release: codeOf(ownership.release()),
    };
    for (const [what, code] of Object.entries(attempts)) {
      expect(await code, `INV-05: ${what} under a stale generation`).toBe("stale_generation");
    }
    expect(await counts(own), "INV-05: nothing changed").toEqual(before);
    await finishRun(taken);
    await until("refusals are audited", async () => {
      const audited = await own.rows("select from signalbox.audit_pending where action = 'stale_refused'");
      return audited.length >= 8;
    });
  },
});

async function counts(own: RecordWorld) {
  return own.one(
    `select (select count(*) from signalbox.event) as events, (select count(*) from signalbox.message) as messages,
            (select count(*) from signalbox.transcript_entry) as entries,
            (select count(*) from signalbox.model_call) as calls,
            (select string_agg(state, ',' order by id) from signalbox.tool_call) as tools,
            (select string_agg(state, ',' order by id) from signalbox.run) as runs`,
  );
}

it("an append after release changes nothing, also under the number that was just valid", async () => {
  const place = await world.conversation();
  const process = await world.process();
  const { ownership } = await startedRun(process, place);
  await ownership.append([textEvent("in time")], TURN);
  await finishRun(ownership);
  const before = await counts(world);
  expect(await codeOf(ownership.append([textEvent("too late")], TURN))).toBe("stale_generation");
  expect(await counts(world)).toEqual(before);
  const { generation } = await world.one<{ generation: number }>(
    "select generation from signalbox.ownership where conversation_id = $1",
    [place.conversationId],
  );
  expect(generation).toBe(ownership.claim.generation + 1);
});

it("an append waits for a release that is being committed, and is then refused", async () => {
  const place = await world.conversation();
  const process = await world.process();
  const { ownership } = await startedRun(process, place);
  const releasing = await world.session();
  await releasing.query("begin");
  await releasing.query("select signalbox.release($1, $2)", [place.conversationId, ownership.claim.generation]);
  const late = codeOf(ownership.append([textEvent("late")], TURN));
  await world.untilBlockedBy(releasing);
  await releasing.query("commit");
  expect(await late).toBe("stale_generation");
});

it("a seal waits for an intent that is being recorded; an intent after the seal is refused", async () => {
  const place = await world.conversation();
  const process = await world.process();
  const { ownership } = await startedRun(process, place);
  const bound = await process.bind(ownership);
  const gate = await world.session();
  await gate.query("begin");
  await gate.query("select signalbox.begin_model_call($1, $2, $3, 'anthropic', 'sim/echo', 10, '{}')", [
    bound.tokenHash,
    newId("modelCall"),
    process.incarnation,
  ]);
  const sealing = ownership.seal(conclusionOf(ownership));
  await world.untilBlockedBy(gate);
  await gate.query("commit");
  expect(await sealing).toMatchObject({ openModelCallCount: 1, leaf: null, digest: null });
  expect(await codeOf(process.openModel(bound.tokenHash))).toBe("stale_generation");
  expect(
    await codeOf(
      process.gates.appendTranscript(bound.tokenHash, [{ kind: "item", entryId: "e", stream: "", body: Buffer.of(1) }]),
    ),
  ).toBe("stale_generation");
  expect((await ownership.seal(conclusionOf(ownership, { answer: "another" }))).openModelCallCount).toBe(1);
  const { conclusion } = await world.one<{ conclusion: { answer: string } }>(
    "select conclusion from signalbox.run where id = $1",
    [ownership.claim.runId],
  );
  expect(conclusion.answer, "the first conclusion stays").toBe("an answer");
});

it("a slot of another conversation, or none at all, opens nothing", async () => {
  const process = await world.process();
  const [one, other] = [await world.conversation(), await world.conversation()];
  const mine = await startedRun(process, one);
  const theirs = await startedRun(process, other);
  const { tokenHash } = await process.bind(mine.ownership);
  expect(await codeOf(theirs.ownership.bindSlot({ tokenHash, workerId: "w" }))).toBe("slot_unknown");
  expect(await codeOf(process.openModel("nobody's"))).toBe("slot_unknown");
  expect(await codeOf(process.gates.slot("nobody's"))).toBe("slot_unknown");
  await finishRun(mine.ownership);
  expect(await process.gates.slot(tokenHash)).toMatchObject({ conversationId: one.conversationId, run: null });
  expect(await codeOf(process.openModel(tokenHash))).toBe("slot_unknown");
});

it("a change of worker raises the generation under the same owner, who alone goes on with what was proposed", async () => {
  const place = await world.conversation();
  const process = await world.process();
  const { ownership } = await startedRun(process, place);
  const bound = await process.bind(ownership);
  const proposal = proposalOf();
  await process.propose(bound, [proposal]);
  await ownership.append([textEvent("half an ans", 1, "itm_half")], TURN);
  const next = await ownership.changeWorker({ attemptLimit: 2 });
  expect(next.claim).toMatchObject({
    generation: ownership.claim.generation + 1,
    attempt: 2,
    cause: "worker_lost",
    visibleItems: [{ itemId: "itm_half", kind: "text" }],
  });
  expect(await codeOf(process.openTool(bound, proposal))).toBe("slot_unknown");
  const again = await process.bind(next);
  expect(await process.openTool(again, proposal)).toMatchObject({ kind: "execute", toolCallId: proposal.toolCallId });
  expect(await codeOf(next.changeWorker({ attemptLimit: 2 }))).toBe("retries_exhausted");
  await next.append([textEvent("still the owner")], TURN);
});

it("a released run is claimed again without using up an attempt", async () => {
  const place = await world.conversation({ runtime: "drained" });
  const process = await world.process();
  const { ownership } = await startedRun(process, place);
  await ownership.append([textEvent("seen", 1, "itm_seen")], TURN);
  await ownership.release();
  const again = await process.claimOne("drained");
  expect(again.claim).toMatchObject({
    cause: "ready",
    attempt: 1,
    generation: ownership.claim.generation + 2,
    startedAtMs: ownership.claim.startedAtMs,
    visibleItems: [{ itemId: "itm_seen", kind: "text" }],
  });
});

it("claims only runtimes it has room for, oldest first, and not more than asked", async () => {
  const process = await world.process();
  const [a, b, c] = [
    await world.conversation({ runtime: "left" }),
    await world.conversation({ runtime: "left" }),
    await world.conversation({ runtime: "right" }),
  ];
  for (const place of [a, b, c]) {
    await process.admission.admit(commandFor(place));
  }
  const claim = async (room: Record<string, number>, limit: number) =>
    (await process.owners.claim({ process: process.incarnation, room, limit })).map(
      (each) => each.claim.conversationId,
    );
  expect(await claim({ left: 1, right: 0 }, 5)).toEqual([a.conversationId]);
  expect(await claim({ left: 5, right: 5 }, 1)).toHaveLength(1);
  expect(await claim({ left: 5, right: 5 }, 5)).toHaveLength(1);
  expect(await claim({ left: 5, right: 5 }, 5)).toEqual([]);
});

it("takes again what it owns without knowing, and leaves alone what it drives", async () => {
  const process = await world.process();
  const [known, unknown] = [await world.conversation(), await world.conversation()];
  const driven = await startedRun(process, known);
  const lost = await startedRun(process, unknown);
  const held = [{ conversationId: known.conversationId, generation: driven.ownership.claim.generation }];
  const again = await process.owners.reclaim(process.incarnation, held);
  expect(again.map(({ claim }) => [claim.runId, claim.cause, claim.attempt])).toEqual([
    [lost.admission.runId, "owner_lost", 2],
  ]);
  await driven.ownership.append([textEvent("undisturbed")], TURN);
});
