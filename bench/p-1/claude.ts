/** P-1 on claude_sdk: the platform against a bare `query()`, warm against warm and cold against cold. */
import type { BarResult } from "../bar.ts";
import { added } from "./langgraph.ts";
import { newConversations, runPair, timesOf, type Arena, type Pair } from "./sides.ts";

/** The program costs about a second of CPU to start and many milliseconds for each turn: fewer runs than langgraph's. */
const WARM_RUN_COUNT = 60;
const WARM_UP_COUNT = 20;
const COLD_RUN_COUNT = 5;
const TURNS_PER_CONVERSATION = 20;
const TEXT = "[[sim:tokens 20]] Answer at once.";

export const CLAUDE_CASES = ["instant", "cold"] as const;

/** Next turns of a program that is kept, on both sides. */
export async function measureWarm(arena: Arena): Promise<BarResult> {
  const warmUpCount = Math.min(arena.options.warmUpCount ?? WARM_UP_COUNT, WARM_UP_COUNT);
  const runCount = Math.min(arena.options.runCount ?? WARM_RUN_COUNT, WARM_RUN_COUNT);
  arena.options.say(`claude_sdk: ${warmUpCount} turns of each side to warm up, ${runCount} measured`);
  const pairs: Pair[] = [];
  let open = await newConversations(arena);
  await runPair(arena, open, { text: TEXT, round: 0 });
  for (let round = 1; round <= warmUpCount + runCount; round += 1) {
    if (round % TURNS_PER_CONVERSATION === 0) {
      open = await newConversations(arena);
      await runPair(arena, open, { text: TEXT, round });
    }
    const pair = await runPair(arena, open, { text: TEXT, round });
    if (round > warmUpCount) pairs.push(pair);
  }
  const sides = timesOf(pairs, (run) => run.firstTokenMs);
  return added("P-1/claude_sdk/instant", sides, "next turn of a kept program");
}

/** A new conversation, whose program is started for it, on both sides. */
export async function measureCold(arena: Arena): Promise<BarResult> {
  const runCount = Math.min(arena.options.runCount ?? COLD_RUN_COUNT, COLD_RUN_COUNT);
  arena.options.say(`claude_sdk: ${runCount} cold starts of each side`);
  const pairs: Pair[] = [];
  for (let round = 0; round <= runCount; round += 1) {
    const pair = await runPair(arena, await newConversations(arena), { text: TEXT, round });
    // The first start reads the program from the disk.
    if (round > 0) pairs.push(pair);
  }
  const sides = timesOf(pairs, (run) => run.firstTokenMs);
  return added("P-1/claude_sdk/cold", sides, "a new conversation, its program started for it");
}
