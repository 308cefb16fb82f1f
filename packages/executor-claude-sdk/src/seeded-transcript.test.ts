import { expect, test } from "vitest";
import { seedTranscript } from "./seeded-transcript.ts";
import { damageOf } from "./transcript-check.ts";
import { blocksOf } from "./transcript-row.ts";

const HISTORY = [
  { role: "user", text: "Q1" },
  { role: "assistant", text: "A1" },
  { role: "user", text: "Q2" },
  { role: "user", text: "Q3" },
  { role: "assistant", text: "A3" },
] as const;

const spoken = (history: Parameters<typeof seedTranscript>[2]) => {
  const { rows, unanswered } = seedTranscript("session-1", "sim/sim-1", history);
  return { said: rows.map((row) => `${row.type}: ${blocksOf(row)[0]?.text ?? ""}`), unanswered };
};

test("the history becomes a sound transcript of the same exchange", () => {
  expect(spoken(HISTORY)).toEqual({
    said: ["user: Q1", "assistant: A1", "user: Q2", "user: Q3", "assistant: A3"],
    unanswered: [],
  });
  expect(damageOf(seedTranscript("session-1", "sim/sim-1", HISTORY).rows)).toBe("");
});

test("questions nobody answered wait for the next message", () => {
  expect(spoken([...HISTORY, { role: "user", text: "Q4" }, { role: "user", text: "Q5" }]).unanswered).toEqual([
    "Q4",
    "Q5",
  ]);
  expect(spoken([{ role: "user", text: "Q1" }])).toEqual({ said: [], unanswered: ["Q1"] });
});

test("texts without a word are left out, and no exchange begins with an answer", () => {
  const history = [
    { role: "user", text: " \n" },
    { role: "assistant", text: "A0" },
    ...HISTORY,
    { role: "assistant", text: "" },
  ] as const;
  expect(spoken(history).said[0]).toBe("user: Q1");
  expect(spoken([])).toEqual({ said: [], unanswered: [] });
});

test("the same history seeds the same rows, another session others", () => {
  const ids = (session: string) => seedTranscript(session, "sim/sim-1", HISTORY).rows.map((row) => row.uuid);
  expect(ids("session-1")).toEqual(ids("session-1"));
  expect(ids("session-1")).not.toEqual(ids("session-2"));
});
