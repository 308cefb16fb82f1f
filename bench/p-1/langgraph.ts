/** P-1 on langgraph: the platform against the bare graph. */
import type { BarResult } from "../bar.ts";
import type { BareProcess } from "../bare/bare-process.ts";
import { cpuMsOf } from "../stage/cpu.ts";
import { median, medianOfPairs, ms, percentile, rounded, spread } from "../statistics.ts";
import { commitsBeforeFirstToken } from "./commits.ts";
import { newConversations, runPair, timesOf, type Arena, type Conversations, type Pair, type Sides } from "./sides.ts";

const RUN_COUNT = 300;
const SLOW_RUN_COUNT = 40;
const FLOOD_RUN_COUNT = 15;
const COMMIT_RUN_COUNT = 25;
/** A conversation is left after so many turns, so that what is sent stays about the same size. */
const TURNS_PER_CONVERSATION = 10;
const FLOOD_TOKENS = 4_000;

const ADDED_MS = 6;
const SLOW_RATIO = 1.05;
const FLOOD_RATIO = 1;
const COMMITS = 3;
/** Well below any timer of ours: the emitter's 100 ms would show. */
const END_MS = 50;

const INSTANT_TEXT = "[[sim:tokens 20]] Answer at once.";
const SLOW_TEXT = "[[sim:tokens 20]] [[sim:wait 300]] Answer after a while.";
const FLOOD_TEXT = `[[sim:tokens ${FLOOD_TOKENS}]] Answer at length.`;

export const LANGGRAPH_CASES = ["instant", "instant-next", "end", "commits", "300ms", "flood", "flood-thin"] as const;
const OF_INSTANT = ["instant", "instant-next", "end"] as const;

const idOf = (name: (typeof LANGGRAPH_CASES)[number]): string => `P-1/langgraph/${name}`;

export async function* measureLanggraph(arena: LanggraphArena): AsyncGenerator<BarResult> {
  const { options } = arena;
  const warmUpCount = options.warmUpCount ?? RUN_COUNT;
  options.say(`langgraph: ${warmUpCount} rounds to warm up`);
  await instantRounds(arena, warmUpCount);
  if (OF_INSTANT.some((name) => options.wants(idOf(name)))) yield* instant(arena);
  if (options.wants(idOf("commits"))) yield await commits(arena);
  if (options.wants(idOf("300ms"))) yield await slow(arena);
  if (options.wants(idOf("flood"))) {
    yield await flood({ ...arena, bare: arena.chatBare }, "the graph's own stream of messages");
  }
  if (options.wants(idOf("flood-thin"))) {
    yield { ...(await flood(arena, "a callback past the graph")), id: idOf("flood-thin"), bar: null, holds: null };
  }
}

export interface LanggraphArena extends Arena {
  /** The bare graph whose tokens leave through LangGraph; `bare` is the thin one. */
  readonly chatBare: BareProcess;
}

interface InstantPairs {
  readonly fresh: readonly Pair[];
  readonly next: readonly Pair[];
}

/** Each round is a run in a new conversation and a next turn in an open one, on both sides. */
async function instantRounds(arena: Arena, roundCount: number): Promise<InstantPairs> {
  const fresh: Pair[] = [];
  const next: Pair[] = [];
  let open: Conversations | null = null;
  for (let round = 0; round < roundCount; round += 1) {
    fresh.push(await runPair(arena, await newConversations(arena), { text: INSTANT_TEXT, round }));
    if (open === null || round % TURNS_PER_CONVERSATION === 0) {
      open = await newConversations(arena);
      await runPair(arena, open, { text: INSTANT_TEXT, round });
    }
    next.push(await runPair(arena, open, { text: INSTANT_TEXT, round }));
  }
  return { fresh, next };
}

