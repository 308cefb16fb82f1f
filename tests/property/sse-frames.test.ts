/** Cutting server-sent events into frames, against another reader of the format, under any chunking and any line ends. */
import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { expect, it } from "vitest";
import { FrameScanner } from "../../packages/server/src/gates/sse-frames.ts";

const lineEnd = fc.constantFrom("\n", "\r\n", "\r");
const value = fc
  .string({ unit: "binary", maxLength: 12 })
  .map((text) => text.toWellFormed().replaceAll(/[\r\n\ufeff]/g, "-"));
const line = fc.oneof(
  value.map((text) => `data: ${text}`),
  value.map((text) => `data:${text}`),
  value.map((text) => `event: ${text}`),
  value.map((text) => `: ${text}`),
  fc.constant("data"),
  fc.constant("retry: 10"),
);
const frame = fc.record({
  lines: fc.array(line, { maxLength: 5 }),
  ends: fc.array(lineEnd, { minLength: 6, maxLength: 6 }),
});
const stream = fc
  .array(frame, { maxLength: 8 })
  .map((frames) =>
    frames.map(({ lines, ends }) => [...lines, ""].map((text, at) => text + (ends[at] ?? "\n")).join("")).join(""),
  );

/** The bytes in pieces: each cut may fall inside a character or between CR and LF. */
function pieces(bytes: Buffer, cuts: readonly number[]): readonly Buffer[] {
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((left, right) => left - right);
  return [0, ...places].map((from, at) => bytes.subarray(from, places[at] ?? bytes.length));
}

/** What is left when comments, events without data and the name of unnamed events are put aside. */
function told(events: readonly { readonly event: string; readonly data: string | null }[]) {
  return events.flatMap(({ event, data }) => (data === null ? [] : [{ event, data }]));
}

it("finds the same events as another reader, and keeps every byte", () => {
  fc.assert(
    fc.property(stream, fc.array(fc.nat(4_000), { maxLength: 12 }), (text, cuts) => {
      const expected: { event: string; data: string }[] = [];
      const parser = createParser({ onEvent: ({ event, data }) => expected.push({ event: event ?? "", data }) });
      parser.feed(text);
      // The other reader waits behind a last CR for the LF that may follow.
      if (text.endsWith("\r")) parser.feed("\n");
      const scanner = new FrameScanner();
      const bytes = Buffer.from(text);
      const frames = pieces(bytes, cuts).flatMap((piece) => scanner.push(piece));
      expect(told(frames)).toEqual(expected);
      const kept = Buffer.concat(frames.map((each) => each.bytes));
      expect(kept.toString("utf8") + bytes.subarray(kept.length).toString("utf8")).toBe(text);
      expect(kept.length + scanner.pendingBytes).toBe(bytes.length);
    }),
    { numRuns: 2_000 },
  );
});
