/** The real live channel of a process, over a session that loses some of the doorbells it hears. */
import type { Client } from "pg";
import { LiveBus } from "../../../packages/server/src/channels/live/live-bus.ts";
import { PostgresLiveChannel } from "../../../packages/server/src/channels/live/live-channel.ts";
import { connectDirectly } from "../../../packages/server/src/store/pools.ts";
import { RUN_ROLE } from "../../../packages/server/src/store/roles.ts";
import type { ClonedDatabase } from "../../setup/clone-database.ts";
import { until } from "../../setup/until.ts";
import { StorePools } from "../../../packages/server/src/store/pools.ts";
import { silentLog } from "../store/record-world.ts";

export interface FaultyLive extends AsyncDisposable {
  readonly channel: PostgresLiveChannel;
  readonly heardCount: () => number;
  readonly lostCount: () => number;
}

/** `loses` says of the n-th doorbell, from 0, whether it is lost. */
export async function openFaultyLive(
  database: ClonedDatabase,
  options: { readonly loses: (ordinal: number) => boolean; readonly pollMs: number },
): Promise<FaultyLive> {
  const pools = new StorePools(database.config, { connectionCount: 2 });
  let ordinal = 0;
  let lost = 0;
  let listening = false;
  const channel = new PostgresLiveChannel({
    bus: new LiveBus(),
    connect: async () => {
      const client = await connectDirectly(database.config, {
        role: RUN_ROLE,
        name: "doorbell",
        queryTimeoutMs: 5_000,
      });
      dropNotifications(client, () => {
        const isLost = options.loses(ordinal);
        ordinal += 1;
        lost += isLost ? 1 : 0;
        return isLost;
      });
      const query = client.query.bind(client);
      client.query = ((...values: Parameters<typeof query>) => {
        const answer: unknown = query(...values);
        listening = true;
        return answer;
      }) as typeof client.query;
      return client;
    },
    database: pools.run,
    log: silentLog,
    pollMs: options.pollMs,
    deafPollMs: options.pollMs,
  });
  await until("the channel listens", () => listening);
  return {
    channel,
    heardCount: () => ordinal - lost,
    lostCount: () => lost,
    async [Symbol.asyncDispose]() {
      await channel[Symbol.asyncDispose]();
      await pools[Symbol.asyncDispose]();
    },
  };
}

function dropNotifications(client: Client, loses: () => boolean): void {
  const on = client.on.bind(client);
  const faulty = (event: string, listener: (...values: unknown[]) => void): Client =>
    on(
      event as "end",
      event === "notification" ? (...values: unknown[]) => void (loses() || listener(...values)) : listener,
    );
  client.on = faulty as typeof client.on;
}
