/** Holds through the public API, on two API processes over one database: two decisions never both count. */
import type { AcceptedMessage, Conversation, DecidedHold, Hold, Run } from "@signalbox/contract";
import { randomBytes } from "node:crypto";
import type { Ownership } from "@signalbox/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, newId, type Told } from "../../setup/api-world.ts";
import { conclude } from "../lifecycle/talk.ts";
import { modelSettlement, proposalOf } from "../store/record-parts.ts";
import { auditOf } from "./audit-of.ts";

let world: ApiWorld;
let beside: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  beside = await ApiWorld.open({ database: world.database });
  key = await world.key();
});
afterAll(async () => {
  await beside[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

interface Waiting {
  readonly conversation: string;
  readonly run: string;
  readonly hold: string;
}

async function waiting(hold: Parameters<ApiWorld["openHold"]>[1] = {}): Promise<Waiting> {
  const name = `agent-${newId("agent").slice(-12)}`;
  await world.ask("/v1/agents", { key, body: { name, model: "sim/quote" } });
  const { body: conversation } = await world.ask<Conversation>("/v1/conversations", { key, body: { agent: name } });
  const path = `/v1/conversations/${conversation.id}/messages`;
  const { body } = await world.ask<AcceptedMessage>(path, { key, body: { content: "pay invoice 7" } });
  return { conversation: conversation.id, run: body.run.id, hold: await world.openHold(conversation.id, hold) };
}

function decide(
  at: ApiWorld,
  hold: string,
  body: object,
): Promise<Told<DecidedHold & { code: string; digest?: string }>> {
  return at.ask(`/v1/holds/${hold}/decision`, { key, body });
}

/** Lets the model propose one payment and two gates make it at the same time; answers how often it was made. */
async function payments(ownership: Ownership, process: number): Promise<number> {
  const tokenHash = randomBytes(32).toString("hex");
  await ownership.bindSlot({ tokenHash, workerId: "worker" });
  const { gates } = world.record;
  const modelCallId = newId("modelCall");
  const call = { tokenHash, modelCallId, process, wire: "anthropic", requestedModel: "sim/quote" } as const;
  await gates.openModelCall({ ...call, requestBytes: 1, rules: [] });
  const proposal = proposalOf({ name: "bank__pay", server: "bank", tool: "pay", effect: "irreversible" });
  await gates.settleModelCall(modelSettlement(modelCallId, [proposal]));
  const { toolUseId, name, argumentsDigest } = proposal;
  const pay = async (at: ApiWorld): Promise<number> => {
    const grant = await at.record.gates.openToolCall({
      tokenHash,
      process,
      toolUseId,
      name,
      argumentsDigest,
      policyVersion: null,
    });
    if (grant.kind !== "execute") return 0;
    const outcome = { state: "succeeded", resultJson: "{}", resultSummary: "paid", errorCode: null } as const;
    await at.record.gates.settleToolCall({ toolCallId: grant.toolCallId, ...outcome });
    return 1;
  };
  const paid = await Promise.allSettled([world, beside].map(pay));
  return paid.reduce((sum, each) => sum + (each.status === "fulfilled" ? each.value : 0), 0);
}

const run = async (id: string) => (await world.ask<Run>(`/v1/runs/${id}`, { key })).body;
const hold = async (id: string) => (await world.ask<Hold>(`/v1/holds/${id}`, { key })).body;

describe("a run that waits", () => {
  it("says what for, on itself, on its conversation and in the list of holds", async () => {
    const { conversation, run: id, hold: holdId } = await waiting({ kind: "input" });
    const wait = { holdId, kind: "input", since: expect.any(String) };
    expect(await run(id)).toMatchObject({ status: "waiting", waitingFor: [wait], owner: null });
    const shown = await world.ask<Conversation>(`/v1/conversations/${conversation}`, { key });
    expect(shown.body).toMatchObject({ activeRun: { id, status: "waiting" }, waitingFor: [wait] });
    const list = await world.ask<{ data: Hold[] }>(`/v1/holds?state=open&run=${id}`, { key });
    expect(list.body.data).toMatchObject([{ id: holdId, state: "open", subject: { question: "how many?" } }]);
    await decide(world, holdId, { decision: "respond", response: { count: 3 } });
    expect(await run(id)).toMatchObject({ status: "running", waitingFor: [] });
    expect(await hold(holdId)).toMatchObject({ state: "decided", decision: "respond", response: { count: 3 } });
  });

  it("shows its hold while it is still attached, and needs no claim when that is decided", async () => {
    const { run: id, hold: holdId } = await waiting({ suspend: false });
    expect(await run(id)).toMatchObject({ status: "running", waitingFor: [{ holdId }] });
    await decide(beside, holdId, { decision: "respond", response: "yes" });
    expect(await run(id)).toMatchObject({ status: "running", waitingFor: [] });
  });
});

describe("two decisions at the same time, on two API processes", () => {
  it.each([
    ["approve", "approve"],
    ["approve", "reject"],
  ])("%s and %s: exactly one is recorded, and both callers learn which", async (left, right) => {
    const { run: id, hold: holdId } = await waiting({ kind: "approval", digest: "d" });
    const answers = await Promise.all([
      decide(world, holdId, { decision: left, digest: "d" }),
      decide(beside, holdId, { decision: right, digest: "d" }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(answers.map(({ body }) => body.outcome).toSorted()).toEqual(["already_decided", "decided"]);
    const first = answers.find(({ body }) => body.outcome === "decided");
    const { decision } = await hold(holdId);
    expect(first?.body.hold.decision).toBe(decision);
    expect(answers.map(({ body }) => body.hold.decision)).toEqual([decision, decision]);
    const ownership = await world.claim((await run(id)).conversationId);
    expect(ownership.claim).toMatchObject({ runId: id, attempt: 1 });
    const events = await world.ask<string>(`/v1/conversations/${ownership.claim.conversationId}`, { key });
    expect(events.status).toBe(200);
  });

  it("what waits for it is begun once, and the audit names one decision and each that came too late", async () => {
    const { conversation, run: id, hold: holdId } = await waiting({ kind: "approval", digest: "d" });
    const approval = { decision: "approve", digest: "d" };
    await Promise.all([decide(world, holdId, approval), decide(beside, holdId, approval)]);
    // Both processes would go on with the run, and every gate would make the payment.
    const claims = await Promise.allSettled([world.claim(conversation), beside.claim(conversation)]);
    const [ownership, ...others] = claims.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    expect(others).toEqual([]);
    expect(await payments(ownership!, (await run(id)).owner ?? 0)).toBe(1);
    await conclude(ownership!);
    expect((await decide(beside, holdId, approval)).body.outcome).toBe("already_decided");
    const said = async (action: string) =>
      (await auditOf(world, action)).filter(({ conversationId }) => conversationId === conversation).length;
    expect([await said("hold_decided"), await said("hold_decision_refused")]).toEqual([1, 2]);
    const calls = await world.rows("select state from signalbox.tool_call where run_id = $1", [id]);
    expect(calls).toEqual([{ state: "succeeded" }]);
  });

  it("a decision after the run has ended gets the first one back, and none where there was none", async () => {
    const decided = await waiting();
    await decide(world, decided.hold, { decision: "respond", response: 1 });
    await world.ask(`/v1/runs/${decided.run}/cancel`, { key, method: "POST" });
    expect(await run(decided.run)).toMatchObject({ status: "cancelled" });
    const late = await decide(beside, decided.hold, { decision: "reject" });
    expect(late.body).toMatchObject({ outcome: "already_decided", hold: { decision: "respond", response: 1 } });
    const open = await waiting();
    await world.ask(`/v1/runs/${open.run}/cancel`, { key, method: "POST" });
    const refused = await decide(beside, open.hold, { decision: "respond", response: 1 });
    expect([refused.status, refused.body.code]).toEqual([409, "hold_closed"]);
    expect(await hold(open.hold)).toMatchObject({ state: "withdrawn" });
  });

  it("a decision and a cancel: whichever commits first, the run ends and nothing stays open", async () => {
    for (let time = 0; time < 5; time += 1) {
      const { run: id, hold: holdId, conversation } = await waiting();
      const [decision, cancel] = await Promise.all([
        decide(world, holdId, { decision: "respond", response: 1 }),
        beside.ask<Run>(`/v1/runs/${id}/cancel`, { key, method: "POST" }),
      ]);
      expect(cancel.status).toBe(200);
      expect([200, 409]).toContain(decision.status);
      expect(await run(id)).toMatchObject({ status: "cancelled", reason: "user_cancel", waitingFor: [] });
      expect((await hold(holdId)).state).toBe(decision.status === 200 ? "decided" : "withdrawn");
      const shown = await world.ask<Conversation>(`/v1/conversations/${conversation}`, { key });
      expect(shown.body.activeRun).toBeNull();
    }
  });
});

describe("a decision is refused", () => {
  it("when it is about something else than what is asked now", async () => {
    const { hold: holdId } = await waiting({ kind: "approval", digest: "now" });
    for (const body of [{ decision: "approve" }, { decision: "approve", digest: "before" }]) {
      const told = await decide(world, holdId, body);
      expect([told.status, told.body.code, told.body.digest]).toEqual([409, "approval_changed", "now"]);
    }
  });

  it("when the hold does not take that verb", async () => {
    const { hold: holdId } = await waiting({ kind: "input" });
    const told = await decide(world, holdId, { decision: "approve" });
    expect([told.status, told.body.code]).toEqual([409, "command_refused"]);
  });

  it.each([{}, { decision: "maybe" }, { decision: "respond", extra: 1 }, { decision: "respond", digest: 7 }])(
    "when it says %j",
    async (body) => {
      const { hold: holdId } = await waiting();
      expect((await decide(world, holdId, body)).status).toBe(400);
      expect((await hold(holdId)).state).toBe("open");
    },
  );
});

describe("a message never decides a hold", () => {
  it("it waits behind the run that waits", async () => {
    const { conversation, hold: holdId } = await waiting();
    const path = `/v1/conversations/${conversation}/messages`;
    const told = await world.ask<AcceptedMessage>(path, { key, body: { content: "yes, do it" } });
    expect(told.body).toMatchObject({ accepted: "queued" });
    expect((await hold(holdId)).state).toBe("open");
  });
});
