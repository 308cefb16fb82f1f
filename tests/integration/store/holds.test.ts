/** What a run waits for: opened under the fence, decided once, and whoever commits first wins. */
import type { HoldId, HoldKind } from "@signalbox/contract";
import type { DecideCommand } from "@signalbox/core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { proves } from "../../setup/proves.ts";
import {
  ACTOR,
  codeOf,
  commandFor,
  newId,
  proposalOf,
  startedRun,
  finishRun,
  type ConversationPlace,
} from "./record-parts.ts";
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

interface Waiting extends Bound {
  readonly place: ConversationPlace;
  readonly runId: string;
  readonly holdId: HoldId;
}

async function waiting(options: { readonly digest?: string; readonly expiresInMs?: number } = {}): Promise<Waiting> {
  const place = await world.conversation();
  const { admission, ownership } = await startedRun(process, place);
  const bound = await process.bind(ownership);
  const { holdId } = await open(bound, options);
  return { ...bound, place, runId: admission.runId, holdId };
}

function open(
  { tokenHash }: Bound,
  options: { readonly digest?: string; readonly expiresInMs?: number; readonly kind?: HoldKind } = {},
) {
  const { digest = null, expiresInMs = null, kind = "approval" } = options;
  const holdId = newId("hold");
  const subject = { tool: "pay" };
  return process.gates.openHold({
    tokenHash,
    process: process.incarnation,
    holdId,
    kind,
    subject,
    digest,
    expiresInMs,
  });
}

function decide(holdId: HoldId, changes: Partial<DecideCommand> = {}) {
  return process.operators.decide({
    tenantId: "default",
    actor: ACTOR,
    holdId,
    decision: "approve",
    response: { note: "yes" },
    digest: null,
    ...changes,
  });
}

function overdue(where: RecordWorld, holdId: HoldId) {
  const text = "update signalbox.hold set expires_at = signalbox.clock() where id = $1";
  return where.superuser.query(text, [holdId]);
}

const runRow = (runId: string) =>
  world.one<{ state: string; reason: string | null; owner: number | null; suspended_ms: number }>(
    "select state, reason, owner, suspended_ms from signalbox.run where id = $1",
    [runId],
  );
const holdRow = (holdId: string) =>
  world.one<{ state: string; decision: string | null; decided_by: string | null }>(
    "select state, decision, decided_by from signalbox.hold where id = $1",
    [holdId],
  );
const typesOf = async (conversationId: string) =>
  (
    await world.rows<{ type: string }>(
      "select type from signalbox.event where conversation_id = $1 order by sequence",
      [conversationId],
    )
  ).map(({ type }) => type);
const auditOf = async (runId: string) =>
  (
    await world.rows<{ action: string }>("select action from signalbox.audit_pending where run_id = $1 order by id", [
      runId,
    ])
  ).map(({ action }) => action);

