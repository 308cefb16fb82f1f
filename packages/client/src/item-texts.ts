/**
 * Makes one gapless text of live deltas, replayed parts and closing items. The log comes in order and without gaps;
 * live deltas may come late, twice, in any order or not at all. So:
 *
 * - overlap is dropped, and a live delta that does not follow on what is known is too: the log brings it again;
 * - a closing item hands out whatever was still missing, so the deltas of an item, put together, are its text, unless
 *   the closing item says another one, which then replaces it;
 * - nothing is said about an item after it closed, nor for an owner that is gone;
 * - what only ever came live is taken back when its run goes on, or ends, without it.
 */
import { REVISIONS_PER_GENERATION, type EventOf, type PlatformEvent } from "@signalbox/contract";

type DeltaEvent = EventOf<"text.delta"> | EventOf<"thinking.delta">;
type CompletedEvent = EventOf<"text.completed"> | EventOf<"thinking.completed">;

interface Item {
  readonly runId: string | null;
  readonly turnId: string | null;
  generation: number;
  revision: number;
  /** Where what was handed out begins: 0, or the place where this reader came in. */
  start: number;
  /** What was handed out. */
  text: string;
  state: "open" | "closed";
  /** Whether the log speaks of it. */
  durable: boolean;
}

/** Runs remembered as settled: a live delta is never later than this many runs. */
const SETTLED_LIMIT = 256;

/** What a reader of one conversation has been told so far, and what is news to it. */
export class ItemTexts {
  readonly #items = new Map<string, Item>();
  /** Newest generation the log speaks of, by run; infinite once the run is finished. */
  readonly #settled = new Map<string, number>();

  /** The events to hand on, in order; none when `event` says nothing new. */
  accept(event: PlatformEvent): readonly PlatformEvent[] {
    const { runId } = event;
    if (runId === null) return this.#acceptItem(event);
    if (event.sequence === null) {
      return event.generation < (this.#settled.get(runId) ?? 0) ? [] : this.#acceptItem(event);
    }
    // An ended run says nothing new; an item of it may still be replaced as a whole.
    if (this.#settled.get(runId) === Number.POSITIVE_INFINITY) return [event];
    const generation = event.type === "run.finished" ? Number.POSITIVE_INFINITY : event.generation;
    return [...this.#settle(event, runId, generation), ...this.#acceptItem(event)];
  }

  #acceptItem(event: PlatformEvent): readonly PlatformEvent[] {
    switch (event.type) {
      case "text.delta":
      case "thinking.delta":
        return this.#acceptDelta(event);
      case "text.completed":
      case "thinking.completed":
        return this.#acceptCompleted(event);
      case "text.retracted":
        return this.#acceptRetracted(event);
      default:
        return [event];
    }
  }

  /** Takes back what the run leaves behind, and forgets its items once it has ended. */
  #settle(event: PlatformEvent, runId: string, generation: number): readonly PlatformEvent[] {
    const before = this.#settled.get(runId) ?? 0;
    if (generation <= before) return [];
    this.#settled.delete(runId);
    this.#settled.set(runId, generation);
    if (this.#settled.size > SETTLED_LIMIT) this.#forgetOldestRun();
    const takenBack: PlatformEvent[] = [];
    for (const [itemId, item] of this.#items) {
      if (item.runId !== runId || item.generation >= generation) continue;
      if (!item.durable && item.state === "open") takenBack.push(retraction(itemId, item, event));
      if (!item.durable || generation === Number.POSITIVE_INFINITY) this.#items.delete(itemId);
    }
    return takenBack;
  }

  #forgetOldestRun(): void {
    const [oldest] = this.#settled.keys();
    if (oldest !== undefined) this.#settled.delete(oldest);
  }

  #acceptDelta(event: DeltaEvent): readonly PlatformEvent[] {
    const { item, before } = this.#itemOf(event);
    if (item === null || item.state === "closed") return before;
    const end = item.start + item.text.length;
    if (event.offset > end) {
      // The log has no gaps, so its earlier parts came before this reader's cursor.
      if (event.sequence === null) return before;
      item.start = event.offset;
      item.text = "";
    }
    const fresh = event.text.slice(Math.max(0, item.start + item.text.length - event.offset));
    if (fresh === "") return before;
    const offset = item.start + item.text.length;
    item.text += fresh;
    item.revision = Math.max(item.revision, event.revision);
    return [...before, { ...event, offset, text: fresh }];
  }

  #acceptCompleted(event: CompletedEvent): readonly PlatformEvent[] {
    const { item, before } = this.#itemOf(event);
    if (item === null || (item.state === "closed" && event.revision <= item.revision)) return before;
    const wasOpen = item.state === "open";
    const end = item.start + item.text.length;
    const goesOn = wasOpen && event.text.slice(item.start, end) === item.text;
    close(item, event.revision);
    const rest = event.text.slice(end);
    if (!goesOn || rest === "") return [...before, event];
    const envelope = { ...event, sequence: null, offset: end, text: rest };
    return event.type === "text.completed"
      ? [...before, { ...envelope, type: "text.delta" }, event]
      : [...before, { ...envelope, type: "thinking.delta" }, event];
  }

  #acceptRetracted(event: EventOf<"text.retracted">): readonly PlatformEvent[] {
    const { item } = this.#itemOf(event);
    if (item === null || (item.state === "closed" && event.revision <= item.revision)) return [];
    close(item, event.revision);
    return [event];
  }

  /**
   * The item an event speaks about, or `null` when the event is of an owner before the item's. A newer owner starts
   * the item over: `before` then takes back what had been handed out.
   */
  #itemOf(event: DeltaEvent | CompletedEvent | EventOf<"text.retracted">): {
    readonly item: Item | null;
    readonly before: readonly PlatformEvent[];
  } {
    const generation = Math.floor(event.revision / REVISIONS_PER_GENERATION);
    const durable = event.sequence !== null;
    const known = this.#items.get(event.itemId);
    if (known === undefined || generation > known.generation) {
      const { runId, turnId } = event;
      const item: Item = { runId, turnId, generation, revision: -1, start: 0, text: "", state: "open", durable };
      this.#items.set(event.itemId, item);
      const said = known !== undefined && known.state === "open" && known.text !== "";
      return { item, before: said ? [retraction(event.itemId, known, event)] : [] };
    }
    if (generation < known.generation) return { item: null, before: [] };
    known.durable ||= durable;
    return { item: known, before: [] };
  }
}

function close(item: Item, revision: number): void {
  item.state = "closed";
  item.revision = revision;
  item.text = "";
  item.start = 0;
}

/** What the log has no row for, because it never knew of the item: said by this reader alone, so without a sequence. */
function retraction(itemId: string, item: Item, because: PlatformEvent): EventOf<"text.retracted"> {
  const { conversationId, traceId, generation, at } = because;
  const { runId, turnId, revision } = item;
  return {
    type: "text.retracted",
    itemId,
    sequence: null,
    revision,
    conversationId,
    runId,
    turnId,
    traceId,
    generation,
    at,
    cause: "superseded",
  };
}
