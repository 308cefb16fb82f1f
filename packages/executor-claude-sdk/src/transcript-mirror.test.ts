import { PlatformError, type ErrorCode } from "@signalbox/contract";
import type { TranscriptEntry } from "@signalbox/worker";
import { beforeEach, expect, test } from "vitest";
import { TranscriptMirror } from "./transcript-mirror.ts";

const KEY = { projectKey: "p", sessionId: "s1" };
const row = (uuid: string) => ({ type: "user", uuid, parentUuid: null, message: { content: "hi" } });
const latch = { type: "some-latch", value: 1 };

let appended: TranscriptEntry[];
let failure: Error | null;
let refusals: ErrorCode[];
let mirror: TranscriptMirror;

beforeEach(() => {
  appended = [];
  failure = null;
  refusals = [];
  mirror = new TranscriptMirror({
    log: {
      append: async (entries) => {
        if (failure !== null) {
          throw failure;
        }
        appended.push(...entries);
      },
    },
    sessionId: "s1",
    leaf: null,
    sizeBytes: 0,
    onRefused: (code) => refusals.push(code),
  });
  mirror.openTurn();
});

test("rows become entries in the order they came, and the leaf is the last durable one", async () => {
  const both = Promise.all([mirror.append(KEY, [row("a")]), mirror.append(KEY, [row("b"), row("c")])]);
  expect(mirror.leaf).toBeNull();
  await both;
  expect(appended.map((entry) => entry.entryId)).toEqual(["a", "b", "c"]);
  expect(mirror.leaf).toBe("c");
  expect(mirror.sizeBytes).toBe(appended.reduce((sum, entry) => sum + entry.body.length, 0));
});

test("rows of a subagent go to a stream of their own and do not move the leaf", async () => {
  await mirror.append(KEY, [row("a")]);
  await mirror.append({ ...KEY, subpath: "subagents/agent-1" }, [row("z")]);
  expect(appended.map((entry) => entry.stream)).toEqual(["", "subagents/agent-1"]);
  expect(mirror.leaf).toBe("a");
});

test("a row without an id gets one that a repeated write arrives at again, and another place does not", async () => {
  failure = new PlatformError("database_unavailable");
  await expect(mirror.append(KEY, [row("a"), latch])).rejects.toMatchObject({ code: "database_unavailable" });
  failure = null;
  await mirror.append(KEY, [row("a"), latch]);
  const first = appended.at(-1)?.entryId;
  await mirror.append(KEY, [row("b"), latch]);
  expect(appended.at(-1)?.entryId).not.toBe(first);

  const again: TranscriptEntry[] = [];
  const log = {
    append: async (entries: readonly TranscriptEntry[]) => void again.push(...entries),
    load: async () => [],
  };
  const other = new TranscriptMirror({ log, sessionId: "s1", leaf: null, sizeBytes: 0, onRefused: () => undefined });
  other.openTurn();
  await other.append(KEY, [row("a"), latch]);
  expect(again.at(-1)?.entryId).toBe(first);
});

test("bookkeeping is never kept, and after a turn no row without an id is", async () => {
  await mirror.append(KEY, [{ type: "last-prompt" }, { type: "queue-operation" }, latch]);
  mirror.closeTurn();
  await mirror.append(KEY, [latch, { type: "cost-state" }]);
  expect(appended).toHaveLength(1);
  await mirror.append(KEY, [row("a")]);
  expect(mirror.leaf).toBe("a");
});

test.each(["stale_generation", "slot_unknown", "run_cancelled", "run_stopped"] as const)(
  "a write refused with %s is reported at once and once, and nothing is written after it",
  async (code) => {
    failure = new PlatformError(code);
    await expect(mirror.append(KEY, [row("a")])).rejects.toMatchObject({ code });
    failure = null;
    await mirror.append(KEY, [row("b")]);
    expect(refusals).toEqual([code]);
    expect(appended).toEqual([]);
    expect(mirror.leaf).toBeNull();
  },
);

test("a failure that may pass is left to be tried again", async () => {
  failure = new PlatformError("database_unavailable");
  await expect(mirror.append(KEY, [row("a")])).rejects.toMatchObject({ code: "database_unavailable" });
  expect(refusals).toEqual([]);
});

test("rows of another session are refused", async () => {
  await expect(mirror.append({ ...KEY, sessionId: "s2" }, [row("a")])).rejects.toThrow(PlatformError);
  expect(refusals).toEqual(["transcript_not_durable"]);
});

test("what would poison a store is replaced, and the literal escape stays", async () => {
  await mirror.append(KEY, [{ type: "user", uuid: "a", message: { content: "x \ud83d y \u0000 z \\u0000" } }]);
  const stored = new TextDecoder().decode(appended[0]?.body);
  expect(JSON.parse(stored)).toMatchObject({ message: { content: "x \ufffd y \ufffd z \\u0000" } });
});
