/** Doors apart from whoever drives: sent and cancelled through one process, read through another, cut at a third. */
import type { Signalbox } from "@signalbox/client";
import type { PlatformEvent } from "@signalbox/contract";
import { createItemFold, type FoldedItem } from "@signalbox/core";
import { afterEach, expect, test } from "vitest";
import { until } from "../../setup/until.ts";
import { makeAgent, sendEach, setNeighbourhood, type Neighbourhood, type Sent } from "./several.ts";

const SLOW = "[[sim:tokens 40]] [[sim:slow 40]] Tell me something.";
const ENDLESS = "[[sim:tokens 2000]] [[sim:slow 50]] Tell me everything.";
const CUT_WITHIN_MS = 1_000;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

interface Doors {
  readonly sender: Signalbox;
  readonly reader: Signalbox;
}

async function twoDoors(place: Neighbourhood): Promise<Doors> {
  const [first, second] = await Promise.all([place.node({ role: "api" }), place.node({ role: "api" })]);
  return { sender: place.client(first.url), reader: place.client(second.url) };
}

function itemsOf(events: readonly PlatformEvent[]): readonly FoldedItem[] {
  const fold = createItemFold();
  events.forEach((event) => fold.apply(event));
  return fold.items();
}

/** What is written to the log while it is read, up to the run's end. */
async function read(client: Signalbox, sent: Sent): Promise<readonly PlatformEvent[]> {
  const seen: PlatformEvent[] = [];
  const conversation = client.conversations.open(sent.conversationId);
  for await (const event of conversation.events({ signal: AbortSignal.timeout(60_000) })) {
    if (event.sequence !== null) seen.push(event);
    if (event.type === "run.finished" && event.runId === sent.runId) break;
  }
  return seen;
}

async function untilText(client: Signalbox, { runId }: Sent): Promise<void> {
  for await (const event of (await client.runs.open(runId)).events({ signal: AbortSignal.timeout(60_000) })) {
    if (event.type === "text.delta") return;
  }
}

/** How long the provider's socket stood after `atMs`. */
async function openForMs({ sim }: Neighbourhood, atMs: number): Promise<number> {
  const closedAtMs = await until("the provider's socket is closed", () => {
    const calls = sim.requests.filter(({ wire }) => wire !== null);
    return calls.every((call) => call.closedAtMs !== null) ? calls.at(-1)!.closedAtMs : null;
  });
  return closedAtMs - atMs;
}

test(
  "what is sent through one API process is read whole and live through another, and a cancel through either ends it",
  { timeout: 300_000 },
  async () => {
    const place = await setNeighbourhood(stack);
    const { sender, reader } = await twoDoors(place);
    await place.node({ role: "gates,supervisor,worker", environment: { SIGNALBOX_RUNTIMES: "langgraph" } });
    await makeAgent(sender);

    const [answered] = await sendEach(sender, 1, SLOW);
    const [here, there] = await Promise.all([read(sender, answered!), read(reader, answered!)]);
    expect(there.map((event) => event.sequence)).toEqual(there.map((_, index) => index + 1));
    expect(there.filter((event) => event.type === "text.delta").length).toBeGreaterThan(2);
    expect(itemsOf(there)).toEqual(itemsOf(here));

    const [endless] = await sendEach(sender, 1, ENDLESS);
    const reading = read(reader, endless!);
    await untilText(reader, endless!);
    await (await sender.runs.open(endless!.runId)).cancel();
    expect(await openForMs(place, Date.now())).toBeLessThan(CUT_WITHIN_MS);
    expect((await reading).at(-1)).toMatchObject({ type: "run.finished", outcome: "cancelled", reason: "user_cancel" });
  },
);

test(
  "a cancel cuts the stream at its gate though the process that drives the run does not stir",
  { timeout: 300_000 },
  async () => {
    const place = await setNeighbourhood(stack);
    const { sender, reader } = await twoDoors(place);
    const gates = await place.node({ role: "gates" });
    const supervisor = await place.node({ role: "supervisor", environment: { SIGNALBOX_GATES_URL: gates.gatesUrl } });
    place.worker(supervisor.gatesUrl);
    await makeAgent(sender);
    const [endless] = await sendEach(sender, 1, ENDLESS);
    await untilText(reader, endless!);

    supervisor.process.child.kill("SIGSTOP");
    try {
      await (await sender.runs.open(endless!.runId)).cancel();
      expect(await openForMs(place, Date.now())).toBeLessThan(CUT_WITHIN_MS);
    } finally {
      supervisor.process.child.kill("SIGCONT");
    }
    expect(await (await reader.runs.open(endless!.runId)).result()).toMatchObject({
      outcome: "cancelled",
      reason: "user_cancel",
    });
    expect(place.sim.requests.filter(({ wire }) => wire !== null)).toHaveLength(1);
  },
);