describe("a hold", () => {
  it("lets its run go without anybody, and the decision of the last one brings it back", async () => {
    const first = await waiting();
    const second = await open(first);
    expect(await first.ownership.suspend()).toBe("suspended");
    expect(await runRow(first.runId)).toMatchObject({ state: "suspended", owner: null });
    expect(await codeOf(process.openModel(first.tokenHash))).toBe("slot_unknown");
    expect(await process.claim()).toEqual([]);
    expect(await decide(first.holdId)).toEqual({ kind: "decided", ready: false });
    expect(await runRow(first.runId)).toMatchObject({ state: "suspended" });
    expect(await decide(second.holdId)).toEqual({ kind: "decided", ready: true });
    expect(await runRow(first.runId)).toMatchObject({ state: "admitted" });
    const again = await process.claimOne();
    expect(again.claim).toMatchObject({ runId: first.runId, cause: "ready", attempt: 1 });
    expect(again.claim.generation).toBeGreaterThan(first.ownership.claim.generation + 1);
    expect(await typesOf(first.place.conversationId)).toEqual([
      "run.admitted",
      "run.started",
      "hold.opened",
      "hold.opened",
      "run.suspended",
      "hold.decided",
      "hold.decided",
      "run.resumed",
      "run.started",
    ]);
    expect(await auditOf(first.runId)).toEqual(
      expect.arrayContaining(["hold_opened", "run_suspended", "hold_decided", "run_resumed"]),
    );
    await finishRun(again);
  });

  it("is decided once: the second decision changes nothing and is audited as refused", async () => {
    const { holdId, runId, ownership } = await waiting();
    const both = await Promise.all([decide(holdId), decide(holdId, { decision: "reject" })]);
    expect(both.map(({ kind }) => kind).toSorted()).toEqual(["already_decided", "decided"]);
    const { decision } = await holdRow(holdId);
    expect(await decide(holdId, { decision: decision === "approve" ? "reject" : "approve" })).toEqual({
      kind: "already_decided",
      ready: false,
    });
    expect((await holdRow(holdId)).decision).toBe(decision);
    const audit = await auditOf(runId);
    expect(audit.filter((action) => action === "hold_decided")).toHaveLength(1);
    expect(audit.filter((action) => action === "hold_decision_refused")).toHaveLength(2);
    await finishRun(ownership);
    expect(await decide(holdId)).toMatchObject({ kind: "already_decided" });
  });

  it("is decided about what the decider was shown and nothing else", async () => {
    const { holdId, ownership } = await waiting({ digest: "d1" });
    expect(await codeOf(decide(holdId))).toBe("approval_changed");
    expect(await codeOf(decide(holdId, { digest: "d2" }))).toBe("approval_changed");
    expect((await holdRow(holdId)).state).toBe("open");
    expect(await decide(holdId, { digest: "d1" })).toMatchObject({ kind: "decided" });
    await finishRun(ownership);
  });

  it("is another tenant's secret", async () => {
    const { holdId, ownership } = await waiting();
    expect(await codeOf(decide(holdId, { tenantId: "other" }))).toBe("not_found");
    expect(await codeOf(decide(holdId, { actor: { ...ACTOR, user: "u_stranger" } }))).toBe("not_found");
    await finishRun(ownership);
  });

  it("keeps nothing any more when it was decided before patience ended", async () => {
    const { holdId, ownership, runId } = await waiting();
    await decide(holdId);
    expect(await ownership.suspend()).toBe("go_on");
    expect(await runRow(runId)).toMatchObject({ state: "running" });
    await finishRun(ownership);
  });

  it("waits for a call that is outside before its run is suspended", async () => {
    const bound = await waiting();
    const modelCallId = await process.openModel(bound.tokenHash);
    expect(await bound.ownership.suspend()).toBe("busy");
    await world.superuser.query(
      "update signalbox.model_call set state = 'failed', finished_at = started_at where id = $1",
      [modelCallId],
    );
    expect(await bound.ownership.suspend()).toBe("suspended");
    await decide(bound.holdId);
    await finishRun(await process.claimOne());
  });

  it("expires, and its run goes on and finds that out", async () => {
    const { holdId, ownership, runId } = await waiting({ expiresInMs: 50 });
    await ownership.suspend();
    await until("it is expired", async () => {
      await process.processes.sweep(process.incarnation);
      return (await holdRow(holdId)).state === "expired";
    });
    expect(await runRow(runId)).toMatchObject({ state: "admitted" });
    expect(await codeOf(decide(holdId))).toBe("hold_closed");
    await finishRun(await process.claimOne());
  });

  it("expires at the decision that comes too late, and its run goes on", async () => {
    const { holdId, ownership, runId } = await waiting({ expiresInMs: 60_000 });
    await ownership.suspend();
    await overdue(world, holdId);
    const rung = vi.spyOn(process.bus, "ringSupervisors");
    expect(await codeOf(decide(holdId))).toBe("hold_closed");
    expect(rung).toHaveBeenCalledOnce();
    rung.mockRestore();
    expect(await holdRow(holdId)).toEqual({ state: "expired", decision: null, decided_by: null });
    expect(await runRow(runId)).toMatchObject({ state: "admitted" });
    await finishRun(await process.claimOne());
  });

  it("is withdrawn in the transaction that ends its run, and the next message is let in", async () => {
    const { place, holdId, ownership, runId } = await waiting();
    const next = await process.admission.admit(commandFor(place));
    await ownership.suspend();
    const outcome = await process.admission.requestCancel({ tenantId: "default", runId: runId as never, actor: ACTOR });
    expect(outcome).toMatchObject({ kind: "ended" });
    expect((await holdRow(holdId)).state).toBe("withdrawn");
    expect(await codeOf(decide(holdId))).toBe("hold_closed");
    expect(await runRow(next.runId)).toMatchObject({ state: "admitted" });
    const types = await typesOf(place.conversationId);
    expect(types.indexOf("hold.withdrawn")).toBeLessThan(types.indexOf("run.finished"));
    await finishRun(await process.claimOne());
  });

  it("does not use up the run's wall clock while the run is suspended", async () => {
    const { holdId, ownership, runId } = await waiting();
    await ownership.suspend();
    await world.superuser.query(
      "update signalbox.run set suspended_at = suspended_at - interval '3 hours', started_at = started_at - interval '3 hours' where id = $1",
      [runId],
    );
    await decide(holdId);
    const again = await process.claimOne();
    expect((await runRow(runId)).suspended_ms).toBeGreaterThanOrEqual(3 * 3_600_000);
    expect(again.claim.nowMs - again.claim.startedAtMs).toBeLessThan(60_000);
    const { tokenHash } = await process.bind(again);
    await expect(process.openModel(tokenHash)).resolves.toBeDefined();
    await finishRun(again);
  });

  it("of a run that is to end keeps nothing: the owner ends it instead", async () => {
    const { ownership, runId, holdId } = await waiting();
    await process.admission.requestCancel({ tenantId: "default", runId: runId as never, actor: ACTOR });
    expect(await process.gates.isHoldOver({ holdId, ...ownership.claim })).toBe(true);
    expect(await ownership.suspend()).toBe("go_on");
    await finishRun(ownership);
    expect((await holdRow(holdId)).state).toBe("withdrawn");
  });

  it("is opened under the fence of an intent", async () => {
    const { ownership, tokenHash, holdId } = await waiting();
    await ownership.suspend();
    await decide(holdId);
    const again = await process.claimOne();
    expect(await codeOf(open({ ownership, tokenHash }))).toBe("slot_unknown");
    await finishRun(again);
  });
});

