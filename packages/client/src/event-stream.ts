/**
 * A conversation's events as an async iterable that survives the connection: it resumes from the last sequence it has
 * seen, notices a half-open connection by the missing heartbeat, and never hands out an event twice.
 */
import { platformEventSchema, type PlatformEvent } from "@signalbox/contract";
import { EventSourceParserStream } from "eventsource-parser/stream";
import { SignalboxError } from "./client-error.ts";
import { ItemTexts } from "./item-texts.ts";
import { backoffMs, pause } from "./pause.ts";
import type { Transport } from "./transport.ts";

/** The server sends a heartbeat at least every 15 s; three missed ones mean the connection is dead. */
const SILENCE_LIMIT_MS = 45_000;
/** An event holds at most one item's text, whatever escaping makes of it. */
const FRAME_LIMIT_CHARS = 32_000_000;
const BACKOFF_STEPS = 6;
/** The place is gone, and with it what was behind it. */
const PLACE_GONE: ReadonlySet<string> = new Set(["cursor_expired", "cursor_lost"]);

/** Where a stream of events begins and how it ends. */
export interface EventStreamOptions {
  /** Start after this sequence. Default: with the oldest event that is kept. */
  readonly after?: number;
  /**
   * What to do when the place this reader stands at is gone, because the events after it are no longer kept or because
   * the platform's store was put back to before it: `fail` ends with `cursor_expired` or `cursor_lost`, whose problem
   * names `keptSequence`; `restart` goes on with the oldest event that is kept, so that what was between is only in the
   * messages. Default `fail`.
   */
  readonly expired?: "fail" | "restart";
  /** `false` ends at the newest event instead of following. Default `true`. */
  readonly follow?: boolean;
  /** Ends the stream; the iteration then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Without a byte for this long the connection counts as dead and is made anew. Default 45 000. */
  readonly silenceLimitMs?: number;
}

/**
 * Connects, and connects again for as long as that may help. Errors: those that waiting does not mend, such as
 * `not_found`, `unauthenticated`, `invalid_cursor`, `cursor_expired`, `cursor_lost`, `unreadable`.
 */
export async function* conversationEvents(
  transport: Transport,
  conversationId: string,
  options: EventStreamOptions = {},
): AsyncGenerator<PlatformEvent, void, undefined> {
  const { expired = "fail", follow = true, silenceLimitMs = SILENCE_LIMIT_MS, signal } = options;
  const texts = new ItemTexts();
  let after = options.after ?? null;
  let failures = 0;
  for (;;) {
    signal?.throwIfAborted();
    let waitMs: number | null = null;
    try {
      const path = `/v1/conversations/${encodeURIComponent(conversationId)}/events?${after === null ? "" : `after=${after}&`}follow=${follow}`;
      for await (const event of connectOnce(transport, path, { silenceLimitMs, signal })) {
        failures = 0;
        if (event.sequence !== null) {
          if (after !== null && event.sequence <= after) continue;
          after = event.sequence;
        }
        yield* texts.accept(event);
      }
      if (!follow) return;
    } catch (thrown) {
      signal?.throwIfAborted();
      if (!(thrown instanceof SignalboxError)) throw thrown;
      if (PLACE_GONE.has(thrown.code ?? "") && expired === "restart" && after !== null) {
        after = null;
        continue;
      }
      if (!thrown.retryable) throw thrown;
      waitMs = thrown.retryAfterMs;
      failures += 1;
    }
    await pause(waitMs ?? backoffMs(Math.min(Math.max(failures, 1), BACKOFF_STEPS)), signal);
  }
}

/** One connection's events. Every way it can break is a `SignalboxError`. */
async function* connectOnce(
  transport: Transport,
  path: string,
  options: { readonly silenceLimitMs: number; readonly signal: AbortSignal | undefined },
): AsyncGenerator<PlatformEvent, void, undefined> {
  const { silenceLimitMs, signal } = options;
  const connection = new AbortController();
  const stop = (): void => connection.abort(signal?.reason);
  signal?.addEventListener("abort", stop, { once: true });
  using silence = new SilenceWatch(silenceLimitMs, () => {
    connection.abort(new SignalboxError(`The event stream was silent for ${silenceLimitMs} ms.`));
  });
  try {
    const headers = { accept: "text/event-stream" };
    const response = await transport.once({ method: "GET", path, headers, signal: connection.signal });
    yield* eventsOf(response, { heard: () => silence.heard(), signal: connection.signal });
  } catch (thrown) {
    connection.signal.throwIfAborted();
    if (thrown instanceof SignalboxError) throw thrown;
    throw new SignalboxError("The event stream broke off.", { cause: thrown });
  } finally {
    signal?.removeEventListener("abort", stop);
    connection.abort();
  }
}

async function* eventsOf(
  response: Response,
  connection: { readonly heard: () => void; readonly signal: AbortSignal },
): AsyncGenerator<PlatformEvent, void, undefined> {
  const type = response.headers.get("content-type") ?? "";
  if (response.body === null || !type.startsWith("text/event-stream")) {
    const message = `What answers at ${response.url} is no event stream. Is it the API?`;
    throw new SignalboxError(message, { code: "unreadable", status: response.status });
  }
  const heard = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      connection.heard();
      controller.enqueue(chunk);
    },
  });
  const frames = response.body
    .pipeThrough(heard)
    .pipeThrough(utf8Stream())
    .pipeThrough(new EventSourceParserStream({ maxBufferSize: FRAME_LIMIT_CHARS }))
    .getReader();
  // Whatever made the stream break is told by the read that it breaks.
  const close = (): void => void frames.cancel().catch(() => undefined);
  connection.signal.addEventListener("abort", close, { once: true });
  try {
    for (;;) {
      const { done, value } = await frames.read();
      connection.signal.throwIfAborted();
      if (done) return;
      const event = parseEvent(value.data);
      if (event !== null) yield event;
    }
  } finally {
    connection.signal.removeEventListener("abort", close);
    close();
  }
}

/** Bytes to text, whatever a cut between them splits. */
function utf8Stream(): TransformStream<Uint8Array, string> {
  const decoder = new TextDecoder();
  return new TransformStream({
    transform: (chunk, controller) => controller.enqueue(decoder.decode(chunk, { stream: true })),
  });
}

/** Calls back when nothing was heard for too long. */
class SilenceWatch implements Disposable {
  readonly #limitMs: number;
  readonly #onSilence: () => void;
  #timer: ReturnType<typeof setTimeout>;

  constructor(limitMs: number, onSilence: () => void) {
    this.#limitMs = limitMs;
    this.#onSilence = onSilence;
    this.#timer = setTimeout(onSilence, limitMs);
  }

  heard(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#onSilence, this.#limitMs);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}

/** `null` for types this client does not know: the API may add some at any time. */
function parseEvent(data: string): PlatformEvent | null {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    throw new SignalboxError("The event stream carried something that is not JSON.", { code: "unreadable", cause });
  }
  const parsed = platformEventSchema.safeParse(value);
  return parsed.success ? parsed.data : null;
}
