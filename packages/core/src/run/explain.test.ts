import type { RunState } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { explainRun, type ExplainedFacts } from "./explain.ts";

const SINCE = "2026-03-01T12:00:00.000Z";
const OWNER = { process: 7, leaseAgeMs: 120, leaseHeld: true, present: true, dead: false };
const PAUSE = { id: "stp_1", kind: "pause", scope: "agent" } as const;
const WAIT = { holdId: "hld_1", kind: "approval", since: SINCE } as const;

const FACTS: ExplainedFacts = {
  runId: "run_1",
  conversationId: "cnv_1",
  state: "running",
  generation: 3,
  attempt: 1,
  runtime: "langgraph",
  since: SINCE,
  owner: OWNER,
  cancelRequestedAt: null,
  waitingFor: [],
  openCalls: [],
  queuePlace: null,
  stops: [],
};

function told(facts: Partial<ExplainedFacts>): { readonly summary: string; readonly next: string } {
  const { summary, next } = explainRun({ ...FACTS, ...facts });
  return { summary, next };
}

function call(id: string, gateDead: boolean): ExplainedFacts["openCalls"][number] {
  return { id, kind: "tool", name: `bank/${id}`, since: SINCE, gate: 7, gateDead };
}

describe("a run without an owner", () => {
  it.each([
    [0, "behind 0 runs."],
    [1, "behind 1 run."],
    [2, "behind 2 runs."],
  ])("tells its place in the queue: %d", (queuePlace, words) => {
    expect(told({ state: "queued", owner: null, queuePlace }).summary).toContain(words);
  });

  it("that ends with another one waits in no line", () => {
    const { summary, next } = told({ state: "queued", owner: null, queuePlace: null });
    expect(summary).toContain("taken in by the run that is active");
    expect(summary + next).not.toContain("queue");
  });

  it("tells which runtime it needs, and what stands over it", () => {
    const { summary, next } = told({ state: "admitted", owner: null, stops: [PAUSE] });
    expect(summary).toContain("nobody has claimed it yet. A pause of its agent stands (stp_1).");
    expect(next).toContain("offer langgraph");
  });

  it("that is suspended tells what it waits for, and who can end that", () => {
    const decided = told({ state: "suspended", owner: null, waitingFor: [WAIT] });
    expect(decided.summary).toContain(`approval hld_1 since ${SINCE}`);
    expect(decided.next).toContain("/v1/holds/");
    expect(told({ state: "suspended", owner: null, waitingFor: [WAIT], stops: [PAUSE] }).next).toContain(
      "when the pause is lifted",
    );
    const held: Partial<ExplainedFacts> = { waitingFor: [{ ...WAIT, kind: "operator" }], stops: [PAUSE] };
    expect(told({ ...held, state: "suspended", owner: null }).next).toContain("`signalbox stop --lift stp_1`");
    expect(told(held).next).toContain("`signalbox stop --lift stp_1`");
    expect(told({ state: "suspended", owner: null }).summary).toContain("nothing that is still open");
  });
});

describe("a run with an owner", () => {
  it("names it, its generation and the oldest open call", () => {
    const { summary } = told({ openCalls: [call("pay", false), call("look", false)] });
    expect(summary).toBe(
      `Process 7 drives it under generation 3. 2 calls without an outcome, the oldest (tool bank/pay) since ${SINCE}.`,
    );
  });

  it("is released only where no call is open at a living gate, and ended in any case", () => {
    expect(told({}).next).toContain("`release` gives it to another owner and `fail` ends it");
    expect(told({ openCalls: [call("pay", true)] }).next).toContain("`release` gives it to another owner");
    expect(told({ openCalls: [call("pay", false)] }).next).toContain("`release` is refused while a call is open");
  });

  it("that is paused says how that is lifted, and is not called stuck", () => {
    const { next } = told({ openCalls: [call("pay", false)], stops: [{ ...PAUSE, scope: "run" }, PAUSE] });
    expect(next).toContain("To lift it: `signalbox resume run_1`, `signalbox stop --lift stp_1`.");
    expect(next).not.toContain("release");
  });

  it("says that the gate of an open call is dead", () => {
    expect(told({ openCalls: [call("pay", true)] }).summary).toContain("the gate of one is dead");
  });

  it.each<[string, Partial<ExplainedFacts>, RegExp]>([
    ["none at all", { owner: null }, /declared dead/],
    ["a dead one", { owner: { ...OWNER, dead: true } }, /declared dead/],
    ["one whose lease is over", { owner: { ...OWNER, leaseHeld: false } }, /not been heard of for 120 ms/],
    ["one without presence", { owner: { ...OWNER, present: false } }, /not been heard of for 120 ms/],
    ["one that is ending it", { cancelRequestedAt: SINCE }, /process 7 is ending it/],
    ["one whose call waits at a gate", { waitingFor: [WAIT] }, /kept at a gate and waits for approval hld_1/],
    ["one that is alive", {}, /under generation 3/],
  ])("tells the first thing that keeps it: %s", (_which, facts, words) => {
    expect(told(facts).summary).toMatch(words);
  });

  it("calls a dead owner dead before it says that an end was asked for", () => {
    expect(told({ owner: { ...OWNER, dead: true }, cancelRequestedAt: SINCE }).summary).toContain("declared dead");
  });
});

describe("a run at its end", () => {
  it("is being decided, or was by a process that died", () => {
    expect(told({ state: "finalizing" }).summary).toContain("being decided");
    expect(told({ state: "finalizing", owner: { ...OWNER, dead: true } }).next).toContain("repeats the finalization");
  });

  it.each<RunState>(["completed", "cancelled", "failed", "rolled_back"])("stays as it is: %s", (state) => {
    expect(told({ state, owner: null }).summary).toBe(`It has ended: ${state}.`);
  });
});

it("keeps every fact it was told", () => {
  const facts = { ...FACTS, runId: "run_9", stops: [PAUSE] };
  expect(explainRun(facts)).toMatchObject(facts);
});
