/** One message on one process, and one fault at every port call on its way: it is answered once, come what may. */
import { simulate, type Fate, type SimulationReport } from "@signalbox/testkit";
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

async function tellAll(): Promise<readonly Told[]> {
  const told: Told[] = [];
  await sweep(null, (report, fault) => {
    told.push({ ...fault, broken: report.violations.length, ending: endings(report).join() });
    return true;
  });
  return told;
}

function endings(report: SimulationReport): readonly string[] {
  return report.runs.map(({ state, reason }) => `${state} ${reason ?? ""}`);
}
