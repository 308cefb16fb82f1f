/** Approvals: asked once for a whole message, decided one by one, used once, and looked at again when they are used. */
import { canonicalJson, type Decision } from "@signalbox/contract";
import { callVerdict, type CallVerdict, type Proposal } from "@signalbox/core";
import { expect, it } from "vitest";
import { until } from "../../setup/until.ts";
import type { BenchProcess, RecordBench, Started } from "./bench.ts";
import { ACTOR, bind, claimOne, codeOf, judged, openTool, proposal, propose, start, toolOutcome } from "./story.ts";

const ask = (changes: Partial<CallVerdict> = {}): CallVerdict =>
  callVerdict({ verdict: "ask", reason: "This cannot be taken back.", rules: ["r1"], ...changes });
const ALLOW = callVerdict({ verdict: "allow", reason: "" });
const DENY = callVerdict({ verdict: "deny", reason: "Never again.", code: "tool_not_allowed" });

function pay(cents: number, verdict: CallVerdict = ask()): Proposal {
  return judged(proposal({ effect: "irreversible", argumentsJson: canonicalJson({ cents }) }), verdict);
}

interface Asked {
  readonly holdId: string;
  readonly toolCallId: unknown;
  readonly digest: string | null;
  readonly subject: Readonly<Record<string, unknown>>;
}

/** What was asked in this conversation, in the order it was asked, each as it was told last. */
async function asked(bench: RecordBench, { place }: Pick<Started, "place">): Promise<readonly Asked[]> {
  const found = new Map<string, Asked>();
  for (const event of await bench.events(place)) {
    if (event.type !== "hold.opened") continue;
    const { holdId, subject, digest } = event;
    found.set(holdId, { holdId, subject, digest, toolCallId: subject.toolCallId });
  }
  return [...found.values()];
}

const decision = ({ holdId, digest }: Asked, verb: Decision, response: unknown = null) =>
  ({ tenantId: "default", actor: ACTOR, holdId: holdId as never, decision: verb, response, digest }) as const;

/** The run is suspended, decided about, and claimed by another generation. */
async function resumed(process: BenchProcess, started: Started, decide: () => Promise<void>): Promise<Started> {
  expect(await started.ownership.suspend()).toBe("suspended");
  await decide();
  return await bind(started.place, await claimOne(process, started.place));
}

