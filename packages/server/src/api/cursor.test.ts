import { PlatformError } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { cursorOf } from "./cursor.ts";

const HEAD = 18;

function refusal(lastEventId: string | undefined, after: string | undefined): PlatformError {
  try {
    cursorOf({ lastEventId, after, head: HEAD, kept: 0, replaced: false, restartUrl: "/here" });
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(PlatformError);
    return thrown as PlatformError;
  }
  return expect.unreachable("it should have been refused");
}

describe("a reader", () => {
  it.each([
    [undefined, undefined, 0],
    ["", undefined, 0],
    [undefined, "0", 0],
    [undefined, "17", 17],
    ["17", undefined, 17],
    ["18", undefined, 18],
    ["17", "3", 17],
    ["", "3", 3],
  ])("with Last-Event-ID %j and ?after=%j starts after %i", (lastEventId, after, sequence) => {
    expect(cursorOf({ lastEventId, after, head: HEAD, kept: 0, replaced: false, restartUrl: "/here" })).toBe(sequence);
  });

  it.each([
    "19",
    "999",
    "9007199254740993",
    "99999999999999999999",
    "-1",
    "1.5",
    "007",
    "1e1",
    "0x1",
    " 1",
    "e3-17",
    "17'; drop",
    "17, 18",
    "\u0000",
    "🚀",
  ])("cannot start at %j, whichever way it says so", (text) => {
    expect(refusal(text, undefined)).toMatchObject({ code: "invalid_cursor", fields: [{ pointer: "Last-Event-ID" }] });
    expect(refusal(undefined, text)).toMatchObject({ code: "invalid_cursor", fields: [{ pointer: "after" }] });
  });

  it.each([
    [undefined, undefined, 9],
    ["", undefined, 9],
    ["10", undefined, 10],
    [undefined, "18", 18],
  ])("of a log that is kept from 10 on, with %j and %j, starts after %i", (lastEventId, after, sequence) => {
    expect(cursorOf({ lastEventId, after, head: HEAD, kept: 10, replaced: false, restartUrl: "/here" })).toBe(sequence);
  });

  it.each(["0", "1", "9"])("whose events are gone since %j is told where to begin again", (text) => {
    for (const given of [
      { lastEventId: text, after: undefined },
      { lastEventId: undefined, after: text },
    ]) {
      const told = (): number => cursorOf({ ...given, head: HEAD, kept: 10, replaced: false, restartUrl: "/here" });
      expect(told).toThrow(
        expect.objectContaining({ code: "cursor_expired", extra: { keptSequence: 10, eventsUrl: "/here" } }),
      );
    }
  });

  it.each(["19", "999"])("of a store that was put back is told that %j is lost, and where to begin again", (text) => {
    const told = (): number =>
      cursorOf({ lastEventId: text, after: undefined, head: HEAD, kept: 10, replaced: true, restartUrl: "/here" });
    expect(told).toThrow(
      expect.objectContaining({ code: "cursor_lost", extra: { keptSequence: 10, eventsUrl: "/here" } }),
    );
    expect(refusal("x", undefined).code).toBe("invalid_cursor");
  });

  it("is told what it sent, cut between characters", () => {
    const { detail } = refusal(undefined, `x${"🚀".repeat(500)}`);
    expect(detail.isWellFormed()).toBe(true);
    expect(detail.length).toBeLessThan(120);
  });
});
