/** Two full processes on one database: both drive runs, each reads what the other writes, and either may be lost. */
import type { PlatformEvent } from "@signalbox/contract";
import { afterEach, expect, test } from "vitest";
import { until } from "../../setup/until.ts";
import { endingsOf, makeAgent, sendEach, setNeighbourhood, startsByProcess, untilOffered } from "./several.ts";

const SLOW = "[[sim:tokens 30]] [[sim:slow 40]] Tell me something.";

/** Under way for as long as it takes to see it and kill its owner. */
const LONG = "[[sim:tokens 150]] [[sim:slow 100]] Tell me everything.";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

test(
  "both share the load, a reader on one sees what the other writes, and losing one loses no message",
  { timeout: 300_000 },
  async () => {
    const place = await setNeighbourhood(stack);
    const first = await place.node();
    const second = await place.node();
    place.worker(first.gatesUrl);
    place.worker(second.gatesUrl);
    const [here, there] = [place.client(first.url), place.client(second.url)];
    await makeAgent(here);
    // Each knows its own worker and what the other one says of its.
    await untilOffered(here, 2);
    await untilOffered(there, 2);

    const before = [...(await sendEach(here, 4, SLOW)), ...(await sendEach(there, 4, SLOW))];
    expect((await endingsOf(place.database, before)).map((ending) => ending.reason)).toEqual(
      before.map(() => "answered"),
    );
    expect((await startsByProcess(place.database)).size).toBe(2);

    // Written through one, read through the other, live and afterwards.
    const conversation = await there.conversations.create({ agent: "answerer" });
    const reader = here.conversations.open(conversation.id);
    const run = await conversation.send(SLOW);
    const seen: PlatformEvent[] = [];
    for await (const event of reader.events({ signal: AbortSignal.timeout(60_000) })) {
      if (event.sequence !== null) seen.push(event);
      if (event.type === "run.finished" && event.runId === run.id) break;
    }
    expect(seen.map((event) => event.sequence)).toEqual(seen.map((_, index) => index + 1));

    const during = [...(await sendEach(here, 3, LONG)), ...(await sendEach(there, 3, LONG))];
    await until("runs under way on both", async () => {
      const { rows } = await place.database.query<{ owners: number }>(
        "select count(distinct owner)::int as owners from signalbox.run where state = 'running'",
      );
      return rows[0]?.owners === 2;
    });
    await second.process.kill("SIGKILL");
    const after = await sendEach(here, 2, SLOW);
    const endings = await endingsOf(place.database, [...during, ...after]);
    expect(endings.map((ending) => ending.reason)).toEqual(endings.map(() => "answered"));
  },
);