export function approvalsSuite(bench: () => RecordBench): void {
  it("a message is asked about once, in its order, and nothing of it is made before the last decision", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const { tokenHash } = started;
    const look = judged(proposal(), ALLOW);
    const [one, two] = [pay(1), pay(2)];
    await propose(process, tokenHash, [one, look, two]);
    expect(await asked(bench(), started)).toEqual([]);
    for (const call of [look, two, one]) expect(await codeOf(openTool(process, tokenHash, call))).toBe("run_suspended");
    const holds = await asked(bench(), started);
    expect(holds.map(({ toolCallId }) => toolCallId)).toEqual([one.toolCallId, two.toolCallId]);
    expect(holds.map(({ digest }) => digest)).toEqual([one.callDigest, two.callDigest]);
    expect(holds[0]?.subject.argumentsJson).toBe('{"cents":1}');
    await process.decide(decision(holds[1]!, "approve"));
    for (const call of [look, one, two]) expect(await codeOf(openTool(process, tokenHash, call))).toBe("run_suspended");
    await process.decide(decision(holds[0]!, "reject", { reason: "too much" }));
    expect(await openTool(process, tokenHash, look)).toMatchObject({ kind: "execute" });
    expect(await openTool(process, tokenHash, two)).toMatchObject({ kind: "execute", toolCallId: two.toolCallId });
    const refused = await openTool(process, tokenHash, one);
    expect(refused).toMatchObject({ kind: "replay", state: "denied", resultJson: expect.stringContaining("too much") });
    expect(JSON.parse(refused.kind === "replay" ? refused.resultJson : "{}")).toMatchObject({ isError: true });
    expect(await asked(bench(), started)).toHaveLength(2);
  });

  it("a decision needs the digest that was shown, and the first one stands", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const call = pay(3);
    await propose(process, started.tokenHash, [call]);
    await codeOf(openTool(process, started.tokenHash, call));
    const [hold] = await asked(bench(), started);
    expect(await codeOf(process.decide(decision({ ...hold!, digest: "another" }, "approve")))).toBe("approval_changed");
    expect(await codeOf(process.decide(decision({ ...hold!, digest: null }, "approve")))).toBe("approval_changed");
    expect(await process.decide(decision(hold!, "approve"))).toMatchObject({ kind: "decided" });
    expect(await process.decide(decision(hold!, "reject"))).toMatchObject({ kind: "already_decided" });
    expect(await openTool(process, started.tokenHash, call)).toMatchObject({ kind: "execute", isEdited: false });
    expect(await codeOf(openTool(process, started.tokenHash, call))).toBe("tool_outcome_unknown");
    await process.gates.settleToolCall(toolOutcome(call));
    expect(await openTool(process, started.tokenHash, call)).toMatchObject({ kind: "replay", state: "succeeded" });
  });

  it("what a person answers in place of a tool is a result that is no error", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const call = pay(4);
    await propose(process, started.tokenHash, [call]);
    await codeOf(openTool(process, started.tokenHash, call));
    const [hold] = await asked(bench(), started);
    await process.decide(decision(hold!, "respond", "It is paid already."));
    const answer = await openTool(process, started.tokenHash, call);
    expect(answer).toMatchObject({ kind: "replay", state: "denied" });
    expect(JSON.parse(answer.kind === "replay" ? answer.resultJson : "{}")).toEqual({
      content: [{ type: "text", text: "It is paid already." }],
      isError: false,
    });
  });

  it("what a person changed is judged again and then carried out as it was changed", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const { tokenHash } = started;
    const call = pay(5);
    await propose(process, tokenHash, [call]);
    await codeOf(openTool(process, tokenHash, call));
    const [hold] = await asked(bench(), started);
    await process.decide(decision(hold!, "edit", { argumentsJson: '{"cents":50}', digest: "digest of 50" }));
    const { toolUseId, name, argumentsDigest } = call;
    const intent = { tokenHash, process: process.incarnation, toolUseId, name, argumentsDigest };
    const judge = await process.gates.openToolCall({ ...intent, policyVersion: "policy-1" });
    expect(judge).toMatchObject({ kind: "judge", calls: [{ argumentsJson: '{"cents":50}', state: "authorized" }] });
    if (judge.kind !== "judge") throw new Error("it was to be judged");
    const { modelCallId, toolCallId } = judge;
    const verdict = { ...ask(), toolCallId, callDigest: "digest of 50" };
    const record = { tokenHash, process: process.incarnation, modelCallId, policyVersion: "policy-1" };
    await process.gates.recordVerdicts({ ...record, verdicts: [verdict] });
    const grant = await process.gates.openToolCall({ ...intent, policyVersion: "policy-1" });
    expect(grant).toMatchObject({ kind: "execute", isEdited: true, argumentsJson: '{"cents":50}' });
    expect(await asked(bench(), started)).toHaveLength(1);
  });

  it("a policy of another version judges again what was approved: its denial wins, its question is answered", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const { tokenHash } = started;
    const [kept, lost] = [pay(6), pay(7)];
    await propose(process, tokenHash, [kept, lost]);
    await codeOf(openTool(process, tokenHash, kept));
    for (const hold of await asked(bench(), started)) await process.decide(decision(hold, "approve"));
    const { toolUseId, name, argumentsDigest } = kept;
    const intent = { tokenHash, process: process.incarnation, toolUseId, name, argumentsDigest, policyVersion: "two" };
    const judge = await process.gates.openToolCall(intent);
    if (judge.kind !== "judge") throw new Error("it was to be judged");
    expect(judge.calls.map(({ toolCallId }) => toolCallId)).toEqual([kept.toolCallId, lost.toolCallId]);
    const { modelCallId } = judge;
    const record = { tokenHash, process: process.incarnation, modelCallId, policyVersion: "two" };
    const verdicts = [
      { ...ask(), toolCallId: kept.toolCallId, callDigest: kept.callDigest! },
      { ...DENY, toolCallId: lost.toolCallId, callDigest: lost.callDigest! },
    ];
    await process.gates.recordVerdicts({ ...record, verdicts });
    // The first verdict of a version counts.
    await process.gates.recordVerdicts({
      ...record,
      verdicts: [{ ...DENY, toolCallId: kept.toolCallId, callDigest: "x" }],
    });
    expect(await process.gates.openToolCall(intent)).toMatchObject({ kind: "execute" });
    const refused = await openTool(process, tokenHash, lost);
    expect(refused).toMatchObject({ kind: "replay", state: "denied", resultJson: expect.stringContaining("Never") });
  });

  it("what was decided while nobody ran is made once by whoever goes on, under the same ids", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const [one, two] = [pay(8), pay(9)];
    await propose(process, started.tokenHash, [one, two]);
    await codeOf(openTool(process, started.tokenHash, one));
    const next = await resumed(process, started, async () => {
      const [first, second] = await asked(bench(), started);
      expect(await process.decide(decision(second!, "reject"))).toMatchObject({ ready: false });
      expect(await process.decide(decision(first!, "approve"))).toMatchObject({ ready: true });
    });
    const ids = [one.toolUseId, two.toolUseId];
    const outcomes = await process.gates.callOutcomes(next.tokenHash, ids);
    expect(outcomes.map(({ state }) => state)).toEqual(["authorized", "denied"]);
    expect(await openTool(process, next.tokenHash, one)).toMatchObject({ kind: "execute", toolCallId: one.toolCallId });
    expect(await codeOf(openTool(process, next.tokenHash, one))).toBe("tool_outcome_unknown");
    expect(await codeOf(openTool(process, started.tokenHash, one))).not.toBe("accepted");
  });

  it("a turn that runs again takes along what was approved for the same call, and nothing else", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const [same, other] = [pay(10), pay(11)];
    await propose(process, started.tokenHash, [same, other]);
    await codeOf(openTool(process, started.tokenHash, same));
    const next = await resumed(process, started, async () => {
      for (const hold of await asked(bench(), started)) await process.decide(decision(hold, "approve"));
    });
    const [again, changed] = [pay(10), pay(1_000)];
    await propose(process, next.tokenHash, [again, changed]);
    expect(await codeOf(openTool(process, next.tokenHash, again))).toBe("run_suspended");
    const holds = await asked(bench(), started);
    expect(holds).toHaveLength(3);
    expect(holds[2]).toMatchObject({ toolCallId: changed.toolCallId, digest: changed.callDigest });
    await process.decide(decision(holds[2]!, "reject"));
    expect(await openTool(process, next.tokenHash, again)).toMatchObject({ kind: "execute" });
    expect(await openTool(process, next.tokenHash, changed)).toMatchObject({ kind: "replay", state: "denied" });
    for (const call of [same, other]) {
      expect(await codeOf(openTool(process, next.tokenHash, call))).toBe("tool_not_proposed");
    }
  });

  it("a question that is still open goes along with the same call, and is withdrawn with one that is off", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const [same, off] = [pay(12), pay(13)];
    await propose(process, started.tokenHash, [same, off]);
    await codeOf(openTool(process, started.tokenHash, same));
    const [open, gone] = await asked(bench(), started);
    const next = await bind(started.place, await started.ownership.changeWorker({ attemptLimit: 9 }));
    const again = pay(12);
    await propose(process, next.tokenHash, [again]);
    expect(await codeOf(openTool(process, next.tokenHash, again))).toBe("run_suspended");
    const holds = await asked(bench(), started);
    expect(holds.map(({ holdId, toolCallId }) => ({ holdId, toolCallId }))).toEqual([
      { holdId: open!.holdId, toolCallId: again.toolCallId },
      { holdId: gone!.holdId, toolCallId: off.toolCallId },
    ]);
    expect(await codeOf(process.decide(decision(gone!, "approve")))).toBe("hold_closed");
    await process.decide(decision(open!, "approve"));
    expect(await openTool(process, next.tokenHash, again)).toMatchObject({ kind: "execute" });
  });

  it("nobody decides in time, or nobody carries out in time: denied, and the run goes on", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const late = pay(14, ask({ expiresInMs: 1 }));
    await propose(process, started.tokenHash, [late]);
    await codeOf(openTool(process, started.tokenHash, late));
    const [hold] = await asked(bench(), started);
    const overAtMs = Date.now() + 5;
    await until("the millisecond is over", () => Date.now() > overAtMs, 5_000);
    expect(await codeOf(process.decide(decision(hold!, "approve")))).toBe("hold_closed");
    const answer = await openTool(process, started.tokenHash, late);
    expect(answer).toMatchObject({ kind: "replay", state: "denied" });
    expect(answer.kind === "replay" && answer.resultJson).toContain("approval_expired");
    expect(await bench().auditActions(started.place)).toContain("hold_expired");
  });

  it("where somebody else has to approve, who asked for the run cannot", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const call = pay(15, ask({ approver: "other" }));
    await propose(process, started.tokenHash, [call]);
    await codeOf(openTool(process, started.tokenHash, call));
    const [hold] = await asked(bench(), started);
    expect(await codeOf(process.decide(decision(hold!, "approve")))).toBe("permission_denied");
    expect(await codeOf(openTool(process, started.tokenHash, call))).toBe("run_suspended");
  });

  it("nobody approves what a run asked that is to end, although its owner has not ended it yet", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const call = pay(17);
    await propose(process, started.tokenHash, [call]);
    await codeOf(openTool(process, started.tokenHash, call));
    await process.admission.requestCancel({ tenantId: "default", runId: started.runId, actor: ACTOR });
    const [hold] = await asked(bench(), started);
    expect(await codeOf(process.decide(decision(hold!, "approve")))).toBe("hold_closed");
    expect(await bench().auditActions(started.place)).toContain("hold_withdrawn");
    expect(await codeOf(process.decide(decision(hold!, "approve")))).toBe("hold_closed");
  });

  it("with the run ends what was asked for it", async () => {
    const process = await bench().shared();
    const started = await start(bench(), process);
    const call = pay(16);
    await propose(process, started.tokenHash, [call]);
    await codeOf(openTool(process, started.tokenHash, call));
    await started.ownership.suspend();
    await process.admission.requestCancel({ tenantId: "default", runId: started.runId, actor: ACTOR });
    const [hold] = await asked(bench(), started);
    expect(await codeOf(process.decide(decision(hold!, "approve")))).toBe("hold_closed");
    expect(await bench().auditActions(started.place)).toContain("hold_withdrawn");
  });
}
