import type { LiveSignal, LiveSubscription } from "@signalbox/core";
import type { Client } from "pg";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { LiveBus } from "../../../packages/server/src/channels/live/live-bus.ts";
import { PostgresLiveChannel } from "../../../packages/server/src/channels/live/live-channel.ts";
import { connectDirectly } from "../../../packages/server/src/store/pools.ts";
import { RUN_ROLE } from "../../../packages/server/src/store/roles.ts";
import { proves } from "../../setup/proves.ts";
import { newId, startedRun, textEvent, TURN } from "./record-parts.ts";
import { RecordWorld, silentLog, until, type RecordProcess } from "./record-world.ts";

let world: RecordWorld;
let process: RecordProcess;
let open: PostgresLiveChannel[] = [];

beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
});
afterEach(async () => {
  await Promise.all(open.map((channel) => channel[Symbol.asyncDispose]()));
  open = [];
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

interface Opened {
  readonly channel: PostgresLiveChannel;
  readonly sessions: Client[];
}

async function openChannel(
  options: { readonly hears?: boolean; readonly pollMs?: number; readonly own?: RecordWorld } = {},
): Promise<Opened> {
  const own = options.own ?? world;
  const sessions: Client[] = [];
  const bus = new LiveBus();
  using begun = bus.subscribe("cnv_begun");
  const channel = new PostgresLiveChannel({
    bus,
    connect: async () => {
      if (options.hears === false) {
        throw new Error("deaf");
      }
      const client = await connectDirectly(own.database.config, {
        role: RUN_ROLE,
        name: "doorbell",
        queryTimeoutMs: 5_000,
      });
      sessions.push(client);
      return client;
    },
    database: (await own.process({ registered: false })).pools.run,
    log: silentLog,
    pollMs: options.pollMs ?? 60_000,
    deafPollMs: options.pollMs ?? 60_000,
  });
  open.push(channel);
  // Everybody is told to look as soon as it listens; what is heard after that is of the test.
  if (options.hears !== false) await take(begun, 1);
  return { channel, sessions };
}

async function take(subscription: LiveSubscription, count: number): Promise<readonly LiveSignal[]> {
  const signals: LiveSignal[] = [];
  const iterator = subscription[Symbol.asyncIterator]();
  while (signals.length < count) {
    const next = await iterator.next();
    if (next.done === true) {
      break;
    }
    signals.push(next.value);
  }
  return signals;
}

it("rings other processes after the commit, and one's own at once", async () => {
  const [here, there] = [await openChannel(), await openChannel()];
  using near = here.channel.subscribe("cnv_a");
  using far = there.channel.subscribe("cnv_a");
  here.channel.ring("cnv_a", 7);
  here.channel.ring("cnv_a", 9);
  for (let index = 0; index < 400; index += 1) {
    here.channel.ring(newId("conversation"), index);
  }
  here.channel.ring("cnv_a", 8);
  expect(await take(near, 1)).toEqual([{ kind: "bell", sequence: 9 }]);
  expect(await take(far, 1)).toEqual([{ kind: "bell", sequence: 9 }]);
});

it("listens again after its session was cut, and has everybody look for what was missed", async () => {
  const { channel, sessions } = await openChannel();
  using reader = channel.subscribe("cnv_cut");
  const { rows } = await sessions[0]!.query<{ pid: number }>("select pg_backend_pid() as pid");
  await world.superuser.query("select pg_terminate_backend($1)", [rows[0]!.pid]);
  expect(await take(reader, 1)).toEqual([{ kind: "reread" }]);
  expect(sessions.length).toBe(2);
  const other = await openChannel();
  using again = channel.subscribe("cnv_again");
  other.channel.ring("cnv_again", 3);
  expect(await take(again, 1)).toEqual([{ kind: "bell", sequence: 3 }]);
});

proves("INV-10", {
  title: "with every doorbell lost a reader still learns of every event",
  sabotages: ["nobody_looks"],
  async holds(sabotage) {
    const place = await world.conversation();
    const { ownership } = await startedRun(process, place);
    const { channel } = await openChannel({ hears: false, pollMs: sabotage === null ? 20 : 60_000 });
    using reader = channel.subscribe(place.conversationId);
    const heard: number[] = [];
    const listening = (async () => {
      for await (const signal of reader) {
        if (signal.kind === "bell") {
          heard.push(signal.sequence);
        }
      }
    })();
    await ownership.append([textEvent("written elsewhere")], TURN);
    const reached = await until(
      "the reader knows",
      () => heard.at(-1) === 3,
      sabotage === null ? undefined : 1_000,
    ).then(
      () => true,
      () => false,
    );
    reader.close();
    await listening;
    expect(reached, "INV-10: the log is found without doorbells").toBe(true);
  },
});
