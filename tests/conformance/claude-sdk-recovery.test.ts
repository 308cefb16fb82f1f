/** A turn that a worker left in the engine's transcript, gone on with by another process. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { EffectClass } from "@signalbox/contract";
import type { EngineSession, TranscriptEntry } from "@signalbox/worker";
import { spokenIn, type Reply } from "./claude-sdk/model-double.ts";
import { TranscriptDouble } from "./claude-sdk/transcript-double.ts";
import { makeWorld, READER_TOOLS, recover, say, visibleTexts, type World } from "./claude-sdk/world.ts";

const READ = "mcp__signalbox__docs__read";
const ANSWER = "The code is 4711.";
const WENT_ON = "Continue from where you left off.";

const lookThenAnswer = ({ body }: { readonly body: { readonly messages: readonly unknown[] } }): Reply =>
  JSON.stringify(body.messages.at(-1)).includes("tool_result")
    ? { blocks: [{ text: [ANSWER] }] }
    : {
        blocks: [
          { text: ["Looking. "] },
          { tool: READ, id: `toolu_a${String(body.messages.length)}`, input: { path: "a.md" } },
          { tool: READ, id: `toolu_b${String(body.messages.length)}`, input: { path: "b.md" } },
        ],
      };

let world: World;
beforeEach(async () => {
  world = await makeWorld(lookThenAnswer);
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

type Row = Readonly<Record<string, unknown>> & { readonly message?: { readonly content?: unknown } };

function rowOf(entry: TranscriptEntry): Row {
  return JSON.parse(new TextDecoder().decode(entry.body)) as Row;
}

const isCall =
  (id: string) =>
  (entry: TranscriptEntry): boolean =>
    JSON.stringify(rowOf(entry).message?.content ?? "").includes(`"id":"${id}"`);
const isResult =
  (id: string) =>
  (entry: TranscriptEntry): boolean =>
    JSON.stringify(rowOf(entry).message?.content ?? "").includes(`"tool_use_id":"${id}"`);

/** The entries of one whole turn. */
async function wholeTurn(): Promise<readonly TranscriptEntry[]> {
  const { session, transcript } = await world.open();
  await say(session, "Find the code", { turnId: "trn_1" });
  await session[Symbol.asyncDispose]();
  return [...transcript.entries];
}

function left(entries: readonly TranscriptEntry[]): TranscriptDouble {
  const transcript = new TranscriptDouble();
  transcript.entries.push(...entries);
  for (const id of ["toolu_a1", "toolu_b1"]) {
    const resultJson = JSON.stringify({ content: [{ type: "text", text: `ledger ${id}` }] });
    transcript.ledger.push({ toolUseId: id, state: "succeeded", resultJson });
  }
  return transcript;
}

const goOn = (transcript: TranscriptDouble, generation = 2) =>
  world.open({ rung: "repaired", leaf: transcript.leaf, transcript, generation });

async function goOnWith(transcript: TranscriptDouble, effect: EffectClass): Promise<EngineSession> {
  const snapshot = { tools: READER_TOOLS.map((tool) => ({ ...tool, effect })) };
  return (await world.open({ rung: "repaired", leaf: transcript.leaf, transcript, generation: 2, snapshot })).session;
}

const isAnswer = (entry: TranscriptEntry): boolean =>
  JSON.stringify(rowOf(entry).message?.content ?? "").includes(JSON.stringify(ANSWER).slice(1, -1));

/** Without its answer, and without rows that the engine may have added after it. */
const unanswered = (all: readonly TranscriptEntry[]): readonly TranscriptEntry[] =>
  all.slice(
    0,
    all.findIndex((entry) => isAnswer(entry)),
  );

/** How a turn of two calls may have been left, by what its last rows are. */
const LEFT: Readonly<Record<string, (all: readonly TranscriptEntry[]) => readonly TranscriptEntry[]>> = {
  "both results": unanswered,
  "both calls": (all) => all.slice(0, all.findLastIndex(isCall("toolu_b1")) + 1),
  "the first result": (all) => unanswered(all).filter((entry) => !isResult("toolu_b1")(entry)),
  "the second result": (all) => unanswered(all).filter((entry) => !isResult("toolu_a1")(entry)),
};

