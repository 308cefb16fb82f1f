/** Says what the turn says: live at once, durable soon. Durability never slows a stream, up to a bound. */
import type { OwnerEvent, PlatformError, TurnId } from "@signalbox/contract";
import { isRunPhase } from "../events/phase.ts";
import type { Limits } from "../kernel/limits.ts";
import type { ClosedItem, Ownership, VisibleItem } from "../ports/ownership-record.ts";
import type { WorkerEvent } from "../ports/worker.ts";
import { createItemBook, type Closing, type ItemBook } from "./item-book.ts";
import { RowWriter } from "./row-writer.ts";
import type { TurnPorts } from "./turn-context.ts";

export interface EmitterOptions {
  readonly ownership: Ownership;
  readonly turnId: TurnId;
  readonly ports: TurnPorts;
  readonly limits: Limits;
  /** The record refused a row: nothing more is said, and the turn must end. */
  readonly onRefused: (error: PlatformError) => void;
}

export class Emitter implements AsyncDisposable {
  readonly #options: EmitterOptions;
  readonly #book: ItemBook;
  readonly #rows: RowWriter;

  constructor(options: EmitterOptions) {
    const { ownership, turnId, ports, limits, onRefused } = options;
    const { clock, cancellation } = ports;
    this.#options = options;
    this.#book = createItemBook(ownership.claim.generation, limits.itemChars);
    this.#rows = new RowWriter({ ownership, turnId, clock, cancellation, limits, onRefused });
  }

  /** Says one event of the worker. A promise, when there is one, is to be waited for before the next. */
  emit(event: WorkerEvent): Promise<void> | undefined {
    switch (event.type) {
      case "text.delta":
      case "thinking.delta":
        this.#grow(event);
        break;
      case "text.completed":
      case "thinking.completed":
        this.#rows.close(
          this.#book.complete({ ...event, kind: event.type === "text.completed" ? "text" : "thinking" }),
        );
        break;
      case "text.retracted":
        this.retract([{ itemId: event.itemId, kind: "text" }], event.cause);
        break;
      case "run.phase":
        this.#say(event.phase);
        break;
      case "input.consumed":
        // The record tells readers, with the fact.
        break;
    }
    return this.#rows.room();
  }

  /** The turn is composed: what it begins with. */
  composed(data: Extract<OwnerEvent, { readonly type: "turn.composed" }>["data"]): void {
    const itemId = this.#options.turnId;
    this.#rows.add({ type: "turn.composed", itemId, revision: this.#book.stamp(itemId), data });
  }

  /** Takes items back, also such that readers saw from an earlier attempt. */
  retract(items: readonly VisibleItem[], cause: string): void {
    for (const item of items) {
      const row = this.#book.retract(item, cause);
      if (row !== null) {
        this.#rows.close(row);
      }
    }
  }

  /** Items of an earlier generation that stay: they are part of what this turn says. */
  adopt(items: readonly ClosedItem[]): void {
    this.#book.adopt(items);
  }

  /** Closes whatever is still open. */
  closeOpen(closing: Closing): void {
    for (const row of this.#book.closeOpen(closing)) {
      this.#rows.close(row);
    }
  }

  /** Text of the newest text item that was not taken back: what there is of an answer. */
  latestText(): string {
    return this.#book.latestText();
  }

  /** Every item that was shown and not taken back. */
  shown(): readonly VisibleItem[] {
    return this.#book.shown();
  }

  /** Resolves once everything said is durable; rejects with what the record answered. */
  durable(): Promise<void> {
    return this.#rows.durable();
  }

  /** Says nothing more and waits for the append in flight. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#rows[Symbol.asyncDispose]();
  }

  #grow(event: Extract<WorkerEvent, { readonly offset: number }>): void {
    const part = this.#book.grow(event);
    if (part === null) {
      return;
    }
    const { ports, turnId, ownership } = this.#options;
    const { conversationId, runId, generation } = ownership.claim;
    ports.live.publish({ ...part, conversationId, runId, turnId, generation });
    this.#rows.part(part);
  }

  #say(phase: string): void {
    const { runId } = this.#options.ownership.claim;
    if (isRunPhase(phase)) {
      this.#rows.add({ type: "run.phase", itemId: runId, revision: this.#book.stamp(runId), data: { phase } });
    } else {
      this.#options.ports.log.warn("a worker named a phase that does not exist", { runId, phase });
    }
  }
}
