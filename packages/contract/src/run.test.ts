import { expect, it } from "vitest";
import { isTerminal, RUN_STATES, RUN_STATUSES, runStatus, TERMINAL_STATES } from "./run.ts";

it("shows clients a run as ended exactly when it has ended", () => {
  for (const state of RUN_STATES) {
    const ended = (TERMINAL_STATES as readonly string[]).includes(runStatus(state));
    expect(isTerminal(state)).toBe(ended);
    expect(RUN_STATUSES).toContain(runStatus(state));
  }
});
