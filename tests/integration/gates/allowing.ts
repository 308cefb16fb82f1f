import { callVerdict, type ToolJudge } from "@signalbox/core";

/** A policy that allows everything, for tests that are about something else. */
export const allowing: ToolJudge = {
  version: () => "allowing",
  judge: async ({ calls }) => calls.map(() => callVerdict({ verdict: "allow", reason: "" })),
};
