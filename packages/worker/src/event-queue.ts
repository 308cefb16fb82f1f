/**
 * Between an engine that produces events and a reader that may be slow. Holds a bounded amount: beyond it `push`
 * returns a promise the engine waits for. Deltas of one item that wait behind each other are merged, so a slow reader
 * costs messages, never memory, and a fast one is never delayed.
 */
import type { StepEvent, StepResult } from "./executor.ts";
import { EVENTS_WAITING_MAX, TEXT_WAITING_MAX } from "./limits.ts";

export type StepOutput =
  | { readonly kind: "event"; readonly event: StepEvent }
  | { readonly kind: "result"; readonly result: StepResult };

type Delta = Extract<StepEvent, { readonly offset: number }>;

export class EventQueue implements AsyncIterable<StepOutput> {
  #waiting: StepOutput[] = [];
  #waitingText = 0;
  #finished = false;
  #abandoned = false;
  #released = false;
  #wakeReader: (() => void) | null = null;
  #wakeEngine: (() => void) | null = null;
  #room: Promise<void> | null = null;

  /** Whether the result has been handed in: nothing may follow it. */
  get finished(): boolean {
    return this.#finished;
  }

  push(event: StepEvent): Promise<void> | undefined {
    if (this.#finished || this.#abandoned) {
      return undefined;
    }
    if (!this.#merge(event)) {
      this.#waiting.push({ kind: "event", event });
    }
    this.#waitingText += "text" in event ? event.text.length : 0;
    this.#wakeReader?.();
    const full = this.#waiting.length > EVENTS_WAITING_MAX || this.#waitingText > TEXT_WAITING_MAX;
    return full && !this.#released ? this.#roomAgain() : undefined;
  }

  /** The engine is to stop: it must not be held by a slow reader any more. */
  release(): void {
    this.#released = true;
    this.#wakeEngine?.();
  }

  /** Hands in the one result. A second one is ignored: the first was already promised to the reader. */
  finish(result: StepResult): void {
    if (this.#finished) {
      return;
    }
    this.#finished = true;
    this.#waiting.push({ kind: "result", result });
    this.#wakeReader?.();
    this.#wakeEngine?.();
  }

  /** The reader is gone: whatever comes is dropped, and the engine is not made to wait for it. */
  abandon(): void {
    this.#abandoned = true;
    this.#waiting = [];
    this.#waitingText = 0;
    this.#wakeReader?.();
    this.#wakeEngine?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StepOutput> {
    while (!this.#abandoned) {
      const next = this.#waiting.shift();
      if (next === undefined) {
        await this.#moreToRead();
        continue;
      }
      if (next.kind === "result") {
        yield next;
        return;
      }
      this.#waitingText -= "text" in next.event ? next.event.text.length : 0;
      if (this.#waiting.length <= EVENTS_WAITING_MAX / 2 && this.#waitingText <= TEXT_WAITING_MAX / 2) {
        this.#wakeEngine?.();
      }
      yield next;
    }
  }

  #merge(event: StepEvent): boolean {
    const last = this.#waiting.at(-1);
    if (!isDelta(event) || last?.kind !== "event" || !isDelta(last.event)) {
      return false;
    }
    const before = last.event;
    const follows = before.offset + before.text.length === event.offset;
    if (before.type !== event.type || before.itemId !== event.itemId || !follows) {
      return false;
    }
    if (before.text.length + event.text.length > TEXT_WAITING_MAX) {
      return false;
    }
    this.#waiting[this.#waiting.length - 1] = { kind: "event", event: { ...before, text: before.text + event.text } };
    return true;
  }

  #moreToRead(): Promise<void> {
    return new Promise((resolve) => {
      this.#wakeReader = () => {
        this.#wakeReader = null;
        resolve();
      };
    });
  }

  #roomAgain(): Promise<void> {
    this.#room ??= new Promise((resolve) => {
      this.#wakeEngine = () => {
        this.#wakeEngine = null;
        this.#room = null;
        resolve();
      };
    });
    return this.#room;
  }
}

function isDelta(event: StepEvent): event is Delta {
  return event.type === "text.delta" || event.type === "thinking.delta";
}
