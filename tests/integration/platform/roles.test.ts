/** One role per process: they meet at the record and at the addresses they were given. */
import type { PlatformEvent } from "@signalbox/contract";
import { afterEach, expect, test } from "vitest";
import { until } from "../../setup/until.ts";
import { endingsOf, makeAgent, sendEach, setNeighbourhood } from "./several.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

interface Readiness {
  readonly status: string;
  readonly problems: readonly string[];
}

async function readinessOf(url: string): Promise<Readiness> {
  return (await (await fetch(new URL("/readyz", url))).json()) as Readiness;
}

const READY: Readiness = { status: "ready", problems: [] };

test(
  "api, gates, supervisor and worker in a process each answer a message together",
  { timeout: 300_000 },
  async () => {
    const place = await setNeighbourhood(stack);
    const api = await place.node({ role: "api" });
    expect(api.gatesUrl).toBe("");
    expect(await readinessOf(api.url)).toEqual({ status: "not_ready", problems: ["no worker is connected"] });
    const gates = await place.node({ role: "gates" });
    expect(gates.url).toBe("");
    expect(await readinessOf(gates.gatesUrl)).toEqual(READY);
    const supervisor = await place.node({ role: "supervisor", environment: { SIGNALBOX_GATES_URL: gates.gatesUrl } });
    expect(await readinessOf(supervisor.gatesUrl)).toEqual({
      status: "not_ready",
      problems: ["no worker is connected"],
    });
    // Each listener has only what its roles need: no gates here, no registry there.
    expect((await fetch(`${supervisor.gatesUrl}/model/v1/messages`, { method: "POST" })).status).toBe(404);
    const register = "/signalbox.worker.v1.RegistryService/Register";
    expect((await fetch(`${gates.gatesUrl}${register}`, { method: "POST" })).status).toBe(404);
    await place.node({
      role: "worker",
      environment: { SIGNALBOX_PLATFORM_URL: supervisor.gatesUrl, SIGNALBOX_RUNTIMES: "langgraph" },
    });

    const client = place.client(api.url);
    await makeAgent(client);
    await until("a ready supervisor", async () => (await readinessOf(supervisor.gatesUrl)).status === "ready");
    expect(await readinessOf(api.url)).toEqual(READY);
    expect((await client.info()).providers).toEqual([{ name: "sim", simulated: true }]);

    const conversation = await client.conversations.create({ agent: "answerer" });
    const run = await conversation.send("[[sim:tokens 20]] Who are you?");
    const seen: PlatformEvent[] = [];
    for await (const event of run.events({ signal: AbortSignal.timeout(60_000) })) seen.push(event);
    expect(seen.at(-1)).toMatchObject({ type: "run.finished", outcome: "completed", reason: "answered" });

    // A second gates process is one more door to the same record: sessions opened before go on through the first.
    const sent = await sendEach(client, 4, "[[sim:tokens 10]] Again?");
    expect((await endingsOf(place.database, sent)).map((ending) => ending.state)).toEqual(sent.map(() => "completed"));
    const { rows } = await place.database.query<{ roles: string[] }>("select roles from signalbox.process order by 1");
    expect(rows.map((row) => row.roles)).toEqual([["gates"], ["supervisor"]]);
  },
);

test(
  "a supervisor that also has workers serves them and takes a run that an api process admitted",
  { timeout: 300_000 },
  async () => {
    const place = await setNeighbourhood(stack);
    const api = await place.node({ role: "api" });
    await place.node({ role: "gates,supervisor,worker", environment: { SIGNALBOX_RUNTIMES: "langgraph" } });
    const client = place.client(api.url);
    await makeAgent(client);
    const sent = await sendEach(client, 2, "[[sim:tokens 5]] Hello?");
    expect((await endingsOf(place.database, sent)).map((ending) => ending.state)).toEqual(["completed", "completed"]);
  },
);
