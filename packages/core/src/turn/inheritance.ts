/**
 * A takeover begins with what earlier generations left: calls that are still open at a live gate are waited for, as long
 * as they may take, because their outcome belongs to the turn; then the tail of the transcript is adopted, if it is to be
 * continued.
 */
import { backoffMs } from "../kernel/backoff.ts";
import type { ClosedItem, Inheritance, Ownership, VisibleItem } from "../ports/ownership-record.ts";
import type { Recovery } from "../ports/worker.ts";
import type { Highest } from "./session.ts";
import type { Stops } from "./stops.ts";
import type { TurnContext } from "./turn-context.ts";

export async function takeOver(
  ownership: Ownership,
  highest: Highest,
  by: { readonly context: TurnContext; readonly stops: Stops },
): Promise<Inheritance> {
  const { claim } = ownership;
  if (!claim.ownedBefore) {
    return { openCallCount: 0, outcomeUnknown: claim.outcomeUnknown, leaf: null, closedItems: [] };
  }
  const { limits, ports } = by.context;
  const { openCallPollMs: baseMs, openCallPollCapMs: capMs, inheritedCallWaitMs } = limits;
  const giveUpAtMs = ports.clock.monotonicMs() + inheritedCallWaitMs;
  for (let pollCount = 1; ; pollCount += 1) {
    const left = await by.stops.patiently(ownership.takeOver({ adopt: highest === "repaired" }));
    // A cancelled turn is not gone on with, and its ending waits for these calls itself.
    if (left.openCallCount === 0 || by.stops.cause !== null || ports.clock.monotonicMs() >= giveUpAtMs) {
      return left;
    }
    const afterMs = backoffMs(pollCount, { baseMs, capMs, fraction: ports.randomness.fraction() });
    await ports.clock.sleep(afterMs, by.stops.interrupt);
  }
}

/** What the worker is told of the items that readers see: enough to find them again in the transcript. */
export function recoveryOf(items: readonly ClosedItem[], context: TurnContext, reason: string): Recovery {
  const { digest } = context.ports;
  return {
    reason,
    shown: items.map(({ itemId, kind, text }) => ({ itemId, kind, digest: digest.sha256Hex(text) })),
  };
}

/** Those of `items` that are none of `kept`. */
export function without(items: readonly VisibleItem[], kept: readonly VisibleItem[]): readonly VisibleItem[] {
  const ids = new Set(kept.map(({ itemId }) => itemId));
  return items.filter(({ itemId }) => !ids.has(itemId));
}
