/**
 * A reader's view of the items of a conversation, built from durable events and live deltas in any order, with any
 * overlap, loss and repetition of the live ones. Once every durable event was seen, all readers see the same.
 *
 * The rules: a newer generation replaces an older one; within a generation an item only grows, by offset, until a
 * closing row says it whole; what was only ever seen live goes when its run is recovered or finished without it.
 */
import type { LiveDelta, PlatformEvent } from "@signalbox/contract";
import { generationOf } from "./revision.ts";

export interface FoldedItem {
  readonly itemId: string;
  readonly runId: string | null;
  /** `null` once it is retracted. */
  readonly kind: "text" | "thinking" | null;
  readonly state: "open" | "completed" | "retracted";
  readonly revision: number;
  readonly text: string;
}

export interface ItemFold {
  apply(event: PlatformEvent | LiveDelta): void;
  /** Items in the order they were first seen. */
  items(): readonly FoldedItem[];
}

interface MutableItem {
  readonly itemId: string;
  readonly runId: string | null;
  kind: "text" | "thinking" | null;
  generation: number;
  state: FoldedItem["state"];
  revision: number;
  text: string;
  /** Parts that came before what precedes them. */
  ahead: { readonly offset: number; readonly text: string }[];
  durable: boolean;
}

export function createItemFold(): ItemFold {
  const items = new Map<string, MutableItem>();
  /** Newest generation the log speaks of, by run; infinite once the run is finished. */
  const settled = new Map<string, number>();
  return {
    apply(event) {
      const durable = "sequence" in event && event.sequence !== null;
      if (durable && event.runId !== null) {
        const generation = event.type === "run.finished" ? Number.POSITIVE_INFINITY : event.generation;
        settled.set(event.runId, Math.max(settled.get(event.runId) ?? 0, generation));
      }
      applyToItem(items, event, durable);
    },
    items() {
      const seen: FoldedItem[] = [];
      for (const item of items.values()) {
        const gone = !item.durable && item.runId !== null && item.generation < (settled.get(item.runId) ?? 0);
        if (gone) {
          continue;
        }
        const { itemId, runId, state, revision, text } = item;
        seen.push({ itemId, runId, kind: state === "retracted" ? null : item.kind, state, revision, text });
      }
      return seen;
    },
  };
}

function applyToItem(items: Map<string, MutableItem>, event: PlatformEvent | LiveDelta, durable: boolean): void {
  switch (event.type) {
    case "text.delta":
    case "thinking.delta": {
      const item = itemOf(items, event, event.type === "text.delta" ? "text" : "thinking");
      item.durable ||= durable;
      if (!isNews(item, event.revision) || item.state !== "open") {
        return;
      }
      item.revision = Math.max(item.revision, event.revision);
      grow(item, event);
      return;
    }
    case "text.completed":
    case "thinking.completed": {
      const item = itemOf(items, event, event.type === "text.completed" ? "text" : "thinking");
      item.durable ||= durable;
      close(item, { revision: event.revision, state: "completed", text: event.text });
      return;
    }
    case "text.retracted": {
      const item = itemOf(items, event, null);
      item.durable ||= durable;
      close(item, { revision: event.revision, state: "retracted", text: "" });
      return;
    }
    default:
      return;
  }
}

function itemOf(
  items: Map<string, MutableItem>,
  event: { readonly itemId: string; readonly runId: string | null; readonly revision: number },
  kind: "text" | "thinking" | null,
): MutableItem {
  const known = items.get(event.itemId);
  if (known !== undefined) {
    known.kind ??= kind;
    return known;
  }
  const item: MutableItem = {
    itemId: event.itemId,
    runId: event.runId,
    kind,
    generation: generationOf(event.revision),
    state: "open",
    revision: -1,
    text: "",
    ahead: [],
    durable: false,
  };
  items.set(event.itemId, item);
  return item;
}

/** False when an owner after the event's has spoken. A newer owner starts the item over. */
function isNews(item: MutableItem, revision: number): boolean {
  const generation = generationOf(revision);
  if (generation < item.generation) {
    return false;
  }
  if (generation > item.generation) {
    item.generation = generation;
    item.state = "open";
    item.revision = -1;
    item.text = "";
    item.ahead = [];
  }
  return true;
}

function close(
  item: MutableItem,
  last: { readonly revision: number; readonly state: "completed" | "retracted"; readonly text: string },
): void {
  if (!isNews(item, last.revision)) {
    return;
  }
  if (item.state !== "open" && last.revision <= item.revision) {
    return;
  }
  item.state = last.state;
  item.revision = last.revision;
  item.text = last.text;
  item.ahead = [];
}

/** Adds a part where it belongs, then whatever waited for it. */
function grow(item: MutableItem, part: { readonly offset: number; readonly text: string }): void {
  item.ahead.push({ offset: part.offset, text: part.text });
  for (let fits = true; fits;) {
    fits = false;
    const waiting: MutableItem["ahead"] = [];
    for (const each of item.ahead) {
      if (each.offset > item.text.length) {
        waiting.push(each);
        continue;
      }
      const fresh = each.text.slice(item.text.length - each.offset);
      item.text += fresh;
      fits ||= fresh !== "";
    }
    item.ahead = waiting;
  }
}