test.each(Object.entries(LEFT))(
  "goes on where the rows end in %s, with the ledger's results, and the next turn reads a whole transcript",
  async (_name, leftOf) => {
    const transcript = left(leftOf(await wholeTurn()));
    // An engine may ask its model as soon as it is opened.
    const asked = world.model.requests.length;
    const called = world.tools.calls.length;
    const { session } = await goOn(transcript);
    const { result, events } = await recover(session, { itm_seen: "Looking. ", itm_gone: "Not kept" });
    expect(result).toMatchObject({ outcome: "done", answer: ANSWER, error: null, leaf: transcript.leaf });
    expect(visibleTexts(events)).toEqual([ANSWER]);
    expect(events[0]).toEqual({ type: "text.retracted", itemId: "itm_gone", cause: "not_continued" });
    expect(world.tools.calls.length).toBe(called);
    expect(world.model.requests.length).toBe(asked + 1);
    const spoken = spokenIn(world.model.requests.at(-1)!);
    expect(spoken.slice(0, 2)).toEqual([
      "user: Find the code",
      "assistant: Looking. + [tool_use toolu_a1] + [tool_use toolu_b1]",
    ]);
    expect(spoken[2]).toContain("[tool_result toolu_a1]");
    expect(spoken[2]).toContain("[tool_result toolu_b1]");
    expect(spoken.join().split("Find the code")).toHaveLength(2);
    await session[Symbol.asyncDispose]();
    world.model.script = () => ({ blocks: [{ text: ["As I said."] }] });
    const next = await world.open({ rung: "native", leaf: transcript.leaf, transcript, generation: 3 });
    expect((await say(next.session, "Sure?", { turnId: "trn_2" })).result).toMatchObject({ answer: "As I said." });
    expect(spokenIn(world.model.requests.at(-1)!).slice(-2)).toEqual([`assistant: ${ANSWER}`, "user: Sure?"]);
    await next.session[Symbol.asyncDispose]();
  },
);

test("a turn that was over is answered without asking anybody; one that has nothing yet cannot be gone on with", async () => {
  const all = await wholeTurn();
  const asked = world.model.requests.length;
  const over = await goOn(left(all));
  const { result, events } = await recover(over.session, { itm_seen: ANSWER });
  expect(result).toMatchObject({ outcome: "done", answer: ANSWER, stopReason: "end_turn" });
  expect(visibleTexts(events)).toEqual(["Looking. "]);
  expect(world.model.requests.length).toBe(asked);
  const firstSaid = all.findIndex((entry) => rowOf(entry).type === "assistant");
  for (const count of [1, firstSaid, firstSaid + 1]) {
    await expect(goOn(left(all.slice(0, count)))).rejects.toMatchObject({ code: "transcript_corrupt" });
  }
});

