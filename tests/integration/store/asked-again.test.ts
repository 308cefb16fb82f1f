/** Approvals that were given before the store was put back: whether they were used is not known, so they are asked again. */
import { expect } from "vitest";
import { runSignalbox } from "../../setup/cli-run.ts";
import { proves } from "../../setup/proves.ts";
import { ACTOR, finishRun, newId, startedRun } from "./record-parts.ts";
import { RecordWorld, type RecordProcess } from "./record-world.ts";

const DAY_MS = 86_400_000;
const SAYS_IT = "perform signalbox.note_hold_opened(v_run, v_hold, v_generation);";

async function approved(own: RecordWorld, by: RecordProcess) {
  const place = await own.conversation();
  const { admission, ownership } = await startedRun(by, place);
  const { tokenHash } = await by.bind(ownership);
  const holdId = newId("hold");
  const hold = { holdId, kind: "approval", subject: { tool: "pay" }, digest: "d", expiresInMs: DAY_MS } as const;
  await by.gates.openHold({ tokenHash, process: by.incarnation, ...hold });
  return { place, runId: admission.runId, ownership, holdId };
}

function approve(by: RecordProcess, holdId: Awaited<ReturnType<typeof approved>>["holdId"]) {
  const decision = { decision: "approve", response: { note: "yes" }, digest: "d" } as const;
  return by.operators.decide({ tenantId: "default", actor: ACTOR, holdId, ...decision });
}

proves("INV-25", {
  title: "after a restore no earlier approval acts: its run waits until somebody approves again",
  sabotages: ["approvals_stand", "the_run_goes_on", "nobody_is_told"],
  timeoutMs: 60_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "approvals_stand") await own.sabotage("ask_again", "h.state = 'decided'", "false");
    if (sabotage === "the_run_goes_on") await own.sabotage("ask_again", "r.id = any (v_asked)", "false");
    if (sabotage === "nobody_is_told") await own.sabotage("ask_again", SAYS_IT, "");
    const first = await own.process();
    const woken = await approved(own, first);
    await woken.ownership.suspend();
    await approve(first, woken.holdId);
    const running = await approved(own, first);
    await approve(first, running.holdId);
    const ending = await approved(own, first);
    await approve(first, ending.holdId);
    await first.admission.requestCancel({ tenantId: "default", runId: ending.runId, actor: ACTOR });
    await own.rows(
      "update signalbox.hold set opened_at = opened_at - interval '23 hours', expires_at = expires_at - interval '23 hours'",
    );

    const environment = { DATABASE_URL: own.database.url };
    expect(await runSignalbox(["recover", "--after-restore"], { environment })).toMatchObject({ exitCode: 0, err: "" });
    const second = await own.process();
    for (const { runId, holdId, place } of [woken, running]) {
      expect(
        await own.one("select state, owner, suspended_at is not null as waits from signalbox.run where id = $1", [
          runId,
        ]),
        "INV-25: the run waits",
      ).toEqual({ state: "suspended", owner: null, waits: true });
      const [left] = await own.rows<{ state: string; hours: number }>(
        `select state, round(extract(epoch from expires_at - signalbox.clock()) / 3600)::integer as hours
         from signalbox.hold where id = $1 and decision is null and decided_by is null and decided_at is null`,
        [holdId],
      );
      expect(left, "INV-25: it is asked anew, with as much time as it had").toEqual({ state: "open", hours: 24 });
      const told = await own.rows<{ type: string }>(
        `select type from signalbox.event where conversation_id = $1 and generation > 1000000 order by sequence`,
        [place.conversationId],
      );
      expect(
        told.map(({ type }) => type),
        "INV-25: readers hear of it",
      ).toEqual(["hold.opened", "run.suspended"]);
      const audited = await own.rows<{ action: string }>(
        "select action from signalbox.audit_pending where run_id = $1 order by id desc limit 2",
        [runId],
      );
      expect(audited.map(({ action }) => action).toSorted()).toEqual(["hold_opened", "run_suspended"]);
    }
    // What is to end is claimed to be ended.
    const claimed = (await second.claim("scripted", 9)).map(({ claim }) => claim.runId);
    expect(claimed, "INV-25: nothing is claimed on an earlier approval").toEqual([ending.runId]);
    expect(await own.one("select state, decision from signalbox.hold where id = $1", [ending.holdId])).toEqual({
      state: "decided",
      decision: "approve",
    });

    expect(await approve(second, woken.holdId)).toEqual({ kind: "decided", ready: true });
    const again = await second.claimOne();
    expect(again.claim.runId).toBe(woken.runId);
    await finishRun(again);
  },
});
