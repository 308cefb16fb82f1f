/**
 * The choke point for text an engine emits. Every text leaves well-formed, also when a surrogate pair is split over
 * two deltas; and what has been said so far is remembered, so that a step that must be cut still has its partial
 * answer.
 */
import { PlatformError, wellFormed } from "@signalbox/contract";
import type { StepEvent } from "./executor.ts";
import { MESSAGE_BYTES_MAX, MESSAGE_OVERHEAD_BYTES } from "./limits.ts";

export const TEXT_BYTES_MAX = MESSAGE_BYTES_MAX - MESSAGE_OVERHEAD_BYTES;

export class StepText {
  /** First halves of surrogate pairs whose second half has not come yet, by item. */
  readonly #halves = new Map<string, { readonly offset: number; readonly text: string }>();
  #answerItem = "";
  #answer = "";

  /** Text of the item that was written last, which is what a cut step answers with. */
  get partialAnswer(): string {
    return wellFormed(this.#answer);
  }

  /** The event as it may leave, or `null` when all of it has to wait. Throws `payload_too_large`. */
  accept(event: StepEvent): StepEvent | null {
    switch (event.type) {
      case "text.delta":
      case "thinking.delta": {
        const clean = this.#acceptDelta(event);
        if (clean !== null && clean.type === "text.delta") {
          this.#remember(clean.itemId, clean.offset, clean.text);
        }
        return clean;
      }
      case "text.completed":
      case "thinking.completed": {
        this.#halves.delete(event.itemId);
        const clean = { ...event, text: wellFormed(event.text) };
        assertFits(clean.text, event.type);
        if (clean.type === "text.completed") {
          this.#remember(clean.itemId, 0, clean.text);
        }
        return clean;
      }
      case "text.retracted": {
        this.#halves.delete(event.itemId);
        if (event.itemId === this.#answerItem) {
          this.#answer = "";
        }
        return { ...event, cause: wellFormed(event.cause) };
      }
      case "run.phase":
      case "input.consumed":
        return event;
    }
  }

  #acceptDelta(event: Extract<StepEvent, { readonly offset: number }>): StepEvent | null {
    const half = this.#halves.get(event.itemId);
    this.#halves.delete(event.itemId);
    let { offset, text } = event;
    if (half !== undefined) {
      offset = half.offset;
      text = half.text + text;
    }
    const last = text.charCodeAt(text.length - 1);
    if (last >= 0xd800 && last <= 0xdbff) {
      this.#halves.set(event.itemId, { offset: offset + text.length - 1, text: text.slice(-1) });
      text = text.slice(0, -1);
    }
    if (text === "") {
      return null;
    }
    assertFits(text, event.type);
    return { ...event, offset, text: wellFormed(text) };
  }

  #remember(itemId: string, offset: number, text: string): void {
    if (itemId !== this.#answerItem) {
      this.#answerItem = itemId;
      this.#answer = "";
    }
    this.#answer = offset === this.#answer.length ? this.#answer + text : this.#answer.slice(0, offset) + text;
  }
}

/** Refuses a text that no message of the worker protocol can carry, and says how large it was. */
export function assertFits(text: string, what: string): void {
  // Three bytes are the most a UTF-16 unit becomes; only a long text is worth counting.
  if (text.length * 3 <= TEXT_BYTES_MAX) {
    return;
  }
  const sizeBytes = Buffer.byteLength(text);
  if (sizeBytes > TEXT_BYTES_MAX) {
    throw new PlatformError(
      "payload_too_large",
      `${what} has ${sizeBytes} bytes; at most ${TEXT_BYTES_MAX} can be sent.`,
    );
  }
}