test("what an interrupt left is cut from the record, and the turn goes on before it", async () => {
  const all = await wholeTurn();
  const lastResult = all.findLast(isResult("toolu_b1"))!;
  const torn = [
    {
      type: "assistant",
      message: { id: "msg_9", role: "assistant", content: [{ type: "text", text: "The co" }], stop_reason: null },
    },
    { type: "user", message: { role: "user", content: [{ type: "text", text: "[Request interrupted by user]" }] } },
  ];
  let parentUuid = lastResult.entryId;
  const entries = torn.map((row, place): TranscriptEntry => {
    const uuid = `00000000-0000-4000-8000-00000000000${String(place)}`;
    const body = new TextEncoder().encode(
      JSON.stringify({ ...row, uuid, parentUuid, sessionId: rowOf(lastResult).sessionId, isSidechain: false }),
    );
    parentUuid = uuid;
    return { kind: "item", entryId: uuid, stream: "", body };
  });
  const transcript = left([...unanswered(all), ...entries]);
  const { session } = await goOn(transcript);
  const kept = all.slice(0, all.indexOf(lastResult) + 1);
  const expectCut = (): void => {
    // The engine may have begun to go on as soon as it was opened: what it adds stands behind the last result.
    expect(transcript.entries.slice(0, kept.length)).toEqual(kept);
    const added = JSON.stringify(transcript.rows().slice(kept.length));
    for (const { entryId } of entries) expect(added).not.toContain(entryId);
    expect(added).not.toMatch(/"The co"|interrupted by user/);
  };
  expectCut();
  const { result } = await recover(session);
  expect(result).toMatchObject({ outcome: "done", answer: ANSWER });
  expectCut();
  const spoken = spokenIn(world.model.requests.at(-1)!);
  expect(spoken.join()).not.toContain("The co +");
  expect(spoken.join()).not.toContain("interrupted");
  expect(spoken.at(-1)).toBe(`user: [tool_result toolu_a1] + [tool_result toolu_b1] + ${WENT_ON}`);
});

test("of calls without an outcome a look is taken again, under its own id; anything else is told as what it is", async () => {
  const all = await wholeTurn();
  for (const effect of ["read", "write"] as const) {
    const transcript = left(all.slice(0, all.findLastIndex(isCall("toolu_b1")) + 1));
    transcript.ledger.splice(0, 2, { toolUseId: "toolu_a1", state: "unknown", resultJson: "" });
    const called = world.tools.calls.length;
    const session = await goOnWith(transcript, effect);
    const { result } = await recover(session);
    expect(result).toMatchObject({ outcome: "done", answer: ANSWER });
    const results = JSON.stringify(world.model.requests.at(-1)!.body.messages);
    const taken = { name: "docs__read", args: { path: "a.md" }, toolUseId: "toolu_a1" };
    expect(world.tools.calls.slice(called)).toEqual(effect === "read" ? [taken] : []);
    expect(results).toContain(effect === "read" ? "contents of a.md" : "The outcome of this call is not known");
    expect(results).toContain("This call was not made");
    await session[Symbol.asyncDispose]();
  }
});

test("what the engine itself put in place of a lost call's result is cut, with all that followed", async () => {
  const all = await wholeTurn();
  const transcript = left(unanswered(all));
  transcript.ledger.splice(1, 1, { toolUseId: "toolu_b1", state: "unknown", resultJson: "" });
  world.tools.handle = () => "looked again";
  const session = await goOnWith(transcript, "read");
  expect(await recover(session)).toMatchObject({ result: { outcome: "done", answer: ANSWER, leaf: transcript.leaf } });
  const results = JSON.stringify(world.model.requests.at(-1)!.body.messages);
  expect(results).toContain("looked again");
  expect(results).not.toContain("contents of b.md");
  expect(transcript.rows().filter((row) => JSON.stringify(row).includes("toolu_b1"))).toHaveLength(2);
});

test("a hole, a fork and a foreign end are refused", async () => {
  const all = await wholeTurn();
  const call = all.findIndex(isCall("toolu_a1"));
  const hole = left([...all.slice(0, call), ...all.slice(call + 1, -1)]);
  await expect(goOn(hole)).rejects.toMatchObject({ code: "transcript_corrupt" });
  const prompt = rowOf(all[0]!);
  const forked = { ...prompt, uuid: "00000000-0000-4000-8000-0000000000aa" };
  const body = new TextEncoder().encode(JSON.stringify(forked));
  const fork = left([all[0]!, { kind: "item", entryId: forked.uuid, stream: "", body }, ...all.slice(1, -1)]);
  await expect(goOn(fork)).rejects.toMatchObject({ code: "transcript_corrupt" });
  const other = left(unanswered(all));
  await expect(
    world.open({ rung: "repaired", leaf: "another", transcript: other, generation: 2 }),
  ).rejects.toMatchObject({ code: "transcript_corrupt" });
});
