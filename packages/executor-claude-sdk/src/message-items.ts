/**
 * One model message while it is being said, as the items readers see: each text or thinking block is an item, known by
 * its place in the message. Whether it counts is known only when the message has ended with a stop reason; until then
 * it may still be cut off and said again.
 */
import { wellFormed } from "@signalbox/contract";
import type { StepEvent } from "@signalbox/worker";
import { DeltaText } from "./delta-text.ts";

export type SpokenKind = "text" | "thinking";

interface Item {
  readonly kind: SpokenKind;
  readonly itemId: string;
  readonly said: DeltaText;
  /** The whole text, once the engine has handed out the finished block. */
  whole: string | null;
}

export class MessageItems {
  readonly messageId: string;
  readonly #newItemId: () => string;
  /** In the order in which their blocks began. */
  readonly #items = new Map<number, Item>();
  stopReason: string | null = null;
  hasCalls = false;

  constructor(messageId: string, newItemId: () => string) {
    this.messageId = messageId;
    this.#newItemId = newItemId;
  }

  get text(): string {
    return [...this.#items.values()]
      .filter((item) => item.kind === "text")
      .map((item) => textOf(item))
      .join("");
  }

  /** Ids of what readers have been shown of this message. */
  get shownItemIds(): readonly string[] {
    return [...this.#items.values()].filter((item) => textOf(item) !== "").map((item) => item.itemId);
  }

  begin(place: number, kind: SpokenKind): void {
    this.#items.set(place, { kind, itemId: this.#newItemId(), said: new DeltaText(), whole: null });
  }

  say(place: number, piece: string): readonly StepEvent[] {
    const item = this.#items.get(place);
    return item === undefined ? [] : deltaOf(item, item.said.text.length, item.said.push(piece));
  }

  endBlock(place: number): readonly StepEvent[] {
    const item = this.#items.get(place);
    return item === undefined ? [] : deltaOf(item, item.said.text.length, item.said.end());
  }

  /** A finished block. Blocks of one kind are finished in the order they began; one never begun is new. */
  finish(kind: SpokenKind, whole: string): void {
    const open = [...this.#items.values()].find((item) => item.kind === kind && item.whole === null);
    if (open === undefined) {
      const place = Math.max(-1, ...this.#items.keys()) + 1;
      this.begin(place, kind);
      this.finish(kind, whole);
    } else {
      open.whole = wellFormed(whole);
    }
  }

  /** What to say when the message counts, whole or as far as it came. */
  completed(): readonly StepEvent[] {
    return [...this.#items.values()]
      .filter((item) => textOf(item) !== "")
      .map((item) => ({ type: `${item.kind}.completed`, itemId: item.itemId, text: textOf(item) }) as const);
  }

  /** What to say when it does not: nothing of it may stay on a screen as if it were part of the answer. */
  retracted(cause: string): readonly StepEvent[] {
    return this.shownItemIds.map((itemId) => ({ type: "text.retracted", itemId, cause }) as const);
  }
}

function textOf(item: Item): string {
  return item.whole ?? item.said.text;
}

function deltaOf(item: Item, offset: number, text: string): readonly StepEvent[] {
  return text === "" ? [] : [{ type: `${item.kind}.delta`, itemId: item.itemId, offset, text }];
}
