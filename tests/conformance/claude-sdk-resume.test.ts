import { readdirSync } from "node:fs";
import { PlatformError } from "@signalbox/contract";
import { afterEach, beforeEach, expect, test } from "vitest";
import { spokenIn, type Reply } from "./claude-sdk/model-double.ts";
import { TranscriptDouble } from "./claude-sdk/transcript-double.ts";
import { makeWorld, say, visibleTexts, type World } from "./claude-sdk/world.ts";

const READ = "mcp__signalbox__docs__read";

const lookThenAnswer = ({ body }: { readonly body: { readonly messages: readonly unknown[] } }): Reply =>
  JSON.stringify(body.messages.at(-1)).includes("tool_result")
    ? { blocks: [{ text: ["The code is 4711."] }] }
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

test("another process with an empty directory goes on from the stored entries alone", async () => {
  const first = await world.open();
  const told = await say(first.session, "Find the code", { turnId: "trn_1" });
  expect(told.result).toMatchObject({ outcome: "done", answer: "The code is 4711." });
  await first.session[Symbol.asyncDispose]();
  expect(readdirSync(world.scratchDir)).toEqual([]);
  expect(world.engines()).toEqual([]);

  const transcript = new TranscriptDouble();
  transcript.entries.push(...first.transcript.entries);
  const second = await world.open({ rung: "native", leaf: told.result.leaf, transcript, generation: 2 });
  expect(second.session.leaf).toBe(told.result.leaf);
  world.model.script = () => ({ blocks: [{ text: ["4711, as I said."] }] });
  const { result } = await say(second.session, "What was it?", { turnId: "trn_2" });

  expect(result).toMatchObject({ outcome: "done", answer: "4711, as I said." });
  expect(spokenIn(world.model.requests.at(-1)!)).toEqual([
    "user: Find the code",
    "assistant: Looking. + [tool_use toolu_a1] + [tool_use toolu_b1]",
    "user: [tool_result toolu_a1] + [tool_result toolu_b1]",
    "assistant: The code is 4711.",
    "user: What was it?",
  ]);
});

test("every stored entry has an id of its own, and the message's follows from its turn and owner", async () => {
  const [one, two] = [await world.open({ generation: 1 }), await world.open({ generation: 2 })];
  await say(one.session, "Find the code", { turnId: "trn_1" });
  await say(two.session, "Find the code", { turnId: "trn_1" });

  const ids = one.transcript.entries.map((entry) => entry.entryId);
  expect(new Set(ids).size).toBe(ids.length);
  expect(one.transcript.entries.every((entry) => entry.kind === "item" && entry.stream === "")).toBe(true);
  // A turn run again by a later owner must not meet the rows of the one that was cut.
  const others = new Set(two.transcript.entries.map((entry) => entry.entryId));
  expect(ids.filter((id) => others.has(id))).toEqual([]);
  expect(one.transcript.rows().at(-1)?.sessionId).not.toBe(two.transcript.rows().at(-1)?.sessionId);
});

test("a process kept for a later owner goes on where it was", async () => {
  const { session, transcript } = await world.open({ generation: 1 });
  await say(session, "Find the code", { turnId: "trn_1" });
  const before = world.engines();

  session.rebind(2);
  world.model.script = () => ({ blocks: [{ text: ["Yes."] }] });
  const { result } = await say(session, "Sure?", { turnId: "trn_2" });

  expect(result).toMatchObject({ outcome: "done", answer: "Yes.", leaf: transcript.leaf });
  expect(world.engines()).toEqual(before);
  expect(() => session.rebind(2)).toThrow(PlatformError);
  const { leaf, sizeBytes } = await session.checkpoint();
  expect(leaf).toBe(transcript.leaf);
  expect(sizeBytes).toBe(transcript.entries.reduce((sum, entry) => sum + entry.body.length, 0));
});

test("a rebuilt session knows the history, takes an open question along, and can itself be resumed", async () => {
  world.model.script = () => ({ blocks: [{ text: ["Ada."] }] });
  const history = [
    { role: "user", text: "/clear My name is Ada" },
    { role: "assistant", text: "Hello Ada" },
    { role: "user", text: "Are you there?" },
  ] as const;
  const rebuilt = await world.open({ rung: "rebuilt", history, generation: 3 });
  expect(rebuilt.session.leaf).toBe(rebuilt.transcript.leaf);
  const { result } = await say(rebuilt.session, "Who am I?", { turnId: "trn_1" });
  const spoken = ["user: /clear My name is Ada", "assistant: Hello Ada", "user: Are you there? + Who am I?"];
  expect(spokenIn(world.model.requests.at(-1)!)).toEqual(spoken);
  await rebuilt.session[Symbol.asyncDispose]();

  const { transcript } = rebuilt;
  const resumed = await world.open({ rung: "native", leaf: result.leaf, transcript, generation: 4 });
  await say(resumed.session, "Once more?", { turnId: "trn_2" });
  expect(spokenIn(world.model.requests.at(-1)!)).toEqual([...spoken, "assistant: Ada.", "user: Once more?"]);
});

