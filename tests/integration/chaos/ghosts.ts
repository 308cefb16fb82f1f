/**
 * INV-06: whoever is no longer bound to the generation that drives its conversation asks for a model call all the same,
 * again and again while the storm goes on. It must never get one, whatever else has died.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { Cast } from "./cast.ts";
import type { Breach } from "./checker.ts";

const EVERY_MS = 400;

/** The rows stay as they are until the question is answered: nobody is bound anew in between. */
const ASK = `with stale as materialized (
    select s.token_hash, o.conversation_id from signalbox.slot s
    join signalbox.ownership o on o.conversation_id = s.conversation_id
    where s.generation is distinct from o.generation
    limit 20 for update of o, s skip locked)
  select conversation_id as id, signalbox.begin_model_call(token_hash, 'ghost_' || md5(random()::text),
    (select incarnation from signalbox.process where dead_at is null and 'gates' = any (roles) limit 1),
    'anthropic', 'sim/ghost', 1, '{}') as answer
  from stale`;

export interface Haunting {
  /** How often they asked. */
  readonly asked: number;
  readonly breaches: readonly Breach[];
}

export async function haunt(cast: Cast, signal: AbortSignal): Promise<Haunting> {
  const breaches: Breach[] = [];
  let asked = 0;
  while (!signal.aborted) {
    await pause(EVERY_MS);
    // The database may just be down.
    const told = await cast.query<{ id: string; answer: { readonly code?: string } }>(ASK).catch(() => []);
    asked += told.length;
    for (const { id, answer } of told) {
      if (answer.code === undefined) breaches.push({ promise: "INV-06", where: `${id}: a stale token got a call` });
    }
  }
  return { asked, breaches };
}
