/** P-10: a late turn of a conversation against an early one whose context is as long, warm and after a resume. */
import type { Bar, BarResult, BenchOptions } from "../bar.ts";
import { openStage } from "../stage/stage.ts";
import { median, rounded } from "../statistics.ts";
import { STAMPED_ANSWERS, Talk, type Turn } from "./talk.ts";

const RATIO = 1.2;
const EARLY_TURN = 10;
/** Each of them measures turns 8 to 12. */
const EARLY_COUNT = 4;
const TURNS_EACH = 5;
const SMOKE_LATE_TURN = 20;
/** A turn of the Claude Agent SDK costs several times as much as one on LangGraph: its late turn is an earlier one. */
const RUNTIMES = [
  { runtime: "langgraph", lateTurn: 1_000, resumeCount: 5 },
  { runtime: "claude_sdk", lateTurn: 200, resumeCount: 3 },
] as const;
const MEASURES = ["cpu", "bytes", "latency"] as const;
const STATES = ["warm", "resume"] as const;

type Measure = (typeof MEASURES)[number];

const idOf = (runtime: string, state: string, measure: Measure): string => `P-10/${runtime}/${state}-${measure}`;
const casesOf = (runtime: string): readonly string[] =>
  STATES.flatMap((state) => MEASURES.map((measure) => idOf(runtime, state, measure)));

export const turns: Bar = {
  id: "P-10",
  title: "A late turn of a conversation against an early one",
  cases: RUNTIMES.flatMap(({ runtime }) => casesOf(runtime)),
  measure,
};

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  for (const each of RUNTIMES) {
    if (casesOf(each.runtime).some((id) => options.wants(id))) yield* measureRuntime(each, options);
  }
}

interface Pairs {
  readonly late: Turn[];
  readonly early: Turn[];
}

async function* measureRuntime(
  { runtime, ...asked }: (typeof RUNTIMES)[number],
  options: BenchOptions,
): AsyncGenerator<BarResult> {
  const lateTurn = options.smoke ? SMOKE_LATE_TURN : asked.lateTurn;
  options.say(`${runtime}: a conversation of ${lateTurn} turns`);
  await using stage = await openStage([runtime], {
    double: STAMPED_ANSWERS,
    environment: { SIGNALBOX_MESSAGES_PER_MINUTE: "1000000" },
  });
  await using talk = await Talk.open(stage, { runtime, interrupted: options.interrupted });
  const late = await talk.begin();
  await talk.speak(late, EARLY_TURN, "");
  const earlyBytes = await talk.requestBytes(late);
  const half = (EARLY_COUNT * TURNS_EACH) / 2;
  await talk.speak(late, lateTurn - EARLY_TURN - half, "");
  const lateBytes = await talk.requestBytes(late);
  // The first turns of an early conversation are as much longer as the late one has more of them.
  const fill = "x".repeat(Math.round((lateBytes - earlyBytes) / (EARLY_TURN - half / TURNS_EACH - 1)));
  const early: string[] = [];
  for (let made = 0; made < (options.smoke ? 1 : EARLY_COUNT); made += 1) {
    const conversation = await talk.begin();
    await talk.speak(conversation, EARLY_TURN - half / TURNS_EACH - 1, fill);
    early.push(conversation);
  }
  const circumstances = { runtime, lateTurn, lateBytes, talk, early };
  yield* resultsOf("warm", await warmPairs(talk, late, early), { ...circumstances, options });
  const resumeCount = options.smoke ? 1 : asked.resumeCount;
  const resumed: Pairs = { late: [], early: [] };
  for (let round = 0; round < resumeCount; round += 1) {
    await stage.stopWorkers();
    await stage.startWorker(runtime);
    await talk.warmUp();
    const conversation = early[round % early.length] ?? "";
    const order = round % 2 === 0 ? [late, conversation] : [conversation, late];
    for (const each of order) (each === late ? resumed.late : resumed.early).push(await talk.measure(each));
  }
  yield* resultsOf("resume", resumed, { ...circumstances, options });
}

async function warmPairs(talk: Talk, late: string, early: readonly string[]): Promise<Pairs> {
  const pairs: Pairs = { late: [], early: [] };
  for (let turn = 0; turn < TURNS_EACH; turn += 1) {
    for (const [at, conversation] of early.entries()) {
      const order = at % 2 === 0 ? [late, conversation] : [conversation, late];
      for (const each of order) (each === late ? pairs.late : pairs.early).push(await talk.measure(each));
    }
  }
  return pairs;
}

interface Circumstances {
  readonly runtime: string;
  readonly lateTurn: number;
  readonly lateBytes: number;
  readonly options: BenchOptions;
}

function* resultsOf(state: (typeof STATES)[number], pairs: Pairs, where: Circumstances): Generator<BarResult> {
  const { runtime, lateTurn, lateBytes, options } = where;
  const of: Readonly<Record<Measure, (turn: Turn) => number>> = {
    cpu: (turn) => turn.cpuMs,
    bytes: (turn) => turn.walBytes,
    latency: (turn) => turn.finishedMs,
  };
  const units: Readonly<Record<Measure, string>> = { cpu: "ms CPU", bytes: "bytes of WAL", latency: "ms to the end" };
  for (const name of MEASURES) {
    const id = idOf(runtime, state, name);
    if (!options.wants(id)) continue;
    const late = median(pairs.late.map(of[name]));
    const early = median(pairs.early.map(of[name]));
    const value = rounded(late / early);
    const shown = (number: number): string => (name === "bytes" ? String(Math.round(number)) : number.toFixed(1));
    const note =
      `turn ${lateTurn}: ${shown(late)} ${units[name]}, turn ${EARLY_TURN}: ${shown(early)}; ` +
      `a model request of ${Math.round(lateBytes / 1_000)} kB on both sides`;
    yield { id, value, unit: "ratio", bar: RATIO, holds: value <= RATIO, n: pairs.late.length, note };
  }
}
