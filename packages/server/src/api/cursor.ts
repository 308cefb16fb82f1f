/**
 * Where a reader of events resumes: `Last-Event-ID`, else `?after=`. Always a sequence, never anything else.
 * Without either it begins with the oldest event that is kept.
 */
import { clip, PlatformError } from "@signalbox/contract";

const SHOWN_CHARS = 40;
const SEQUENCE = /^(0|[1-9][0-9]{0,15})$/;

export function cursorOf(options: {
  readonly lastEventId: string | string[] | undefined;
  readonly after: string | undefined;
  readonly head: number;
  /** The oldest cursor that still works; 0 while every event is kept. */
  readonly kept: number;
  /** Whether the store has been put back or replaced since the conversation began: places may have gone with it. */
  readonly replaced: boolean;
  /** Told to a reader whose cursor is older, or lost. */
  readonly restartUrl: string;
}): number {
  const header =
    typeof options.lastEventId === "string" && options.lastEventId !== "" ? options.lastEventId : undefined;
  if (header === undefined && options.after === undefined) return Math.max(options.kept - 1, 0);
  const pointer = header === undefined ? "after" : "Last-Event-ID";
  const text = header ?? options.after ?? "0";
  if (!SEQUENCE.test(text)) {
    const detail = `A cursor is a sequence of this conversation, not "${clip(text, SHOWN_CHARS)}".`;
    throw new PlatformError("invalid_cursor", detail, {
      fields: [{ pointer, detail: "must be a whole number from 0" }],
    });
  }
  const sequence = Number(text);
  if (sequence > options.head && options.replaced) {
    const detail =
      `The store was put back, and the conversation has events up to ${options.head} now; ` +
      `what was seen behind that is not part of it. Read the messages anew, and follow ${options.restartUrl}.`;
    throw new PlatformError("cursor_lost", detail, {
      extra: { keptSequence: options.kept, eventsUrl: options.restartUrl },
    });
  }
  if (sequence > options.head) {
    const detail = `The conversation has events up to ${options.head}; there is no event ${sequence} yet.`;
    throw new PlatformError("invalid_cursor", detail, {
      fields: [{ pointer, detail: `must be at most ${options.head}` }],
    });
  }
  if (sequence < options.kept) throw cursorExpired(options.kept, options.restartUrl);
  return sequence;
}

/** For a reader who stood where the log has been forgotten since. */
export function cursorExpired(keptSequence: number, eventsUrl: string): PlatformError {
  const detail = `Events are kept from ${keptSequence} on. Read the messages for what was before, and follow ${eventsUrl}.`;
  return new PlatformError("cursor_expired", detail, { extra: { keptSequence, eventsUrl } });
}
