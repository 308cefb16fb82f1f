/**
 * Turns what the engine says during one turn into our events, and remembers what the turn came to. It decides nothing
 * about the process; it only reads. The rules it keeps: a message counts once it has ended with a stop reason; one
 * that is begun anew, or that never ends, is taken back; an error the engine words as if the model had said it is
 * never shown and never the answer.
 */
import type { SDKAssistantMessage, SDKMessage } from "@anthropic-ai/claude-agent-sdk";
import type { StepEvent } from "@signalbox/worker";
import { MessageItems } from "./message-items.ts";

type Phase = Extract<StepEvent, { readonly type: "run.phase" }>["phase"];
type StreamMessage = Extract<SDKMessage, { readonly type: "stream_event" }>;
type SystemMessage = Extract<SDKMessage, { readonly type: "system" }>;

/** What a turn came to, apart from how it ended. */
export interface TurnFacts {
  readonly answer: string;
  readonly stopReason: string;
  readonly servedModel: string;
  /** The engine's word for the last error it reported in the model's place; empty when the model spoke after it. */
  readonly errorKind: string;
  /** The type a gate gave that error on the wire; empty when it was none of a gate's. */
  readonly errorType: string;
  /** Whether a model message had begun and not ended when the turn ended. */
  readonly wasCut: boolean;
}

/** Stop reasons of a message that was cut for its length. */
const CUT_FOR_LENGTH: ReadonlySet<string> = new Set(["max_tokens", "model_context_window_exceeded"]);

export class TurnTranslation {
  readonly #newItemId: () => string;
  /** The message being said, not yet known to count. */
  #open: MessageItems | null = null;
  #lastCounted: MessageItems | null = null;
  /** Items by the engine's ids of finished blocks, for messages it replaces later. */
  readonly #itemsByRow = new Map<string, readonly string[]>();
  #phase: Phase | null = null;
  #servedModel = "";
  #errorKind = "";
  #errorType = "";

  constructor(newItemId: () => string) {
    this.#newItemId = newItemId;
  }

  /** Whether the model's last message was cut at its length limit and nothing follows from it but more of the same. */
  get isTruncated(): boolean {
    const last = this.#lastCounted;
    return last !== null && !last.hasCalls && CUT_FOR_LENGTH.has(last.stopReason ?? "");
  }

  accept(message: SDKMessage): readonly StepEvent[] {
    if ("parent_tool_use_id" in message && message.parent_tool_use_id !== null) {
      return [];
    }
    if (message.type === "stream_event") {
      return this.#streamed(message);
    }
    if (message.type === "assistant") {
      return this.#finished(message);
    }
    return message.type === "system" ? this.#told(message) : [];
  }

  /** Call once, when the turn has ended. `keepPartial` when what was said so far is to stay. */
  end(keepPartial: boolean): readonly StepEvent[] {
    const open = this.#open;
    if (open === null) {
      return [];
    }
    if (!keepPartial) {
      return open.retracted("incomplete");
    }
    this.#lastCounted = open;
    return open.completed();
  }

  facts(): TurnFacts {
    const last = this.#lastCounted;
    return {
      answer: last === null || isRefusal(last) ? "" : last.text,
      stopReason: last?.stopReason ?? "",
      servedModel: this.#servedModel,
      errorKind: this.#errorKind,
      errorType: this.#errorType,
      wasCut: this.#open !== null,
    };
  }

  #streamed(message: StreamMessage): readonly StepEvent[] {
    const event = message.event;
    if (event.type === "message_start") {
      const events = this.#takeBack("retried");
      this.#open = new MessageItems(event.message.id, this.#newItemId);
      this.#servedModel = event.message.model;
      return events;
    }
    const open = this.#open;
    if (open === null) {
      return [];
    }
    if (event.type === "content_block_start") {
      return this.#begun(open, event.index, event.content_block.type);
    }
    if (event.type === "content_block_delta") {
      const { delta } = event;
      if (delta.type === "text_delta") {
        return open.say(event.index, delta.text);
      }
      return delta.type === "thinking_delta" ? open.say(event.index, delta.thinking) : [];
    }
    if (event.type === "content_block_stop") {
      return open.endBlock(event.index);
    }
    if (event.type === "message_delta") {
      open.stopReason = event.delta.stop_reason ?? open.stopReason;
      return [];
    }
    return open.stopReason === null ? [] : this.#count(open);
  }

  #begun(open: MessageItems, place: number, kind: string): readonly StepEvent[] {
    if (kind === "text" || kind === "thinking") {
      open.begin(place, kind);
      return this.#enter(kind === "text" ? "writing" : "thinking");
    }
    if (kind === "tool_use") {
      open.hasCalls = true;
      return this.#enter("using_tool");
    }
    return [];
  }

  #finished(message: SDKAssistantMessage): readonly StepEvent[] {
    if (message.error !== undefined || message.message.model === "<synthetic>") {
      this.#errorKind = message.error ?? "unknown";
      this.#errorType = wireTypeOf(message);
      return [];
    }
    const replaced = (message.supersedes ?? []).flatMap((row) => this.#itemsByRow.get(row) ?? []);
    const events: StepEvent[] = replaced.map((itemId) => ({ type: "text.retracted", itemId, cause: "replaced" }));
    const { id, content, stop_reason: stopReason } = message.message;
    const items = [this.#open, this.#lastCounted].find((each) => each?.messageId === id) ?? null;
    const target = items ?? new MessageItems(id, this.#newItemId);
    for (const block of content) {
      if (block.type === "text") {
        target.finish("text", block.text);
      } else if (block.type === "thinking") {
        target.finish("thinking", block.thinking);
      } else if (block.type === "tool_use") {
        target.hasCalls = true;
      }
    }
    this.#itemsByRow.set(message.uuid, target.shownItemIds);
    if (items === null) {
      // An answer that came in one piece.
      this.#servedModel = message.message.model;
      target.stopReason = stopReason;
      events.push(...this.#takeBack("retried"), ...this.#count(target));
    }
    return events;
  }

  #told(message: SystemMessage): readonly StepEvent[] {
    if (message.subtype === "status" && message.status !== null) {
      return this.#enter(message.status === "compacting" ? "compacting" : "waiting_provider");
    }
    if (message.subtype === "api_retry") {
      return [...this.#takeBack("retried"), ...this.#enter("waiting_provider")];
    }
    return [];
  }

  #count(message: MessageItems): readonly StepEvent[] {
    this.#open = null;
    this.#lastCounted = message;
    this.#errorKind = "";
    this.#errorType = "";
    return isRefusal(message) ? message.retracted("refused") : message.completed();
  }

  #takeBack(cause: string): readonly StepEvent[] {
    const open = this.#open;
    this.#open = null;
    return open?.retracted(cause) ?? [];
  }

  #enter(phase: Phase): readonly StepEvent[] {
    if (this.#phase === phase) {
      return [];
    }
    this.#phase = phase;
    return [{ type: "run.phase", phase }];
  }
}

function isRefusal(message: MessageItems): boolean {
  return message.stopReason === "refusal";
}

/** The engine passes the type on, in a field its declarations do not have. */
function wireTypeOf(message: object): string {
  return "api_error_type" in message && typeof message.api_error_type === "string" ? message.api_error_type : "";
}
