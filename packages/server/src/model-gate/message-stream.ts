/**
 * One streamed message, frame by frame: which frames an engine may have now, which must wait, and what the message
 * turned out to be. Text and thinking may pass at once. From the first tool block on everything waits until the message
 * has ended and its calls have been recorded; `message_stop` always waits until the call is settled, so that whoever
 * sees it may rely on the record.
 */
import { NO_USAGE, PlatformError, type Usage } from "@signalbox/contract";
import type { Frame } from "../gates/sse-frames.ts";
import { releasableCalls, withheldNote, withheldStopReason, type ToolBlock, type ToolUse } from "./tool-blocks.ts";
import { withWireUsage } from "./wire-usage.ts";

export type FrameFate = "forward" | "hold" | "complete" | "error";

interface WireEvent {
  readonly type?: unknown;
  readonly index?: unknown;
  readonly message?: { readonly model?: unknown; readonly usage?: unknown } | null;
  readonly content_block?: {
    readonly type?: unknown;
    readonly id?: unknown;
    readonly name?: unknown;
    readonly input?: unknown;
  } | null;
  readonly delta?: Readonly<Record<string, unknown>> | null;
  readonly usage?: unknown;
  readonly error?: { readonly type?: unknown } | null;
}

interface HeldFrame {
  readonly bytes: Buffer;
  readonly event: WireEvent;
}

interface OpenToolBlock extends ToolBlock {
  readonly pieces: string[];
  closed: boolean;
}

const HELD_BYTES_MAX = 8 * 1024 * 1024;
const TOOL_BLOCKS_MAX = 128;

export class MessageStream {
  readonly #held: HeldFrame[] = [];
  readonly #tools = new Map<unknown, OpenToolBlock>();
  #heldBytes = 0;
  #usage: Usage | null = null;
  #servedModel = "";
  #stopReason: string | null = null;
  #receivedChars = 0;
  #errorType = "";

  /** `null` until the message has started. */
  get usage(): Usage | null {
    return this.#usage;
  }

  get servedModel(): string {
    return this.#servedModel;
  }

  get stopReason(): string | null {
    return this.#stopReason;
  }

  /** Text, thinking and arguments received so far, in UTF-16 units. */
  get receivedChars(): number {
    return this.#receivedChars;
  }

  /** Type of the `error` event that ended the stream. */
  get errorType(): string {
    return this.#errorType;
  }

  /** The calls to propose, or `null` when the message has calls that no engine may get. */
  calls(): readonly ToolUse[] | null {
    return releasableCalls([...this.#tools.values()], this.#stopReason);
  }

  /** Throws `provider_stream_broken` when the frame is no event of this wire. */
  take(frame: Frame): FrameFate {
    if (frame.data === null) return "forward";
    const event = readEvent(frame.data);
    switch (event.type) {
      case "message_start":
        this.#usage = withWireUsage(NO_USAGE, event.message?.usage);
        this.#servedModel = typeof event.message?.model === "string" ? event.message.model : "";
        return this.#pass(frame, event);
      case "content_block_start":
        this.#startBlock(event);
        return this.#pass(frame, event);
      case "content_block_delta":
        this.#addToBlock(event);
        return this.#pass(frame, event);
      case "content_block_stop": {
        const tool = this.#tools.get(event.index);
        if (tool !== undefined) tool.closed = true;
        return this.#pass(frame, event);
      }
      case "message_delta":
        if (typeof event.delta?.stop_reason === "string") this.#stopReason = event.delta.stop_reason;
        this.#usage = withWireUsage(this.#usage ?? NO_USAGE, event.usage);
        return this.#pass(frame, event);
      case "message_stop":
        if (this.#usage === null || this.#stopReason === null) throw broken("the message ended before it said how");
        this.#hold(frame, event);
        return "complete";
      case "error":
        this.#errorType = typeof event.error?.type === "string" ? event.error.type : "api_error";
        return "error";
      default:
        // `ping`, and whatever the wire learns later: it belongs to no block and may pass.
        return "forward";
    }
  }

  /** Everything that waited, as it came. */
  held(): Buffer {
    return closed(this.#held.map((frame) => frame.bytes));
  }

  /** Everything that waited, with a note in the place of each call and a stop reason that says "cut off". */
  heldWithoutCalls(): Buffer {
    const noted = new Set<unknown>();
    return closed(
      this.#held.map(({ bytes, event }) => {
        if (event.type === "message_delta") return Buffer.from(this.#cutOffDelta(event));
        const tool = event.type === "message_stop" ? undefined : this.#tools.get(event.index);
        if (tool === undefined) return bytes;
        if (noted.has(event.index)) return Buffer.alloc(0);
        noted.add(event.index);
        return Buffer.from(noteFrames(event.index, withheldNote(tool)));
      }),
    );
  }

  #pass(frame: Frame, event: WireEvent): FrameFate {
    if (this.#tools.size === 0) return "forward";
    this.#hold(frame, event);
    return "hold";
  }

  #hold(frame: Frame, event: WireEvent): void {
    this.#heldBytes += frame.bytes.length;
    if (this.#heldBytes > HELD_BYTES_MAX) throw broken("the calls of one message are too large");
    // A copy: the frame is a view of a buffer that may hold much more.
    this.#held.push({ bytes: Buffer.from(frame.bytes), event });
  }

  #startBlock(event: WireEvent): void {
    if (event.content_block?.type !== "tool_use") return;
    if (this.#tools.size >= TOOL_BLOCKS_MAX || this.#tools.has(event.index)) {
      throw broken("its tool blocks are not valid");
    }
    const { id, name, input } = event.content_block;
    this.#tools.set(event.index, { id, name, input, pieces: [], closed: false });
  }

  #addToBlock(event: WireEvent): void {
    const { text, thinking, partial_json: piece } = event.delta ?? {};
    for (const part of [text, thinking, piece]) this.#receivedChars += typeof part === "string" ? part.length : 0;
    if (typeof piece === "string") this.#tools.get(event.index)?.pieces.push(piece);
  }

  #cutOffDelta(event: WireEvent): string {
    const delta = { ...event.delta, stop_reason: withheldStopReason(this.#stopReason) };
    return `event: message_delta\ndata: ${JSON.stringify({ ...event, delta })}\n\n`;
  }
}

function readEvent(data: string): WireEvent {
  let event: unknown;
  try {
    event = JSON.parse(data);
  } catch {
    throw broken("an event is not valid JSON");
  }
  if (typeof event !== "object" || event === null) throw broken("an event is not an object");
  // Every member is optional and unknown in the type, and is checked where it is used.
  return event;
}

/** A last line that ended with CR alone may be the first half of a CR LF: some readers wait for the other half. */
function closed(parts: readonly Buffer[]): Buffer {
  const whole = Buffer.concat(parts);
  return whole.at(-1) === 0x0d ? Buffer.concat([whole, Buffer.from("\n")]) : whole;
}

function noteFrames(index: unknown, note: string): string {
  const events = [
    { type: "content_block_start", index, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index, delta: { type: "text_delta", text: note } },
    { type: "content_block_stop", index },
  ];
  return events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
}

function broken(why: string): PlatformError {
  return new PlatformError("provider_stream_broken", `The model provider's stream cannot be used: ${why}.`);
}