proves("INV-02", {
  title: "a decision and the end of patience meet: the run is suspended and woken, or was never suspended",
  sabotages: ["decision_does_not_wait"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "decision_does_not_wait") await own.sabotage("wake_run", "state = 'suspended'", "state = 'lost'");
    const own1 = await own.process();
    const place = await own.conversation();
    const { admission, ownership } = await startedRun(own1, place);
    const { tokenHash } = await own1.bind(ownership);
    const request = { tokenHash, process: own1.incarnation, kind: "input", subject: {}, digest: null } as const;
    const { holdId } = await own1.gates.openHold({ ...request, holdId: newId("hold"), expiresInMs: null });
    const holder = await own.session();
    await holder.query("begin");
    await holder.query("select signalbox.suspend($1, $2)", [place.conversationId, ownership.claim.generation]);
    const command = {
      tenantId: "default",
      actor: ACTOR,
      holdId,
      decision: "respond",
      response: 1,
      digest: null,
    } as const;
    const deciding = own1.operators.decide(command);
    await own.untilBlockedBy(holder);
    await holder.query("commit");
    await deciding;
    const { state } = await own.one<{ state: string }>("select state from signalbox.run where id = $1", [
      admission.runId,
    ]);
    expect(state, "INV-02: waits for a hold that is decided").toBe("admitted");
  },
});

proves("INV-12", {
  title: "what expired is approved no more, though no sweep has come by",
  sabotages: ["only_a_sweep_expires"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "only_a_sweep_expires") {
      await own.sabotage("decide_hold", "v_hold.expires_at <= signalbox.clock()", "false");
    }
    const gate = await own.process();
    const { ownership } = await startedRun(gate, await own.conversation());
    const { tokenHash } = await gate.bind(ownership);
    const asked = { kind: "approval", subject: {}, digest: "d1", expiresInMs: 60_000 } as const;
    const { holdId } = await gate.gates.openHold({
      tokenHash,
      process: gate.incarnation,
      holdId: newId("hold"),
      ...asked,
    });
    await overdue(own, holdId);
    const approval = { decision: "approve", response: null, digest: "d1" } as const;
    const told = await codeOf(gate.operators.decide({ tenantId: "default", actor: ACTOR, holdId, ...approval }));
    expect(told, "INV-12: approved after it expired").toBe("hold_closed");
  },
});

describe("calls of a dead gate", () => {
  it("are closed by the sweep though nobody claims their run", async () => {
    await using own = await RecordWorld.open();
    const [dead, living] = [await own.process(), await own.process()];
    const place = await own.conversation();
    const { ownership } = await startedRun(dead, place);
    const bound = await dead.bind(ownership);
    const proposal = proposalOf();
    await dead.propose(bound, [proposal]);
    await dead.openTool(bound, proposal);
    await dead.dropPresence(own.superuser);
    await own.superuser.query("update signalbox.process set dead_at = signalbox.clock() where incarnation = $1", [
      dead.incarnation,
    ]);
    await until("the call has an outcome", async () => {
      await living.processes.sweep(living.incarnation);
      const { state } = await own.one<{ state: string }>("select state from signalbox.tool_call");
      return state === "unknown";
    });
    expect((await own.one<{ state: string }>("select state from signalbox.run")).state).toBe("running");
  });
});
