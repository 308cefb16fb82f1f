/**
 * The engine summarizes what its model can no longer read. The record then keeps what the engine reads after that, and a
 * session that is opened on it must ask its model exactly what one with the whole transcript would have asked.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { spokenIn, type Script, type WireRequest } from "./claude-sdk/model-double.ts";
import { TOOL } from "./claude-sdk/tool-double.ts";
import { TranscriptDouble } from "./claude-sdk/transcript-double.ts";
import { makeWorld, say, type World } from "./claude-sdk/world.ts";

const SUMMARY = "They talked about documents.";
/** More than any window the engine is told of. */
const FULL_TOKENS = 250_000;

let world: World;
let isFull: boolean;

beforeEach(async () => {
  isFull = false;
  world = await makeWorld(script);
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

const lastOf = (request: WireRequest): string => JSON.stringify(request.body.messages.at(-1));
const asksForSummary = (request: WireRequest): boolean => lastOf(request).includes("<summary>");

const script: Script = (request, callNumber) => {
  if (asksForSummary(request)) return { events: said({ text: `<summary>${SUMMARY}</summary>`, callNumber }) };
  const last = lastOf(request);
  const look = /Look into (\w+)/.exec(last)?.[1];
  if (look !== undefined && !last.includes("tool_result")) {
    const input = { path: `${look}.md` };
    return { blocks: [{ text: ["Looking."] }, { tool: `mcp__signalbox__${TOOL.name}`, id: `toolu_${look}`, input }] };
  }
  return { events: said({ text: `Answer ${callNumber}.`, callNumber }) };
};

/** A message whose usage says how much of its window the model has read. */
function said({ text, callNumber }: { readonly text: string; readonly callNumber: number }) {
  const usage = { input_tokens: isFull ? FULL_TOKENS : 100, output_tokens: 1 };
  const message = { id: `msg_${callNumber}`, type: "message", role: "assistant", model: "double-1", content: [] };
  return [
    { type: "message_start", message: { ...message, stop_reason: null, stop_sequence: null, usage } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage },
    { type: "message_stop" },
  ];
}

/** Turns of one session, the way the record keeps their transcript: what was compacted goes with the turn's end. */
class Kept {
  readonly whole = new TranscriptDouble();
  readonly #gone = new Set<string>();

  /** Everything of the main stream before this place that the engine does not name is left behind. */
  finishTurn(begin: number, compactionsBefore: number): void {
    const [compaction] = this.whole.compactions.slice(compactionsBefore).slice(-1);
    if (compaction === undefined) return;
    for (const { stream, entryId } of this.whole.entries.slice(0, begin)) {
      if (stream === "" && !compaction.keptEntryIds.includes(entryId)) this.#gone.add(entryId);
    }
  }

  get rest(): TranscriptDouble {
    const rest = new TranscriptDouble();
    rest.entries.push(...this.whole.entries.filter(({ entryId }) => !this.#gone.has(entryId)));
    return rest;
  }
}

/** What a model is asked when the conversation goes on, in a new process, from these rows. */
async function asked(transcript: TranscriptDouble, generation: number): Promise<readonly unknown[]> {
  const copy = new TranscriptDouble();
  copy.entries.push(...transcript.entries);
  const { session } = await world.open({ rung: "native", leaf: copy.leaf, transcript: copy, generation });
  const { result } = await say(session, "Sure?", { turnId: `trn_${generation}` });
  expect(result).toMatchObject({ outcome: "done" });
  await session[Symbol.asyncDispose]();
  return world.model.requests.at(-1)!.body.messages;
}

test("a session opened on what is kept asks what one with every row would ask, compaction after compaction", async () => {
  const kept = new Kept();
  const { session } = await world.open({ transcript: kept.whole });
  const turn = async (text: string): Promise<readonly string[]> => {
    const [begin, compactions] = [kept.whole.entries.length, kept.whole.compactions.length];
    const { result, events } = await say(session, text, { turnId: `trn_${text}` });
    expect(result).toMatchObject({ outcome: "done" });
    kept.finishTurn(begin, compactions);
    return events.flatMap((event) => (event.type === "run.phase" ? [event.phase] : []));
  };
  const counts: number[] = [];
  for (const round of ["one", "two", "three"]) {
    await turn(`Hello ${round}`);
    await turn(`Look into ${round}`);
    isFull = true;
    await turn(`Look into ${round}again`);
    isFull = false;
    expect(await turn(`And ${round}?`)).toContain("compacting");
    counts.push(kept.rest.entries.length);
    expect(kept.rest.entries.length).toBeLessThan(kept.whole.entries.length);
    const generation = 10 * counts.length;
    expect(await asked(kept.rest, generation)).toEqual(await asked(kept.whole, generation + 1));
  }
  expect(JSON.stringify(world.model.requests.at(-1)?.body)).toContain(SUMMARY);
  expect(spokenIn(world.model.requests.at(-1)!).join()).not.toContain("Hello one");
  // What is kept does not grow with what was said.
  expect(Math.max(...counts)).toBeLessThan(counts[0]! * 1.5);
}, 120_000);
