import { describe, expect, it } from "vitest";
import type { PastCall } from "../ports/ownership-record.ts";
import { missedFacts, seedOf } from "./past.ts";

const PAID: PastCall = { name: "pay", argumentsJson: '{"cents":5}', state: "succeeded", resultSummary: 'paid "5"' };
const TOLD = 'The tool pay was called with {"cents":5} and succeeded. Its result: "paid \\"5\\""';

describe("what a later turn is told", () => {
  it("puts the calls of a turn before its answer, and in its place where it has none", () => {
    expect(
      seedOf([
        { role: "user", text: "pay", calls: [PAID] },
        { role: "assistant", text: "Done.", calls: [] },
        { role: "user", text: "again", calls: [PAID, { ...PAID, state: "unknown", resultSummary: null }] },
        { role: "user", text: "and?", calls: [] },
        { role: "user", text: "last", calls: [PAID] },
      ]),
    ).toEqual([
      { role: "user", text: "pay" },
      { role: "assistant", text: `[${TOLD}]\n\nDone.` },
      { role: "user", text: "again" },
      {
        role: "assistant",
        text: `[${TOLD} The tool pay was called with {"cents":5} and it is not known what came of it; it may have taken effect.]`,
      },
      { role: "user", text: "and?" },
      { role: "user", text: "last" },
      { role: "assistant", text: `[${TOLD}]` },
    ]);
  });

  it("states the message of a turn that is missing, how it ended and what it did", () => {
    expect(missedFacts([{ text: 'say "x"', outcome: "failed", reason: "provider_error", calls: [PAID] }])).toEqual([
      'An earlier message of the user is not part of this conversation\'s transcript; its turn ended failed (provider_error). The message: "say \\"x\\""',
      `In that turn: ${TOLD}`,
    ]);
  });
});
