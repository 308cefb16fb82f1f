import pg, { type Client } from "pg";
import { afterAll, beforeAll } from "vitest";
import { LiveBus } from "../../packages/server/src/channels/live/live-bus.ts";
import { PostgresLiveChannel } from "../../packages/server/src/channels/live/live-channel.ts";
import { connectDirectly, StorePools } from "../../packages/server/src/store/pools.ts";
import { RUN_ROLE } from "../../packages/server/src/store/roles.ts";
import { cloneDatabase, type ClonedDatabase } from "../setup/clone-database.ts";
import { until } from "../setup/until.ts";
import { liveConformance } from "./live/suite.ts";

/** So slow that only doorbells can be what was heard. */
const POLL_MS = 600_000;

let database: ClonedDatabase;
let pools: StorePools;
let superuser: Client;
beforeAll(async () => {
  database = await cloneDatabase();
  pools = new StorePools(database.config, { connectionCount: 2 });
  superuser = new pg.Client(database.config);
  await superuser.connect();
});
afterAll(async () => {
  await superuser.end();
  await pools[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

liveConformance(
  "by NOTIFY",
  async () => {
    await using opening = new AsyncDisposableStack();
    const near = await openChannel();
    opening.use(near.channel);
    const far = await openChannel();
    opening.use(far.channel);
    const opened = opening.move();
    return {
      near: near.channel,
      far: far.channel,
      async interrupt() {
        const [session] = far.sessions.splice(0);
        const { rows } = await session!.query<{ pid: number }>("select pg_backend_pid() as pid");
        await superuser.query("select pg_terminate_backend($1)", [rows[0]!.pid]);
        await untilListening(far.sessions);
      },
      [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
    };
  },
  { losesBells: true },
);

interface Opened {
  readonly channel: PostgresLiveChannel;
  /** Its sessions that listen, or are about to. */
  readonly sessions: Client[];
}

async function openChannel(): Promise<Opened> {
  const sessions: Client[] = [];
  const connect = async (): Promise<Client> => {
    const options = { role: RUN_ROLE, name: "doorbell", queryTimeoutMs: 5_000 } as const;
    const client = await connectDirectly(database.config, options);
    sessions.push(client);
    return client;
  };
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const timing = { pollMs: POLL_MS, deafPollMs: POLL_MS };
  const channel = new PostgresLiveChannel({ bus: new LiveBus(), connect, database: pools.run, log, ...timing });
  await untilListening(sessions);
  return { channel, sessions };
}

/** A session answers in order: one that says what it listens to has listened. */
async function untilListening(sessions: readonly Client[]): Promise<void> {
  await until("it listens", async () => {
    const { rows } = (await sessions[0]?.query("select pg_listening_channels()")) ?? { rows: [] };
    return rows.length > 0;
  });
}
