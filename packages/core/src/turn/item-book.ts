/**
 * The items one attempt of a turn has shown: checks what a worker says about them, stamps revisions, and knows what is
 * still open. Text of an item only grows, by offset, until it is closed; then nothing more may be said about it.
 */
import { PlatformError, wellFormed, type OwnerEvent } from "@signalbox/contract";
import type { PartDelta } from "../events/pending-rows.ts";
import { createRevisionStamps } from "../events/revision.ts";
import type { ClosedItem, VisibleItem } from "../ports/ownership-record.ts";

export type Closing = { readonly as: "completed" } | { readonly as: "retracted"; readonly cause: string };

export interface ItemBook {
  /** The part to publish, or `null` when the worker said nothing new. */
  grow(delta: Omit<PartDelta, "revision">): PartDelta | null;
  complete(item: VisibleItem & { readonly text: string }): OwnerEvent;
  /** Takes an item back, also one of an earlier attempt. `null` when it already is. */
  retract(item: VisibleItem, cause: string): OwnerEvent | null;
  /** Takes in items that an earlier generation closed and that stay part of this turn. Nothing is told about them. */
  adopt(items: readonly ClosedItem[]): void;
  /** Rows that close whatever is still open. */
  closeOpen(closing: Closing): readonly OwnerEvent[];
  /** Next revision of something that is not an item of text. */
  stamp(itemId: string): number;
  /** Text of the newest text item that was not taken back: what there is of an answer. */
  latestText(): string;
  shown(): readonly VisibleItem[];
}

interface Entry {
  readonly kind: VisibleItem["kind"];
  state: "open" | Closing["as"];
  text: string;
  /** First half of a surrogate pair whose second half has not come yet. */
  half: string;
}

export function createItemBook(generation: number, maxChars: number): ItemBook {
  const stamps = createRevisionStamps(generation);
  const entries = new Map<string, Entry>();
  const open = (): readonly [string, Entry][] => [...entries].filter(([, entry]) => entry.state === "open");
  const standing = (): readonly [string, Entry][] => [...entries].filter(([, entry]) => entry.state !== "retracted");
  const close = (itemId: string, entry: Entry, closing: Closing): OwnerEvent => {
    entry.state = closing.as;
    return closingRow({ itemId, kind: entry.kind, text: entry.text, revision: stamps.close(itemId) }, closing);
  };
  return {
    grow(delta) {
      const { type, itemId } = delta;
      const entry = openEntry(entries, { itemId, kind: type === "text.delta" ? "text" : "thinking" });
      const text = freshText(entry, delta);
      if (text === "") {
        return null;
      }
      const offset = entry.text.length;
      entry.text = bounded(entry.text + text, maxChars);
      return { type, itemId, revision: stamps.open(itemId), offset, text };
    },
    complete(item) {
      const entry = openEntry(entries, item);
      entry.text = bounded(wellFormed(item.text), maxChars);
      return close(item.itemId, entry, { as: "completed" });
    },
    retract({ itemId, kind }, cause) {
      const entry = entries.get(itemId) ?? { kind, state: "open", text: "", half: "" };
      entries.set(itemId, entry);
      return entry.state === "retracted" ? null : close(itemId, entry, { as: "retracted", cause });
    },
    adopt(items) {
      for (const { itemId, kind, text } of items) {
        entries.set(itemId, { kind, state: "completed", text, half: "" });
      }
    },
    closeOpen: (closing) => open().map(([itemId, entry]) => close(itemId, entry, closing)),
    stamp: (itemId) => stamps.open(itemId),
    latestText: () => standing().findLast(([, entry]) => entry.kind === "text")?.[1].text ?? "",
    shown: () => standing().map(([itemId, entry]) => ({ itemId, kind: entry.kind })),
  };
}

function openEntry(entries: Map<string, Entry>, { itemId, kind }: VisibleItem): Entry {
  const entry = entries.get(itemId) ?? { kind, state: "open", text: "", half: "" };
  if (entry.state !== "open") {
    throw new PlatformError("engine_failed", "The engine spoke about an item that it had closed.");
  }
  entries.set(itemId, entry);
  return entry;
}

function bounded(text: string, maxChars: number): string {
  if (text.length > maxChars) {
    throw new PlatformError("payload_too_large", "One item of the answer is longer than the platform keeps.");
  }
  return text;
}

function closingRow(
  item: VisibleItem & { readonly text: string; readonly revision: number },
  closing: Closing,
): OwnerEvent {
  const { itemId, kind, text, revision } = item;
  return closing.as === "retracted"
    ? { type: "text.retracted", itemId, revision, data: { cause: closing.cause } }
    : { type: `${kind}.completed`, itemId, revision, data: { text } };
}

/** What a delta adds to its item, well-formed. Half of a surrogate pair is kept back until its other half comes. */
function freshText(entry: Entry, delta: { readonly offset: number; readonly text: string }): string {
  const saidLength = entry.text.length + entry.half.length;
  if (delta.offset > saidLength) {
    throw new PlatformError("engine_failed", "The engine left a gap in the text of an item.");
  }
  const said = entry.half + delta.text.slice(saidLength - delta.offset);
  const last = said.charCodeAt(said.length - 1);
  const endsInHalf = last >= 0xd800 && last <= 0xdbff;
  entry.half = endsInHalf ? said.slice(-1) : "";
  return wellFormed(endsInHalf ? said.slice(0, -1) : said);
}
