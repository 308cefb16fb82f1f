/** P-7: what the model gate costs for each call and for each streamed event, on a real record. */
import { Agent, request } from "node:http";
import type { Bar, BarResult, BenchOptions } from "../bar.ts";
import { startGateProcess, type GateProcess } from "../gates/gate-process.ts";
import { startModelDouble } from "../gates/model-double.ts";
import { inLanes, LANES } from "../gates/side-by-side.ts";
import { median, rounded } from "../statistics.ts";

const CALL_MS = 1.5;
const EVENT_US = 20;
const ROUNDS = 9;
const CALLS_PER_ROUND = 100;
const WARM_UP_CALLS = 300;
const FEW_EVENTS = 10;
const MANY_EVENTS = 510;
const SYSTEM_TEXT = "You are a careful assistant. ".repeat(200);

export const modelGateCost: Bar = {
  id: "P-7",
  title: "CPU of the model gate, for each call and each streamed event",
  cases: ["P-7/call", "P-7/event"],
  measure,
};

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  const rounds = options.runCount ?? ROUNDS;
  options.say("starting a provider double, a database and the gates");
  await using double = await startModelDouble();
  await using gates = await startGateProcess({ modelUrl: double.url, toolServers: {} });
  await spend(gates, { events: FEW_EVENTS, calls: options.warmUpCount ?? WARM_UP_CALLS });
  const few: number[] = [];
  const many: number[] = [];
  const database: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const before = gates.databaseCpuMs();
    few.push(await spend(gates, { events: FEW_EVENTS, calls: CALLS_PER_ROUND }));
    database.push((gates.databaseCpuMs() - before) / CALLS_PER_ROUND);
    many.push(await spend(gates, { events: MANY_EVENTS, calls: CALLS_PER_ROUND / 10 }));
  }
  const eventUs = many.map((ms, at) => ((ms - (few[at] ?? Number.NaN)) * 1_000) / (MANY_EVENTS - FEW_EVENTS));
  const n = rounds * CALLS_PER_ROUND;
  const postgres = `PostgreSQL beside it ${median(database).toFixed(2)} ms CPU a call`;
  const callMs = median(few);
  yield {
    id: "P-7/call",
    value: rounded(callMs),
    unit: "ms CPU",
    bar: CALL_MS,
    holds: callMs <= CALL_MS,
    n,
    note: `whole process, ${LANES} at once, call of ${FEW_EVENTS} text events and a 6 KB request, intent and settlement committed; ${postgres}`,
  };
  const us = median(eventUs);
  yield {
    id: "P-7/event",
    value: rounded(us),
    unit: "µs CPU",
    bar: EVENT_US,
    holds: us <= EVENT_US,
    n,
    note: `what ${MANY_EVENTS - FEW_EVENTS} more events in the same call add, each in a packet of its own`,
  };
}

/** CPU of the gates for one call, in milliseconds. */
async function spend(
  gates: GateProcess,
  { events, calls }: { readonly events: number; readonly calls: number },
): Promise<number> {
  const agent = new Agent({ keepAlive: true });
  const before = await gates.cpuMs();
  await inLanes(Array.from({ length: calls }), () => ask(gates, { agent, events }));
  const spentMs = (await gates.cpuMs()) - before;
  agent.destroy();
  return spentMs / calls;
}

function ask(gates: GateProcess, { agent, events }: { readonly agent: Agent; readonly events: number }): Promise<void> {
  const body = JSON.stringify({
    model: "sim/bench",
    max_tokens: events,
    stream: true,
    system: [{ type: "text", text: SYSTEM_TEXT }],
    messages: [{ role: "user", content: "Hello" }],
  });
  const headers = {
    authorization: `Bearer ${gates.token}`,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const asked = request(`${gates.url}/model/v1/messages`, { method: "POST", agent, headers }, (response) => {
      let last = "";
      response.setEncoding("utf8");
      response.on("data", (text: string) => (last = text));
      response.on("end", () =>
        last.includes("message_stop") ? resolve() : reject(new Error(`the call ended with ${last}`)),
      );
    });
    asked.on("error", reject);
    asked.end(body);
  });
}
