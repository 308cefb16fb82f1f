/**
 * A conversation's events as an async iterable that survives the connection: it resumes from the last sequence it has
 * seen, notices a half-open connection by the missing heartbeat, and never hands out an event twice.
 */
import { platformEventSchema, type PlatformEvent } from "@signalbox/contract";
import { EventSourceParserStream } from "eventsource-parser/stream";
import { SignalboxError } from "./client-error.ts";
import { ItemTexts } from "./item-texts.ts";
import { backoffMs, pause, type Transport } from "./transport.ts";

/** The server sends a heartbeat at least every 15 s; three missed ones mean the connection is dead. */
const SILENCE_LIMIT_MS = 45_000;

export interface EventStreamOptions {
  /** Start after this sequence; 0 is the beginning. Default 0. */
  readonly after?: number;
  /** `false` ends at the newest event instead of following. Default `true`. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
}

export async function* conversationEvents(
  transport: Transport,
  conversationId: string,
  options: EventStreamOptions = {},
): AsyncGenerator<PlatformEvent, void, undefined> {
  const follow = options.follow ?? true;
  const texts = new ItemTexts();
  let after = options.after ?? 0;
  let failures = 0;
  for (;;) {
    options.signal?.throwIfAborted();
    try {
      for await (const event of connectOnce(
        transport,
        `/v1/conversations/${conversationId}/events?after=${after}&follow=${follow}`,
        options.signal,
      )) {
        failures = 0;
        if (event.sequence !== null) {
          if (event.sequence <= after) continue;
          after = event.sequence;
        }
        yield* texts.accept(event);
      }
      if (!follow) return;
    } catch (thrown) {
      options.signal?.throwIfAborted();
      if (thrown instanceof SignalboxError && !thrown.retryable) throw thrown;
      failures += 1;
    }
    await pause(backoffMs(Math.min(failures + 1, 6)), options.signal);
  }
}

async function* connectOnce(
  transport: Transport,
  path: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<PlatformEvent, void, undefined> {
  const connection = new AbortController();
  const stop = (): void => connection.abort(signal?.reason);
  signal?.addEventListener("abort", stop, { once: true });
  let silence: ReturnType<typeof setTimeout> | undefined;
  const heard = (): void => {
    clearTimeout(silence);
    silence = setTimeout(
      () => connection.abort(new SignalboxError("The event stream went silent.", {})),
      SILENCE_LIMIT_MS,
    );
  };
  try {
    heard();
    const response = await transport.once({
      method: "GET",
      path,
      headers: { accept: "text/event-stream" },
      signal: connection.signal,
    });
    if (response.body === null) return;
    const reader = response.body
      .pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform: (chunk, controller) => (heard(), controller.enqueue(chunk)),
        }),
      )
      .pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>)
      .pipeThrough(new EventSourceParserStream())
      .getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const event = parseEvent(value.data);
        if (event !== null) yield event;
      }
    } finally {
      await reader.cancel().catch(() => undefined);
    }
  } finally {
    clearTimeout(silence);
    signal?.removeEventListener("abort", stop);
    connection.abort();
  }
}

/** `null` for types this client does not know: the API may add some at any time. */
function parseEvent(data: string): PlatformEvent | null {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    throw new SignalboxError("The event stream carried something that is not JSON.", { cause });
  }
  const parsed = platformEventSchema.safeParse(value);
  return parsed.success ? parsed.data : null;
}
