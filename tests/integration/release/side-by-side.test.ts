/**
 * A deploy as it happens: the previous release runs, the present one migrates the database under it and starts beside
 * it, both answer whatever is sent to either, then the old one is drained.
 */
import { AssertionError } from "node:assert";
import type { PlatformEvent } from "@signalbox/contract";
import type { Client } from "pg";
import { issueKey } from "../../setup/real-processes.ts";
import { unpackPreviousRelease } from "../../setup/previous-release.ts";
import { proves } from "../../setup/proves.ts";
import {
  endingsOf,
  makeAgent,
  sendEach,
  setNeighbourhood,
  startsByProcess,
  untilOffered,
  type Neighbourhood,
} from "../platform/several.ts";

const SHORT = "[[sim:tokens 20]] [[sim:slow 30]] Tell me something.";
const RELEASE_MS = 400_000;

proves("INV-23", {
  title: "the previous release and this one answer for each other on one database, then the old one is drained",
  sabotages: ["a function the old release calls is gone"],
  timeoutMs: RELEASE_MS,
  async holds(sabotage) {
    await using stack = new AsyncDisposableStack();
    const release = stack.use(unpackPreviousRelease());
    // An empty database: the old release makes its own schema first.
    const place: Neighbourhood = await setNeighbourhood(stack, "template0");
    const old = await place.node({ binary: release.binary });
    const apiKey = await issueKey(place.facts, [], release.binary);
    place.worker(old.gatesUrl, release.binary);
    const oldClient = place.client(old.url, apiKey);
    await makeAgent(oldClient);
    const first = await sendEach(oldClient, 2, SHORT);
    await demandAnswers(place, first);

    const present = await place.node();
    if (sabotage !== null) await dropRelease(place);
    place.worker(present.gatesUrl);
    const client = place.client(present.url, apiKey);
    await untilOffered(client);
    await demandSchemaGrew(place);
    const sent = [...(await sendEach(oldClient, 4, SHORT).catch(broken)), ...(await sendEach(client, 4, SHORT))];
    await demandAnswers(place, sent);
    if ((await startsByProcess(place.database)).size < 2) throw new AssertionError({ message: "only one side drove" });

    // A conversation of the old side goes on on the new one, read by the old one.
    const conversation = client.conversations.open(first[0]!.conversationId);
    const run = await conversation.send(SHORT);
    const seen: PlatformEvent[] = [];
    for await (const event of oldClient.conversations
      .open(conversation.id)
      .events({ signal: AbortSignal.timeout(60_000) })) {
      if (event.sequence !== null) seen.push(event);
      if (event.type === "run.finished" && event.runId === run.id) break;
    }
    // Parts whose item is closed may have gone; nothing comes twice or out of order, and nothing else is missing.
    const told = seen.filter((event) => !event.type.endsWith(".delta")).map((event) => event.sequence);
    const known: (number | null)[] = [];
    for await (const event of conversation.events({ follow: false })) {
      if (!event.type.endsWith(".delta")) known.push(event.sequence);
    }
    if (JSON.stringify(told) !== JSON.stringify(known)) {
      throw new AssertionError({ message: `the old reader saw ${told.join()}, the log has ${known.join()}` });
    }

    const last = await sendEach(oldClient, 3, SHORT);
    await old.process.kill("SIGTERM");
    await demandAnswers(place, [...last, ...(await sendEach(client, 2, SHORT))]);
  },
});

function broken(cause: unknown): never {
  throw new Error("INV-23: the old release refuses messages", { cause });
}

async function demandAnswers(place: Neighbourhood, sent: Awaited<ReturnType<typeof sendEach>>): Promise<void> {
  const endings = await endingsOf(place.database, sent).catch((cause: unknown) => {
    throw new Error("INV-23: an acknowledged message has no end", { cause });
  });
  const wrong = endings.filter((ending) => ending.reason !== "answered");
  if (wrong.length > 0) throw new AssertionError({ message: `not answered: ${JSON.stringify(wrong)}` });
}

async function demandSchemaGrew({ database }: Neighbourhood): Promise<void> {
  const { rows } = await database.query<{ newest: number }>("select max(number) as newest from signalbox.migration");
  if ((rows[0]?.newest ?? 0) <= 15) throw new AssertionError({ message: "nothing was migrated" });
}

/** As a migration would that forgot who still calls. */
async function dropRelease({ database }: { readonly database: Client }): Promise<void> {
  await database.query("alter function signalbox.answering rename to answering_of_another_release");
}
