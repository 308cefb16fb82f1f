/** So many conversations at once, each answered a few times over, on one side. */
import { cpuMsOf } from "../stage/cpu.ts";

export interface TimedRun {
  readonly firstTokenMs: number;
  readonly text: string;
}

export interface Side {
  readonly name: string;
  /** Made before the clock runs. */
  readonly newConversation: () => Promise<string>;
  readonly run: (conversation: string, text: string) => Promise<TimedRun>;
  /** Of the side alone: not of the double, nor of the client. */
  readonly pids: () => readonly number[];
}

export interface Load {
  readonly atOnce: number;
  readonly runsEach: number;
  readonly text: string;
  /** What every answer must be, whole. */
  readonly answer: string;
}

export interface LoadResult {
  readonly runsPerSecond: number;
  readonly firstTokensMs: readonly number[];
  readonly cpuMsPerRun: number;
}

/** Every run in a conversation of its own, so that what is sent to the model stays the same. */
export async function loadSide(side: Side, load: Load): Promise<LoadResult> {
  const count = load.atOnce * load.runsEach;
  const conversations: string[] = [];
  for (let made = 0; made < count; made += 1) conversations.push(await side.newConversation());
  const pids = side.pids();
  const cpuBeforeMs = cpuMsOf(pids);
  const startMs = performance.now();
  const firstTokensMs: number[] = [];
  const lane = async (): Promise<void> => {
    for (let round = 0; round < load.runsEach; round += 1) {
      const run = await side.run(conversations.pop() ?? "", load.text);
      if (run.text !== load.answer) throw new Error(`${side.name} said "${run.text.slice(0, 80)}"`);
      firstTokensMs.push(run.firstTokenMs);
    }
  };
  await Promise.all(Array.from({ length: load.atOnce }, lane));
  const seconds = (performance.now() - startMs) / 1_000;
  return { runsPerSecond: count / seconds, firstTokensMs, cpuMsPerRun: (cpuMsOf(pids) - cpuBeforeMs) / count };
}
