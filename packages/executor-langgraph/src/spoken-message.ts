/** One attempt at a model message as a reader sees it: items, offsets, phases, and taking it all back. */
import { wellFormed } from "@signalbox/contract";
import type { ModelDelta, StepEvent } from "@signalbox/worker";

export type Emit = (event: StepEvent) => Promise<void> | void;
export type Phase = Extract<StepEvent, { readonly type: "run.phase" }>["phase"];

/** Tells a phase when it changes. */
export class Phases {
  readonly #emit: Emit;
  #phase: Phase | null = null;

  constructor(emit: Emit) {
    this.#emit = emit;
  }

  async enter(phase: Phase): Promise<void> {
    if (this.#phase !== phase) {
      this.#phase = phase;
      await this.#emit({ type: "run.phase", phase });
    }
  }
}

interface Item {
  readonly itemId: string;
  readonly kind: "text" | "thinking";
  text: string;
  completed: boolean;
}

export class SpokenMessage {
  readonly #emit: Emit;
  readonly #phases: Phases;
  readonly #newItemId: () => string;
  /** All text of a message is one item; each block of thinking is one of its own. */
  #text: Item | null = null;
  readonly #thinking = new Map<number, Item>();
  #closed = false;

  constructor(parts: { readonly emit: Emit; readonly phases: Phases; readonly newItemId: () => string }) {
    this.#emit = parts.emit;
    this.#phases = parts.phases;
    this.#newItemId = parts.newItemId;
  }

  /** Whether a reader has seen anything of this attempt. */
  get seen(): boolean {
    return this.#text !== null || this.#thinking.size > 0;
  }

  get text(): string {
    return wellFormed(this.#text?.text ?? "");
  }

  /** The token goes out first; which phase it means follows it. Nothing is said once the message was closed. */
  say(delta: ModelDelta): Promise<void> | undefined {
    if (this.#closed) {
      // The step was stopped while a burst was being told.
      return undefined;
    }
    if (delta.type === "block_stopped") {
      const thought = this.#thinking.get(delta.block);
      return thought === undefined ? undefined : this.#complete(thought);
    }
    const first = !this.seen || (delta.type === "text" && this.#text === null);
    const item = delta.type === "text" ? this.#textItem() : this.#thinkingItem(delta.block);
    const offset = item.text.length;
    item.text += delta.text;
    const told = this.#emit({ type: `${delta.type}.delta`, itemId: item.itemId, offset, text: delta.text });
    const phase = delta.type === "text" ? "writing" : "thinking";
    if (!first) {
      return told ?? undefined;
    }
    return Promise.resolve(told).then(() => this.#phases.enter(phase));
  }

  /** Closes what is open: the message is whole, or as much of it as there will be. */
  async complete(): Promise<void> {
    this.#closed = true;
    for (const item of this.#thinking.values()) {
      await this.#complete(item);
    }
    if (this.#text === null) {
      return;
    }
    await (this.#text.text.trim() === "" ? this.#retract(this.#text, "empty") : this.#complete(this.#text));
  }

  /** Takes back everything a reader has seen. */
  async retract(cause: string): Promise<void> {
    this.#closed = true;
    for (const item of [...this.#thinking.values(), ...(this.#text === null ? [] : [this.#text])]) {
      await this.#retract(item, cause);
    }
  }

  #textItem(): Item {
    this.#text ??= { itemId: this.#newItemId(), kind: "text", text: "", completed: false };
    return this.#text;
  }

  #thinkingItem(block: number): Item {
    let item = this.#thinking.get(block);
    if (item === undefined) {
      item = { itemId: this.#newItemId(), kind: "thinking", text: "", completed: false };
      this.#thinking.set(block, item);
    }
    return item;
  }

  async #complete(item: Item): Promise<void> {
    if (!item.completed) {
      item.completed = true;
      await this.#emit({ type: `${item.kind}.completed`, itemId: item.itemId, text: wellFormed(item.text) });
    }
  }

  async #retract(item: Item, cause: string): Promise<void> {
    item.completed = true;
    await this.#emit({ type: "text.retracted", itemId: item.itemId, cause });
  }
}
