/**
 * Makes one gapless text of live deltas, replayed parts and closing items. Any overlap of replay and live is dropped,
 * a delta that does not follow on what is known waits for the part that fills the gap, and a closing item hands out
 * whatever was still missing. So the deltas of an item, put together, are always its text.
 */
import type { EventOf, PlatformEvent } from "@signalbox/contract";

type DeltaEvent = EventOf<"text.delta"> | EventOf<"thinking.delta">;
type CompletedEvent = EventOf<"text.completed"> | EventOf<"thinking.completed">;

interface Known {
  readonly length: number;
  readonly revision: number;
}

export class ItemTexts {
  readonly #known = new Map<string, Known>();

  /** The events to hand on, in order; none when `event` says nothing new. */
  accept(event: PlatformEvent): readonly PlatformEvent[] {
    switch (event.type) {
      case "text.delta":
      case "thinking.delta":
        return this.#acceptDelta(event);
      case "text.completed":
      case "thinking.completed":
        return this.#acceptCompleted(event);
      case "run.finished":
        this.#known.clear();
        return [event];
      default:
        return [event];
    }
  }

  #acceptDelta(event: DeltaEvent): readonly PlatformEvent[] {
    const known = this.#known.get(event.itemId) ?? { length: 0, revision: -1 };
    if (event.offset > known.length) return [];
    const fresh = event.text.slice(known.length - event.offset);
    if (fresh === "") return [];
    this.#known.set(event.itemId, {
      length: known.length + fresh.length,
      revision: Math.max(known.revision, event.revision),
    });
    return [{ ...event, offset: known.length, text: fresh }];
  }

  #acceptCompleted(event: CompletedEvent): readonly PlatformEvent[] {
    const known = this.#known.get(event.itemId) ?? { length: 0, revision: -1 };
    if (event.revision <= known.revision && known.length >= event.text.length) return [];
    this.#known.set(event.itemId, { length: event.text.length, revision: event.revision });
    const rest = event.text.slice(known.length);
    if (rest === "") return [event];
    const envelope = { ...event, sequence: null, offset: known.length, text: rest };
    return event.type === "text.completed"
      ? [{ ...envelope, type: "text.delta" }, event]
      : [{ ...envelope, type: "thinking.delta" }, event];
  }
}
