/** What one more reader of an answer costs: deliveries per second of one core, against a bare writer of the same bytes. */
import { until } from "../../tests/setup/until.ts";
import type { Bar, BarResult, BenchOptions } from "../bar.ts";
import { MeasuredProcess } from "../gates/measured-process.ts";
import { cpuMsOf } from "../stage/cpu.ts";
import { openStage, type Stage } from "../stage/stage.ts";
import { median, rounded } from "../statistics.ts";
import { Readers } from "./readers.ts";

const READER_COUNT = 50;
const ROUND_COUNT = 3;
const TOKENS = 400;
const SMOKE_TOKENS = 20;
const TOKEN_MS = 5;
const READ_WITHIN_MS = 120_000;

export const deliveries: Bar = {
  id: "deliveries",
  title: "Deliveries per second and core, to many readers of one answer",
  cases: ["deliveries"],
  measure,
};

interface Spent {
  readonly cpuMs: number;
  readonly frameCount: number;
}

interface Round {
  readonly ours: number;
  readonly bare: number;
  readonly frameBytes: number;
  readonly frameCount: number;
}

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  options.say("starting the model double, a database, the platform, a worker and a bare writer");
  await using stage = await openStage(["langgraph"]);
  await using writer = await MeasuredProcess.start("../deliveries/writer-main.ts", {});
  const rounds: Round[] = [];
  const count = options.runCount ?? ROUND_COUNT;
  for (let round = 0; round <= count; round += 1) {
    options.interrupted.throwIfAborted();
    const measured = await oneRound(stage, writer, options.smoke ? SMOKE_TOKENS : TOKENS);
    options.say(
      `${Math.round(1_000 / measured.ours)} and ${Math.round(1_000 / measured.bare)} deliveries per core second`,
    );
    if (round > 0) rounds.push(measured);
  }
  const perSecond = (side: "ours" | "bare"): number => 1_000 / median(rounds.map((each) => each[side]));
  yield {
    id: "deliveries",
    value: rounded(perSecond("ours") / perSecond("bare")),
    unit: "of a bare writer",
    bar: null,
    holds: null,
    n: rounds.reduce((sum, each) => sum + each.frameCount, 0),
    note:
      `platform ${Math.round(perSecond("ours"))} deliveries/s of one core, res.write alone ${Math.round(perSecond("bare"))}; ` +
      `what ${READER_COUNT - 1} more readers add to the process's CPU, frames of ${Math.round(median(rounds.map((each) => each.frameBytes)))} bytes, ` +
      `${1_000 / TOKEN_MS} tokens/s`,
  };
}

/** CPU of one delivery on both sides, in milliseconds: of many readers, less that of one. */
async function oneRound(stage: Stage, writer: MeasuredProcess, tokens: number): Promise<Round> {
  const one = await answerTo(stage, { readers: 1, tokens });
  const many = await answerTo(stage, { readers: READER_COUNT, tokens });
  const { frames } = many;
  const bareOne = await writtenTo(writer, { readers: 1, frames });
  const bareMany = await writtenTo(writer, { readers: READER_COUNT, frames });
  const bytes = frames.reduce((sum, frame) => sum + Buffer.byteLength(frame), 0);
  return {
    ours: difference(many, one),
    bare: difference(bareMany, bareOne),
    frameBytes: bytes / frames.length,
    frameCount: many.frameCount,
  };
}

function difference(many: Spent, one: Spent): number {
  return (many.cpuMs - one.cpuMs) / (many.frameCount - one.frameCount);
}

async function answerTo(
  stage: Stage,
  asked: { readonly readers: number; readonly tokens: number },
): Promise<Spent & { readonly frames: readonly string[] }> {
  const id = await stage.newConversation("langgraph");
  using readers = await Readers.open({
    url: new URL(`/v1/conversations/${id}/events?after=0`, stage.url),
    headers: { authorization: `Bearer ${stage.apiKey}`, accept: "text/event-stream" },
    count: asked.readers,
  });
  const pids = [stage.platformPid];
  const before = { cpuMs: cpuMsOf(pids), frameCount: readers.frameCount };
  await stage.client.conversations.open(id).send(`[[sim:tokens ${asked.tokens}]] [[sim:slow ${TOKEN_MS}]] Speak.`);
  await until("the answer", () => Promise.resolve(readers.has("event: run.finished")), READ_WITHIN_MS);
  const cpuMs = cpuMsOf(pids) - before.cpuMs;
  return { cpuMs, frameCount: readers.frameCount - before.frameCount, frames: readers.frames() };
}

async function writtenTo(
  writer: MeasuredProcess,
  asked: { readonly readers: number; readonly frames: readonly string[] },
): Promise<Spent> {
  const { readers: count, frames } = asked;
  using readers = await Readers.open({ url: new URL(String(writer.up.url)), headers: {}, count });
  const before = { cpuMs: await writer.cpuMs(), frameCount: readers.frameCount };
  await writer.ask({ frames, everyMs: TOKEN_MS });
  const expected = before.frameCount + frames.length * count;
  await until("what was written", () => Promise.resolve(readers.frameCount >= expected - count), READ_WITHIN_MS);
  return { cpuMs: (await writer.cpuMs()) - before.cpuMs, frameCount: frames.length * count };
}
