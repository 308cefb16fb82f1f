import { describe, expect, test } from "vitest";
import { damageOf } from "./transcript-check.ts";
import type { ContentBlock, TranscriptRow } from "./transcript-row.ts";

/** Rows shaped like the engine's, linked the way it links them. */
const user = (uuid: string, parentUuid: string | null, content: readonly ContentBlock[] | string): TranscriptRow => ({
  type: "user",
  uuid,
  parentUuid,
  message: { content },
});
const assistant = (uuid: string, parentUuid: string, content: readonly ContentBlock[]): TranscriptRow => ({
  type: "assistant",
  uuid,
  parentUuid,
  message: { id: `m-${uuid}`, stop_reason: "end_turn", content },
});
const stopping = (reason: string | null, row: TranscriptRow): TranscriptRow => ({
  ...row,
  message: { ...row.message, stop_reason: reason },
});
const said = (text: string): readonly ContentBlock[] => [{ type: "text", text }];
const call = (id: string): readonly ContentBlock[] => [{ type: "tool_use", id, name: "t" }];
const resultOf = (id: string): readonly ContentBlock[] => [{ type: "tool_result", tool_use_id: id }];

const turn: readonly TranscriptRow[] = [
  user("u1", null, said("Q1")),
  { type: "attachment", uuid: "x1", parentUuid: "u1" },
  { type: "tools-used" },
  stopping("tool_use", assistant("a1", "x1", said("Looking."))),
  stopping("tool_use", assistant("a2", "a1", call("t1"))),
  stopping("tool_use", assistant("a3", "a2", call("t2"))),
  user("r1", "a2", resultOf("t1")),
  user("r2", "a3", resultOf("t2")),
  assistant("a4", "r2", said("A1")),
];

test("a whole turn with calls made side by side is sound", () => {
  expect(damageOf(turn)).toBe("");
  expect(damageOf([...turn, user("u2", "a4", said("Q2")), assistant("b1", "u2", said("A2"))])).toBe("");
});

test("rows written twice are sound, rows of one id with two parents are not", () => {
  expect(damageOf([...turn, turn[3]!])).toBe("");
  expect(damageOf([...turn, user("u1", "a4", said("other"))])).toBe("conflicting row");
});

test("nothing at all is no transcript", () => {
  expect(damageOf([])).toBe("empty");
  expect(damageOf([{ type: "mode" }])).toBe("empty");
});

test("any row missing between the first and the last is seen", () => {
  const linked = turn.filter((row) => row.uuid !== undefined);
  const onTheWay = linked.filter((row) => row.uuid !== "a4" && row.uuid !== "r1");
  for (const missing of onTheWay) {
    expect(damageOf(linked.filter((row) => row !== missing))).not.toBe("");
  }
  expect(damageOf(linked.filter((row) => row.uuid !== "a1"))).toBe("missing row");
  expect(damageOf([user("u1", "gone", said("Q")), assistant("a1", "u1", said("A"))])).toBe("missing row");
});

test("two writers leave a fork, and a fork is seen wherever it hangs", () => {
  const second = [user("u9", "x1", said("Q1 again")), assistant("b9", "u9", said("other"))];
  expect(damageOf([...turn.slice(0, 2), ...second, ...turn.slice(2)])).toBe("forked");
  expect(
    damageOf([
      ...turn,
      user("u2", "a4", said("W1")),
      assistant("b1", "u2", said("20")),
      user("u3", "a4", said("W2")),
      assistant("b2", "u3", said("30")),
    ]),
  ).toBe("forked");
  expect(damageOf([user("u0", null, said("first root")), ...turn])).toBe("forked");
});

test("an error shown beside the conversation is not a fork", () => {
  const shown = { ...stopping("stop_sequence", assistant("e1", "a2", said("API Error"))), isApiErrorMessage: true };
  expect(damageOf([...turn.slice(0, 6), shown, ...turn.slice(6)])).toBe("");
});

describe("calls and results", () => {
  test("a call without a result is seen at the tail, in the middle and among several", () => {
    expect(damageOf(turn.slice(0, 6))).toBe("call without result");
    expect(damageOf(turn.filter((row) => row.uuid !== "r1"))).toBe("call without result");
    expect(damageOf([...turn.slice(0, 5), user("u2", "a2", said("Q2")), assistant("b1", "u2", said("A2"))])).toBe(
      "call without result",
    );
  });

  test("a result without a call is seen", () => {
    expect(
      damageOf([user("u1", null, said("Q")), user("r1", "u1", resultOf("t9")), assistant("a1", "r1", said("A"))]),
    ).toBe("result without call");
  });
});

describe("the end of the last turn", () => {
  const asked = [user("u1", null, said("Q"))];
  test.each([
    ["an answer", assistant("a1", "u1", said("A")), ""],
    ["an answer cut at its length", stopping("max_tokens", assistant("a1", "u1", said("A"))), ""],
    [
      "a reported error",
      { ...stopping("stop_sequence", assistant("a1", "u1", said("API Error"))), isApiErrorMessage: true },
      "",
    ],
    ["an interrupt", user("i1", "u1", said("[Request interrupted by user]")), ""],
    ["an interrupt in a tool", user("i1", "u1", said("[Request interrupted by user for tool use]")), ""],
    ["half an answer", stopping(null, assistant("a1", "u1", said("A"))), "unfinished turn"],
    ["a question without an answer", { type: "attachment", uuid: "x1", parentUuid: "u1" }, "unfinished turn"],
  ])("%s", (_name, last, damage) => {
    expect(damageOf([...asked, last])).toBe(damage);
  });
});

test("what was compacted need not hold together any more", () => {
  const boundary: TranscriptRow = { type: "system", subtype: "compact_boundary", uuid: "c1", parentUuid: null };
  const after = [boundary, user("s1", "c1", "Summary of what was said"), assistant("z1", "s1", said("Go on"))];
  expect(damageOf([...turn, ...after])).toBe("");
  expect(damageOf([...turn, ...after, user("u8", "c1", said("fork")), assistant("z2", "s1", said("other"))])).toBe(
    "forked",
  );
});
