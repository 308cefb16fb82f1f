import { expect, it } from "vitest";
import { prefersStream } from "./accept.ts";

it.each([
  [undefined, false],
  ["", false],
  ["*/*", false],
  ["text/*", false],
  ["application/json", false],
  ["text/html, application/json", false],
  ["text/event-stream", true],
  ["Text/Event-Stream", true],
  ["text/event-stream; charset=utf-8", true],
  ["application/json, text/event-stream", true],
  ["text/event-stream, */*;q=0.1", true],
  ["text/event-stream;q=0", false],
  ["text/event-stream;q=0.5, application/json", false],
  ["text/event-stream;q=0.9, application/json;q=0.8", true],
  ["text/event-stream;q=nonsense", false],
  ["text/event-stream-of-consciousness", false],
  [";;,,=,", false],
])("Accept %j: stream %s", (accept, stream) => {
  expect(prefersStream(accept)).toBe(stream);
});