async function* instant(arena: Arena): AsyncGenerator<BarResult> {
  const { options, stage, bare } = arena;
  const roundCount = options.runCount ?? RUN_COUNT;
  options.say(`langgraph: ${roundCount} measured rounds, each a new conversation and a next turn on both sides`);
  const before = { ours: cpuMsOf(stage.pids), bare: cpuMsOf([bare.pid]) };
  const { fresh, next } = await instantRounds(arena, roundCount);
  // Runs that only opened a conversation cost CPU as well.
  const runCount = roundCount * 2 + Math.ceil(roundCount / TURNS_PER_CONVERSATION);
  const cpu =
    `CPU per run: platform and worker ${ms((cpuMsOf(stage.pids) - before.ours) / runCount)}, ` +
    `bare ${ms((cpuMsOf([bare.pid]) - before.bare) / runCount)}`;
  for (const [name, pairs] of [
    ["instant", fresh],
    ["instant-next", next],
  ] as const) {
    if (!options.wants(idOf(name))) continue;
    const sides = timesOf(pairs, (run) => run.firstTokenMs);
    yield added(idOf(name), sides, cpu);
  }
  if (options.wants(idOf("end"))) yield endOf([...fresh, ...next]);
}

export function added(id: string, { bare, ours }: Sides, extra: string): BarResult {
  const value = rounded(median(ours) - median(bare));
  const p95 = percentile(ours, 0.95) - percentile(bare, 0.95);
  return {
    id,
    value,
    unit: "ms added",
    bar: ADDED_MS,
    holds: value <= ADDED_MS,
    n: ours.length,
    note:
      `platform ${spread(ours)}; bare ${spread(bare)}; added at p95 ${ms(p95)}; ` +
      `median of neighbouring pairs ${ms(medianOfPairs(ours, bare))}; ${extra}`,
  };
}

function endOf(pairs: readonly Pair[]): BarResult {
  const { bare, ours } = timesOf(pairs, (run) => run.finishedMs - run.lastTokenMs);
  const value = rounded(median(ours));
  const note = `from the last token to run.finished, everything durable: ${spread(ours)}; bare ${spread(bare)}`;
  return { id: idOf("end"), value, unit: "ms", bar: END_MS, holds: value <= END_MS, n: ours.length, note };
}

async function commits(arena: Arena): Promise<BarResult> {
  const runs = await commitsBeforeFirstToken(arena, arena.options.runCount ?? COMMIT_RUN_COUNT);
  const counts = runs.map((names) => names.length);
  const value = median(counts);
  const typical = runs.find((names) => names.length === value) ?? [];
  const note = `writing transactions from the request to its first token: ${typical.join(", ")}`;
  return { id: idOf("commits"), value, unit: "commits", bar: COMMITS, holds: value <= COMMITS, n: counts.length, note };
}

async function slow(arena: Arena): Promise<BarResult> {
  const runCount = arena.options.runCount ?? SLOW_RUN_COUNT;
  arena.options.say(`langgraph: ${runCount} runs of each side with a double that waits 300 ms`);
  const pairs: Pair[] = [];
  for (let round = 0; round < runCount; round += 1) {
    pairs.push(await runPair(arena, await newConversations(arena), { text: SLOW_TEXT, round }));
  }
  const { bare, ours } = timesOf(pairs, (run) => run.firstTokenMs);
  const value = rounded(median(ours) / median(bare));
  const note = `platform ${spread(ours)}; bare ${spread(bare)}`;
  return { id: idOf("300ms"), value, unit: "ratio", bar: SLOW_RATIO, holds: value <= SLOW_RATIO, n: runCount, note };
}

async function flood(arena: Arena, bareTokens: string): Promise<BarResult> {
  const runCount = arena.options.runCount ?? FLOOD_RUN_COUNT;
  arena.options.say(`langgraph: ${runCount} answers of ${FLOOD_TOKENS} tokens of each side`);
  const pairs: Pair[] = [];
  for (let round = 0; round <= runCount; round += 1) {
    const pair = await runPair(arena, await newConversations(arena), { text: FLOOD_TEXT, round });
    // The first answer of this length warms up.
    if (round > 0) pairs.push(pair);
  }
  const { bare, ours } = timesOf(pairs, (run) => (FLOOD_TOKENS * 1_000) / run.lastTokenMs);
  const value = rounded(median(ours) / median(bare));
  const perSecond = (values: readonly number[]): string => `${Math.round(median(values))} tokens/s`;
  const note =
    `platform ${perSecond(ours)}; bare ${perSecond(bare)}, told by ${bareTokens}; ` +
    `${FLOOD_TOKENS} tokens, timed from the request to the last one`;
  return { id: idOf("flood"), value, unit: "ratio", bar: FLOOD_RATIO, holds: value >= FLOOD_RATIO, n: runCount, note };
}
