/** The two sides of a comparison, a run of each in turn, with what each of them said checked against the other. */
import type { BenchOptions } from "../bar.ts";
import type { BareProcess, BareRun } from "../bare/bare-process.ts";
import type { Stage } from "../stage/stage.ts";
import type { StreamClient, StreamedRun } from "../stage/stream-client.ts";

export interface Arena {
  readonly runtime: string;
  readonly stage: Stage;
  readonly client: StreamClient;
  readonly bare: BareProcess;
  readonly options: BenchOptions;
}

export interface Pair {
  readonly bare: BareRun;
  readonly ours: StreamedRun;
}

/** Times of both sides at one moment of the run, in the order of the pairs. */
export interface Sides {
  readonly bare: readonly number[];
  readonly ours: readonly number[];
}

export function timesOf(pairs: readonly Pair[], at: (run: BareRun | StreamedRun) => number): Sides {
  return { bare: pairs.map(({ bare }) => at(bare)), ours: pairs.map(({ ours }) => at(ours)) };
}

export interface Conversations {
  readonly bare: string;
  readonly ours: string;
}

let conversationCount = 0;

/** A conversation on each side. */
export async function newConversations(arena: Arena): Promise<Conversations> {
  conversationCount += 1;
  return { bare: `bare-${conversationCount}`, ours: await arena.stage.newConversation(arena.runtime) };
}

/** One run of each side; which of them begins alternates with `round`, so that neither always follows the other. */
export async function runPair(
  arena: Arena,
  where: Conversations,
  order: { readonly text: string; readonly round: number },
): Promise<Pair> {
  const { text, round } = order;
  arena.options.interrupted.throwIfAborted();
  const bareRun = (): Promise<BareRun> => arena.bare.run({ conversation: where.bare, text });
  const bareFirst = round % 2 === 0;
  const early = bareFirst ? await bareRun() : null;
  const ours = await arena.client.send(where.ours, text);
  const bare = early ?? (await bareRun());
  if (ours.outcome !== "completed" || ours.text !== bare.text || bare.text === "") {
    const said = `"${bare.text.slice(0, 80)}" and "${ours.text.slice(0, 80)}"`;
    throw new Error(`the sides did not say the same: ${said}, ${ours.outcome}`);
  }
  return { bare, ours };
}
