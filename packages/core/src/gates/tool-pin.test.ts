import { PIN_STATES } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { judgeListing, PIN_EVENTS, PIN_TRANSITIONS, type ListedForm, type PinnedForm } from "./tool-pin.ts";

const listed: ListedForm = { definitionHash: "one", origin: "here", isBlocked: false };
const approved: PinnedForm = { state: "approved", definitionHash: "one", origin: "here", seen: null };
const drifted: PinnedForm = { ...approved, state: "drifted", seen: { definitionHash: "two", origin: "here" } };
const moved: PinnedForm = { ...approved, state: "quarantined", seen: { definitionHash: "one", origin: "there" } };
const held: PinnedForm = { ...approved, state: "quarantined" };

describe("a listing", () => {
  it.each([
    ["trusts a tool it sees first in dev", null, listed, "trust", "approved"],
    [
      "blocks a tool it sees first when something in it is hidden",
      null,
      { ...listed, isBlocked: true },
      "hold",
      "quarantined",
    ],
    ["changes nothing while it says the same", approved, listed, null, null],
    ["blocks another form", approved, { ...listed, definitionHash: "two" }, "drift", "drifted"],
    ["tells of one form once", drifted, { ...listed, definitionHash: "two" }, null, null],
    ["tells of each further form", drifted, { ...listed, definitionHash: "three" }, "drift", "drifted"],
    ["gives back what was approved when it is listed again", drifted, listed, "restore", "approved"],
    ["blocks the same form from elsewhere", approved, { ...listed, origin: "there" }, "move", "quarantined"],
    ["tells of one place once", moved, { ...listed, origin: "there" }, null, null],
    ["keeps what came back from elsewhere until somebody looks", moved, listed, "hold", "quarantined"],
    [
      "keeps what waits for approval as it is listed now",
      held,
      { ...listed, definitionHash: "two" },
      "hold",
      "quarantined",
    ],
    ["adopts the address of a row that has none", { ...approved, origin: null }, listed, null, null],
  ] as const)("%s", (...row) => {
    const [, pin, seen, event, state] = row;
    expect(judgeListing(pin, seen, "dev")).toEqual(event === null ? null : { event, state });
  });

  it("trusts nothing by itself in production", () => {
    expect(judgeListing(null, listed, "production")).toEqual({ event: "hold", state: "quarantined" });
    expect(judgeListing(approved, listed, "production")).toBeNull();
  });

  it("takes the program's own functions as they are, as often as they change, unless something in them is hidden", () => {
    const changed = { ...listed, definitionHash: "another" };
    const drifted = { ...approved, state: "drifted" } as const;
    expect(judgeListing(null, listed, "program")).toEqual({ event: "trust", state: "approved" });
    expect(judgeListing(approved, listed, "program")).toBeNull();
    expect(judgeListing(approved, changed, "program")).toEqual({ event: "trust", state: "approved" });
    expect(judgeListing(drifted, listed, "program")).toEqual({ event: "trust", state: "approved" });
    expect(judgeListing(null, { ...listed, isBlocked: true }, "program")?.state).toBe("quarantined");
    expect(judgeListing(approved, { ...changed, isBlocked: true }, "program")?.state).toBe("drifted");
  });

  it("does not trust what drifted by itself in any posture", () => {
    for (const posture of ["dev", "production"] as const) {
      expect(judgeListing(approved, { ...listed, definitionHash: "another" }, posture)?.event).toBe("drift");
    }
  });
});

it("has one table, in which only a person, or the program whose own it is, takes a tool out of quarantine", () => {
  const ways = PIN_STATES.flatMap((from) =>
    PIN_EVENTS.map((event) => ({ from, event, to: PIN_TRANSITIONS[from][event] })),
  );
  expect(ways.filter(({ to }) => to === "approved").map(({ from, event }) => `${from} ${event}`)).toEqual([
    "new trust",
    "quarantined trust",
    "quarantined approve",
    "approved trust",
    "approved approve",
    "drifted trust",
    "drifted approve",
    "drifted restore",
  ]);
  expect(ways.filter(({ to }) => to === "new")).toEqual([]);
});
