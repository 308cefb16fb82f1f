/** Where a reader of events resumes: `Last-Event-ID`, else `?after=`. Always a sequence, never anything else. */
import { PlatformError } from "@signalbox/contract";

const SEQUENCE = /^(0|[1-9][0-9]{0,15})$/;

export function cursorOf(options: {
  readonly lastEventId: string | string[] | undefined;
  readonly after: string | undefined;
  readonly head: number;
}): number {
  const header =
    typeof options.lastEventId === "string" && options.lastEventId !== "" ? options.lastEventId : undefined;
  const text = header ?? options.after ?? "0";
  if (!SEQUENCE.test(text)) {
    throw new PlatformError(
      "invalid_cursor",
      `A cursor is a sequence of this conversation, not "${text.slice(0, 40)}".`,
      {
        fields: [
          { pointer: header === undefined ? "after" : "Last-Event-ID", detail: "must be a whole number from 0" },
        ],
      },
    );
  }
  const sequence = Number(text);
  if (sequence > options.head) {
    throw new PlatformError(
      "invalid_cursor",
      `The conversation has events up to ${options.head}; there is no event ${sequence} yet.`,
      {
        fields: [
          { pointer: header === undefined ? "after" : "Last-Event-ID", detail: `must be at most ${options.head}` },
        ],
      },
    );
  }
  return sequence;
}
