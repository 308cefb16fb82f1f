/** One storm from beginning to end: gather, let people talk while things break, heal, settle, check. */
import { gather, type Cast } from "./cast.ts";
import { check, SETTLED_MS, untilClosed, untilSettled, type Breach } from "./checker.ts";
import { diceOf } from "./dice.ts";
import { haunt } from "./ghosts.ts";
import { converse } from "./people.ts";
import { mend, rage, type Fault } from "./storm.ts";

export interface StormReport {
  readonly seed: number;
  readonly seconds: number;
  readonly faults: readonly Fault[];
  readonly messages: number;
  /** How often somebody asked for a call with a token that was over. */
  readonly ghosts: number;
  readonly breaches: readonly Breach[];
}

export interface Performance {
  readonly seed: number;
  readonly seconds: number;
  readonly conversations?: number;
  readonly note?: (text: string) => void;
  /** How long what is open may take to end once everything stands again. */
  readonly settledMs?: number;
  /** Takes a promise away before anybody talks. */
  readonly sabotage?: (cast: Cast) => Promise<void>;
}

export async function perform(options: Performance): Promise<StormReport> {
  const { seed, seconds, note = () => undefined } = options;
  await using cast = await gather();
  await options.sabotage?.(cast);
  const over = new AbortController();
  const talking = converse(cast, { dice: diceOf(seed + 1), count: options.conversations ?? 6, signal: over.signal });
  // Heard below; a failure of the storm must not hide it.
  talking.catch(() => undefined);
  const haunting = haunt(cast, over.signal);
  haunting.catch(() => undefined);
  const faults = await rage(cast, { seconds, dice: diceOf(seed), note }).finally(() => over.abort());
  const conversations = await talking;
  const ghosts = await haunting;
  await mend(cast);
  const unsettled = await untilSettled(cast, options.settledMs ?? SETTLED_MS);
  const open = await untilClosed(cast);
  const breaches = [...ghosts.breaches, ...unsettled, ...open, ...(await check(cast, conversations))];
  const messages = conversations.reduce((sum, { acknowledged }) => sum + acknowledged.length, 0);
  return { seed, seconds, faults, messages, ghosts: ghosts.asked, breaches };
}
