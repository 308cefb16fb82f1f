import { DECISIONS, HOLD_KINDS, type Decision, type HoldKind } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { refusedVerb } from "./hold.ts";

const TAKEN: Readonly<Record<HoldKind, readonly Decision[]>> = {
  approval: ["approve", "edit", "reject", "respond"],
  input: ["reject", "respond"],
  client_tool: ["reject", "respond"],
  account: ["reject", "respond"],
  budget: ["approve", "reject"],
  newer_worker: ["resume"],
  job: [],
  operator: [],
};

describe.each(HOLD_KINDS)("a hold of the kind %s", (kind) => {
  it.each(DECISIONS)("says of %s that it takes it, or what it takes instead", (decision) => {
    const refusal = refusedVerb(kind, decision);
    if (TAKEN[kind].includes(decision)) {
      expect(refusal).toBeNull();
      return;
    }
    for (const verb of TAKEN[kind]) expect(refusal).toContain(verb);
    expect(refusal).toMatch(/^[A-Z].*\.$/);
  });
});

it("that the platform itself ends takes no decision of anybody", () => {
  expect(refusedVerb("operator", "resume")).toBe("This hold ends when its pause is lifted.");
  expect(refusedVerb("job", "approve")).toBe("This hold ends when its job does.");
});