test("a session rebuilt after a broken one resumes its own rows and not the broken ones", async () => {
  const broken = await world.open({ generation: 1 });
  await say(broken.session, "Find the code", { turnId: "trn_1" });
  const { transcript } = broken;
  const history = [
    { role: "user", text: "Find the code" },
    { role: "assistant", text: "The code is 4711." },
  ] as const;
  const rebuilt = await world.open({ rung: "rebuilt", history, transcript, generation: 2 });
  const leaf = rebuilt.session.leaf;
  await rebuilt.session[Symbol.asyncDispose]();

  world.model.script = () => ({ blocks: [{ text: ["Yes."] }] });
  const resumed = await world.open({ rung: "native", leaf, transcript, generation: 3 });
  await say(resumed.session, "Sure?", { turnId: "trn_2" });
  expect(spokenIn(world.model.requests.at(-1)!)).toEqual([
    "user: Find the code",
    "assistant: The code is 4711.",
    "user: Sure?",
  ]);
});

test("a transcript that is not whole, or not the expected one, is not resumed", async () => {
  const { session, transcript } = await world.open();
  const { result } = await say(session, "Find the code", { turnId: "trn_1" });
  const { leaf } = result;
  const damaged = async (change: (entries: TranscriptDouble["entries"]) => void): Promise<unknown> => {
    const copy = new TranscriptDouble();
    copy.entries.push(...transcript.entries);
    change(copy.entries);
    return world.open({ rung: "native", leaf, transcript: copy, generation: 2 }).catch((error: unknown) => error);
  };

  const rowIndex = (type: string): number => transcript.rows().findIndex((row) => row.type === type);
  expect(await damaged((entries) => entries.splice(rowIndex("assistant"), 1))).toMatchObject({
    code: "transcript_corrupt",
  });
  expect(await damaged((entries) => entries.splice(-1, 1))).toMatchObject({ code: "transcript_corrupt" });
  expect(await damaged((entries) => entries.splice(0))).toMatchObject({ code: "transcript_corrupt" });
  const torn = { ...transcript.entries.at(-1)!, body: new TextEncoder().encode('{"type":"assist') };
  expect(await damaged((entries) => entries.splice(-1, 1, torn))).toMatchObject({ code: "transcript_corrupt" });
  expect(world.engines().length).toBe(1);
});

test("a stale append kills the engine at once, and nothing more is written", async () => {
  const { session, transcript, losses } = await world.open();
  await say(session, "Find the code", { turnId: "trn_1" });
  const kept = transcript.entries.length;
  transcript.refusal = new PlatformError("stale_generation");
  const { promise: never, resolve: release } = Promise.withResolvers<void>();
  world.model.script = () => ({ blocks: [{ text: ["This is for nobody ", never] }] });

  const { result, events } = await say(session, "Go on", { turnId: "trn_2" });
  release();

  expect(result).toMatchObject({ outcome: "failed", answer: "", leaf: null, error: { code: "stale_generation" } });
  expect(visibleTexts(events)).toEqual([]);
  expect(losses.map((loss) => loss.code)).toEqual(["stale_generation"]);
  expect(transcript.entries.length).toBe(kept);
  await expect.poll(() => world.engines(), { timeout: 10_000 }).toEqual([]);
  expect((await say(session, "Still there?")).result.error?.code).toBe("stale_generation");
});

test("rows that cannot be made durable end the run, although the engine would call it a success", async () => {
  const { session, transcript, losses } = await world.open();
  transcript.refusal = new PlatformError("database_unavailable");
  world.model.script = () => ({ blocks: [{ text: ["Done."] }] });

  const { result } = await say(session, "Go on", { turnId: "trn_1" });

  expect(result).toMatchObject({ outcome: "failed", leaf: null, error: { code: "transcript_not_durable" } });
  expect(losses.map((loss) => loss.code)).toEqual(["transcript_not_durable"]);
});
