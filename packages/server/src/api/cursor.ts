/** Where a reader of events resumes: `Last-Event-ID`, else `?after=`. Always a sequence, never anything else. */
import { clip, PlatformError } from "@signalbox/contract";

const SHOWN_CHARS = 40;
const SEQUENCE = /^(0|[1-9][0-9]{0,15})$/;

export function cursorOf(options: {
  readonly lastEventId: string | string[] | undefined;
  readonly after: string | undefined;
  readonly head: number;
}): number {
  const header =
    typeof options.lastEventId === "string" && options.lastEventId !== "" ? options.lastEventId : undefined;
  const pointer = header === undefined ? "after" : "Last-Event-ID";
  const text = header ?? options.after ?? "0";
  if (!SEQUENCE.test(text)) {
    const detail = `A cursor is a sequence of this conversation, not "${clip(text, SHOWN_CHARS)}".`;
    throw new PlatformError("invalid_cursor", detail, {
      fields: [{ pointer, detail: "must be a whole number from 0" }],
    });
  }
  const sequence = Number(text);
  if (sequence > options.head) {
    const detail = `The conversation has events up to ${options.head}; there is no event ${sequence} yet.`;
    throw new PlatformError("invalid_cursor", detail, {
      fields: [{ pointer, detail: `must be at most ${options.head}` }],
    });
  }
  return sequence;
}
