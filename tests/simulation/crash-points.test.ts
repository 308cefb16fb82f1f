/** One message on one process, and one fault at every port call on its way: it is answered once, come what may. */
import { simulate, type CalmScenario, type Fate, type SimulationReport } from "@signalbox/testkit";
import { describe, expect, it } from "vitest";
import { FATES, sweep } from "./histories.ts";

const CALM_CALL_COUNT_MIN = 20;

describe("one message on one process", () => {
  it("is answered when nothing goes wrong, and the same seed tells the same history", async () => {
    const first: string[] = [];
    const again: string[] = [];
    const report = await simulate({ seed: 1, scenario: { fault: null }, onLine: (line) => first.push(line) });
    await simulate({ seed: 1, scenario: { fault: null }, onLine: (line) => again.push(line) });
    expect(endings(report)).toEqual(["completed answered"]);
    expect(report.callCount).toBeGreaterThan(CALM_CALL_COUNT_MIN);
    expect(again).toEqual(first);
  });

  it("is answered once, whichever port call its process dies at, before, during or after it", async () => {
    const told = await tellAll();
    expect(told.length).toBeGreaterThan(CALM_CALL_COUNT_MIN * FATES.length);
    expect(told.filter(({ broken }) => broken > 0)).toEqual([]);
    const notAnswered = told.filter(({ ending }) => ending !== "completed answered");
    // The reply to a tool call's intent is lost: nobody knows whether the call was made, and the run says so.
    expect(notAnswered.map(({ fate, ending }) => `${fate}: ${ending}`)).toEqual(["lost_reply: failed outcome_unknown"]);
  });

  it.each([
    ["somebody decides", { expiresInMs: null }, "hold.decided"],
    ["nobody decides in time", { expiresInMs: 1_500 }, "hold.expired"],
  ])("waits and is answered once, whichever port call its process dies at, when %s", async (_who, asks, closed) => {
    const lines: string[] = [];
    await simulate({ seed: 1, scenario: { fault: null, asks }, onLine: (line) => lines.push(line) });
    for (const step of ["open_hold", "hold.opened", "suspend", "run.suspended", closed, "run.resumed"]) {
      expect(lines.filter((line) => line.includes(step)).length, `the calm path has ${step}`).toBeGreaterThan(0);
    }
    const told = await tellAll(asks);
    expect(told.length).toBeGreaterThan(CALM_CALL_COUNT_MIN * FATES.length);
    expect(told.filter(({ broken }) => broken > 0)).toEqual([]);
    const notAnswered = told.filter(({ ending }) => ending !== "completed answered");
    expect(notAnswered.map(({ fate, ending }) => `${fate}: ${ending}`)).toEqual(["lost_reply: failed outcome_unknown"]);
  });

  it("does not go on for ever when it kills every process that drives it", async () => {
    const faults = [
      { everyCall: "open_model_call", fate: "crash_after" },
      { everyCall: "append_transcript", fate: "crash_before" },
    ] as const;
    for (const fault of faults) {
      const report = await simulate({ seed: 1, scenario: { fault } });
      expect(report.violations).toEqual([]);
      expect(endings(report)).toEqual(["failed retries_exhausted"]);
    }
  });

  it("comes to its end when each process dies right after it has kept something: the next one goes on from there", async () => {
    const fault = { everyCall: "append_transcript", fate: "crash_after" } as const;
    const report = await simulate({ seed: 1, scenario: { fault } });
    expect(report.violations).toEqual([]);
    expect(endings(report)).toEqual(["completed answered"]);
  });
});

interface Told {
  readonly index: number;
  readonly fate: Fate;
  readonly broken: number;
  readonly ending: string;
}

async function tellAll(asks: CalmScenario["asks"] = null): Promise<readonly Told[]> {
  const told: Told[] = [];
  const see = (report: SimulationReport, fault: Pick<Told, "index" | "fate">): boolean => {
    told.push({ ...fault, broken: report.violations.length, ending: endings(report).join() });
    return true;
  };
  await sweep(null, see, asks);
  return told;
}

function endings(report: SimulationReport): readonly string[] {
  return report.runs.map(({ state, reason }) => `${state} ${reason ?? ""}`);
}
