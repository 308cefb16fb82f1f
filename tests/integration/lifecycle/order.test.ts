/** Messages of one conversation are answered in the order of their acknowledgement, whoever took them and whatever stalls. */
import type { AcceptedMessage, PlatformEvent } from "@signalbox/contract";
import { PlatformError } from "@signalbox/contract";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ApiWorld } from "../../setup/api-world.ts";
import { proves } from "../../setup/proves.ts";
import { textEvent, TURN } from "../store/record-parts.ts";
import { HeldPoint } from "./fault-points.ts";
import { sabotaged } from "./sabotaged.ts";
import { conclude, eventsIn, Talk } from "./talk.ts";

const COUNT = 20;
const NUMBERS = Array.from({ length: COUNT }, (_, index) => String(index + 1));

let world: ApiWorld;
let talk: Talk;
let processes: readonly ApiWorld[];

beforeAll(async () => {
  world = await ApiWorld.open();
  const others = await Promise.all([1, 2, 3].map(() => ApiWorld.open({ database: world.database })));
  processes = [world, ...others];
  talk = await Talk.open(world);
});
afterAll(async () => {
  for (const process of processes.toReversed()) await process[Symbol.asyncDispose]();
});

/** Answers everything that waits, and says in which order it came. */
async function answerAll(people: Talk, conversation: string, count = COUNT): Promise<readonly string[]> {
  const handled: string[] = [];
  for (let answered = 0; answered < count; answered += 1) {
    const ownership = await people.world.claim(conversation);
    handled.push(ownership.claim.text);
    await conclude(ownership, { answer: `to ${ownership.claim.text}` });
  }
  return handled;
}

/** Where the reader of this run begins: the log stands still while a message is acknowledged. */
const cursorOf = ({ eventsUrl }: AcceptedMessage): number =>
  Number(new URL(eventsUrl, "http://x").searchParams.get("after"));

proves("INV-04", {
  title: "twenty messages sent at once to four API processes, the first of them stalled, are answered as acknowledged",
  sabotages: ["newest_first"],
  async holds(sabotage) {
    await using own = await ApiWorld.open();
    if (sabotage === "newest_first") {
      await sabotaged(own.database, "hand_over", {
        part: "order by r.position limit 1",
        instead: "order by r.position desc limit 1",
      });
    }
    const people = await Talk.open(own);
    await using stack = new AsyncDisposableStack();
    const others = await Promise.all([1, 2, 3].map(() => ApiWorld.open({ database: own.database })));
    for (const other of others) stack.use(other);
    const all = [own, ...others];
    const conversation = await people.converse();
    const elsewhere = await people.converse();
    const where = `new.conversation_id = '${conversation}' and new.text = '1'`;
    const point = stack.use(
      await HeldPoint.hold(own.database, { table: "message", on: "insert", when: "before", where }),
    );
    const stalled = people.send(conversation, "1");
    await point.reached();
    const behind = NUMBERS.slice(1).map((text, index) =>
      people.send(conversation, text, { at: all[index % all.length]! }),
    );
    await point.blocksOthers(all.length);
    expect(await people.send(elsewhere, "unaffected")).toMatchObject({ accepted: "started" });
    await point.letGo();
    const sent = await Promise.all([stalled, ...behind]);
    const acknowledged = sent.toSorted((left, right) => cursorOf(left) - cursorOf(right));
    expect(acknowledged[0]?.message.content).toBe("1");
    const inOrder = acknowledged.map(({ message }) => message.content);
    expect(await answerAll(people, conversation), "INV-04: answered as acknowledged").toEqual(inOrder);
    const asked = (await people.history(conversation)).filter(({ role }) => role === "user");
    expect(
      asked.map(({ content }) => content),
      "INV-04: the history",
    ).toEqual(inOrder);
    const times = asked.map(({ createdAt }) => createdAt);
    expect(times, "INV-04: the times of acknowledgement").toEqual(times.toSorted());
  },
});

it("numbered messages keep their order though the reply to one is lost and its run has to begin again", async () => {
  const conversation = await talk.converse();
  const elsewhere = await talk.converse();
  let isLost = false;
  const { admission } = world.services;
  await using forgetful = await ApiWorld.open({
    database: world.database,
    services: {
      admission: {
        ...admission,
        async submit(intent) {
          const admitted = await admission.submit(intent);
          if (isLost || intent.text !== "3") return admitted;
          isLost = true;
          throw new PlatformError("database_unavailable");
        },
      },
    },
  });
  const at = [...processes.slice(0, 2), forgetful, ...processes.slice(2)];
  for (const [index, text] of NUMBERS.entries()) {
    const options = { at: at[index % at.length]!, key: `n${text}` };
    const told = await talk.try(conversation, text, options);
    if (told.status === 503) await talk.send(conversation, text, options);
    else expect(told.status).toBe(202);
  }
  expect(isLost).toBe(true);
  expect(await answerAll(talk, conversation, 2)).toEqual(["1", "2"]);
  const third = await world.claim(conversation);
  expect(third.claim.text).toBe("3");
  await talk.send(elsewhere, "other");
  expect(await answerAll(talk, elsewhere, 1)).toEqual(["other"]);
  await third.release();
  expect((await talk.conversation(conversation)).queue).toHaveLength(COUNT - 3);
  expect(await answerAll(talk, conversation, COUNT - 2)).toEqual(NUMBERS.slice(2));
  const asked = (await talk.history(conversation)).filter(({ role }) => role === "user");
  expect(asked.map(({ content }) => content)).toEqual(NUMBERS);
});

it("two messages of the same moment, both streaming: each stream has its own answer, and one waits for the other", async () => {
  const conversation = await talk.converse();
  const path = `/v1/conversations/${conversation}/messages`;
  const headers = { accept: "text/event-stream" };
  const open = (at: ApiWorld, content: string) => at.fetch(path, { key: talk.key, body: { content }, headers });
  const streams = await Promise.all([open(processes[0]!, "A"), open(processes[1]!, "B")]);
  const readers = streams.map((stream) => stream.text().then(eventsIn));
  const order: string[] = [];
  for (let count = 0; count < 2; count += 1) {
    const ownership = await world.claim(conversation);
    const shown = await talk.conversation(conversation);
    expect(shown.activeRun?.id).toBe(ownership.claim.runId);
    expect(shown.queue).toHaveLength(1 - count);
    const { text } = ownership.claim;
    order.push(text);
    await ownership.append([textEvent(`${text} 1 2 3 4 5`)], TURN);
    await conclude(ownership, { answer: `${text} 1 2 3 4 5` });
  }
  const seen = await Promise.all(readers);
  const saidIn = (events: readonly PlatformEvent[]) =>
    events.flatMap((event) => (event.type === "text.completed" ? [event.text] : []));
  expect(seen.map(saidIn)).toEqual([["A 1 2 3 4 5"], ["B 1 2 3 4 5"]]);
  expect(seen.map((events) => events.at(-1)?.type)).toEqual(["run.finished", "run.finished"]);
  const stored = (await talk.history(conversation)).map(({ content }) => content);
  expect(stored).toEqual(order.flatMap((text) => [text, `${text} 1 2 3 4 5`]));
  const rejecting = await talk.converse("reject");
  const both = await Promise.all([
    world.fetch(`/v1/conversations/${rejecting}/messages`, { key: talk.key, body: { content: "A" } }),
    processes[1]!.fetch(`/v1/conversations/${rejecting}/messages`, { key: talk.key, body: { content: "B" } }),
  ]);
  expect(new Set(both.map(({ status }) => status))).toEqual(new Set([202, 409]));
});
