/** A reader that does not read: it holds nothing up, nothing piles up for it, and it can go on where it stood. */
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ApiWorld } from "../../setup/api-world.ts";
import { until } from "../../setup/until.ts";
import { finish, framesUntilEnd, newPlace, open, owned, say, sequencesOf } from "./conversation.ts";

const SLOW_READER_MS = 400;
/** In all far more than any buffer between here and there holds. */
const ROW_CHARS = 500_000;
const ROW_COUNT = 60;

const TAKEN_CHARS_LIMIT = 15_000_000;

/** How much of the log was read for the streams of this process. */
function countTaken(beside: ApiWorld): () => number {
  let chars = 0;
  const services = beside.services as { record: typeof beside.services.record };
  const { record } = services;
  services.record = {
    ...record,
    async events(scope, id, range) {
      const page = await record.events(scope, id, range);
      chars += page.events.reduce((sum, { json }) => sum + json.length, 0);
      return page;
    },
  };
  return () => chars;
}

let world: ApiWorld;
beforeAll(async () => {
  world = await ApiWorld.open();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

it("is cut off with a reason, costs a bounded memory meanwhile, and resumes without a gap", async () => {
  const place = await newPlace(world);
  const ownership = await owned(place);
  // A process of its own, so that what is read for the slow reader can be counted.
  await using beside = await ApiWorld.open({ database: world.database, services: { slowReaderMs: SLOW_READER_MS } });
  const taken = countTaken(beside);
  const { hostname, port } = new URL(beside.url);
  await using stack = new AsyncDisposableStack();
  const socket: Socket = connect(Number(port), hostname);
  stack.defer(() => void socket.destroy());
  socket.on("error", () => undefined);
  socket.write(
    `GET /v1/conversations/${place.id}/events?after=0 HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${place.key}\r\n\r\n`,
  );
  socket.pause();
  await until("it is let in", () => beside.readers.size === 1);
  const idle = await open(place, "?after=0");
  const fast = framesUntilEnd(idle, 1);
  for (let row = 0; row < ROW_COUNT; row += 1) await say(ownership, `${row}`.padEnd(ROW_CHARS, "x"));
  await finish(ownership);

  const sequences = sequencesOf(await fast);
  expect(sequences, "another reader is not held up").toEqual(Array.from({ length: ROW_COUNT + 3 }, (_, at) => at + 1));
  await until("the slow one is cut off", () => beside.readers.size === 0);
  // What the sockets between here and there hold, and a page.
  expect(taken()).toBeLessThan(TAKEN_CHARS_LIMIT);

  let text = "";
  socket.setEncoding("utf8").on("data", (chunk) => (text += String(chunk)));
  socket.resume();
  await until("it hears why", () => text.slice(-200).includes("stream.closing"));
  const ids = [...text.matchAll(/^id: (\d+)$/gm)].map((match) => Number(match[1]));
  expect(ids.length).toBeGreaterThan(0);
  expect(ids.length, "it did not get everything").toBeLessThan(ROW_COUNT);
  expect(text.slice(-200)).toContain(
    `event: stream.closing\ndata: {"reason":"slow_reader","cursor":${String(ids.at(-1))}}`,
  );
  const rest = sequencesOf(await framesUntilEnd(await open(place, `?after=${String(ids.at(-1))}`), 1));
  expect([...ids, ...rest]).toEqual(sequences);
}, 60_000);
