import { describe, expect, it } from "vitest";
import { planted, said } from "../planted.ts";
import { checkWords, wordParts, type Words } from "./words.ts";

const FILE = "packages/core/src/run/state.ts";

function wordsFound(files: Readonly<Record<string, string>>, allowed: Words["allowed"] = []): readonly string[] {
  const words: Words = {
    never: [
      { word: "thread", say: "conversation" },
      { word: "lockHolder", say: "owner" },
      { word: "epoch", say: "generation" },
    ],
    allowed,
  };
  return said(checkWords(planted({ "tools/tidy/words.json": JSON.stringify(words), ...files })));
}

describe("words", () => {
  it("splits every way of writing a name", () => {
    expect(wordParts("threadIds")).toEqual(["thread", "id"]);
    expect(wordParts("HTTPThread_ids-x2")).toEqual(["http", "thread", "id", "x2"]);
    expect(wordParts("readThreads")).toEqual(["read", "thread"]);
  });

  it.each([
    ["a variable", "const threadId = 1;", "threadId"],
    ["a function", "function openThread() {}", "openThread"],
    ["a parameter", "const f = (thread: string) => 1;", "thread"],
    ["a type", "type Thread = string;", "Thread"],
    ["a member of a type", "interface A { readonly thread_id: string }", "thread_id"],
    ["a member of a class", "class A { #x = 1; threads = 2; }", "threads"],
    ["a renamed part", "const { id: threadId } = x;", "threadId"],
  ])("reports %s", (_, text, name) => {
    expect(wordsFound({ [FILE]: text })).toEqual([`${FILE}:1 "${name}" says "thread"; say conversation`]);
  });

  it("reports a word of two parts only when both stand together", () => {
    expect(wordsFound({ [FILE]: "const lockHolder = 1; const lock = 1; const holderLock = 2;" })).toEqual([
      `${FILE}:1 "lockHolder" says "lockHolder"; say owner`,
    ]);
  });

  it("reports file names, tables and columns", () => {
    const sql = "packages/server/migrations/0001.sql";
    expect(
      wordsFound({
        "packages/core/src/thread.ts": "",
        [sql]: "-- thread\ncreate table threads (epoch int, note text default 'thread');",
      }),
    ).toEqual([
      'packages/core/src/thread.ts:0 "thread" says "thread"; say conversation',
      `${sql}:2 "threads" says "thread"; say conversation`,
      `${sql}:2 "epoch" says "epoch"; say generation`,
    ]);
  });

  it("leaves alone what somebody else named", () => {
    const text =
      'import { Thread } from "x"; x.thread = call({ thread_id: 1 }); const { thread } = x; const spread = 1;';
    expect(wordsFound({ [FILE]: text, "packages/a/b.sql": "select extract(epoch from clock())" })).toEqual([]);
  });

  it("honours an allowance in its place only, and reports one nobody needs", () => {
    const allowed = [
      { word: "thread", where: "packages/core/src/run/", reason: "a test" },
      { word: "epoch", where: FILE, reason: "a test" },
    ];
    const elsewhere = "packages/core/src/turn/turn.ts";
    expect(wordsFound({ [FILE]: "const thread = 1;", [elsewhere]: "const thread = 1;" }, allowed)).toEqual([
      `${elsewhere}:1 "thread" says "thread"; say conversation`,
      `tools/tidy/words.json:0 allows "epoch" in ${FILE}, where nothing says it`,
    ]);
  });
});
