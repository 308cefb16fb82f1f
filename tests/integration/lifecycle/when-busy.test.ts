/** What a message does to a run that is active, through the public API, on both ways in. */
import type { AcceptedMessage, Conversation, Message, PlatformEvent, Run, WhenBusy } from "@signalbox/contract";
import type { Ownership } from "@signalbox/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, LANGGRAPH, newId } from "../../setup/api-world.ts";
import { conclusionOf, finalizationOf, newId as newRecordId, textEvent, TURN } from "../store/record-parts.ts";

let world: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  world.runtimes.splice(0, 1, { ...LANGGRAPH, capabilities: ["steering"] });
  key = await world.key();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function converse(whenBusy?: WhenBusy): Promise<string> {
  const name = `agent-${newId("agent").slice(-12)}`;
  const definition = { name, model: "sim/quote", ...(whenBusy === undefined ? {} : { whenBusy }) };
  await world.ask("/v1/agents", { key, body: definition });
  return (await world.ask<Conversation>("/v1/conversations", { key, body: { agent: name } })).body.id;
}

const pathOf = (conversation: string): string => `/v1/conversations/${conversation}`;

async function send(conversation: string, content: string, whenBusy?: WhenBusy): Promise<AcceptedMessage> {
  const body = { content, ...(whenBusy === undefined ? {} : { whenBusy }) };
  const told = await world.ask<AcceptedMessage>(`${pathOf(conversation)}/messages`, { key, body });
  expect(told.status).toBe(202);
  return told.body;
}

async function runOf(id: string): Promise<Run> {
  return (await world.ask<Run>(`/v1/runs/${id}`, { key })).body;
}

async function historyOf(conversation: string): Promise<readonly Message[]> {
  const told = await world.ask<{ data: Message[] }>(`${pathOf(conversation)}/messages?order=asc`, { key });
  return told.body.data;
}

async function eventsOf(conversation: string): Promise<readonly PlatformEvent[]> {
  const response = await world.fetch(`${pathOf(conversation)}/events?follow=false`, { key });
  const frames = (await response.text()).split("\n\n").flatMap((frame) => /^data: (.*)$/m.exec(frame)?.[1] ?? []);
  // Frames of the stream are events of the language.
  return frames.map((json) => JSON.parse(json) as PlatformEvent).filter((each) => "runId" in each);
}

/** The run that is claimed answers, or ends as it was told to. */
async function finish(ownership: Ownership, text: string): Promise<void> {
  const seal = await ownership.seal(conclusionOf(ownership));
  const cause = seal.cancelCause;
  const stopped =
    cause === null ? {} : ({ outcome: seal.strikes ? "rolled_back" : "cancelled", reason: cause } as const);
  const answer = { messageId: newRecordId("message"), text, partial: cause !== null };
  await ownership.finish(finalizationOf({ ...stopped, answer }));
}

describe("a message that finds a run active", () => {
  it("waits in line, or is refused with the run that is active", async () => {
    const conversation = await converse();
    const first = await send(conversation, "one");
    expect(first.accepted).toBe("started");
    expect(await send(conversation, "two")).toMatchObject({ accepted: "queued", run: { status: "queued" } });
    const body = { content: "three", whenBusy: "reject" };
    const refused = await world.refused(`${pathOf(conversation)}/messages`, { key, body });
    expect(refused.body).toMatchObject({ status: 409, code: "conversation_busy", activeRunId: first.run.id });
    expect(refused.headers.get("x-should-retry")).toBe("false");
  });

  it("ends a run that nobody has begun, and takes its place in line", async () => {
    const conversation = await converse();
    const first = await send(conversation, "one");
    const second = await send(conversation, "two");
    const third = await send(conversation, "three", "interrupt");
    expect(third).toMatchObject({ accepted: "queued" });
    expect(await runOf(first.run.id)).toMatchObject({ status: "cancelled", reason: "superseded" });
    const shown = (await world.ask<Conversation>(pathOf(conversation), { key })).body;
    expect(shown.activeRun?.id).toBe(second.run.id);
    expect(shown.queue).toEqual([{ runId: third.run.id, messageId: third.message.id, position: 1 }]);
    const alone = await converse();
    await send(alone, "one");
    expect(await send(alone, "two", "interrupt")).toMatchObject({ accepted: "started", run: { status: "running" } });
  });

  it("interrupts a run that is being answered: what it said is kept and marked, and the message follows", async () => {
    const conversation = await converse();
    const first = await send(conversation, "one");
    const ownership = await world.claim(conversation);
    const second = await send(conversation, "two", "interrupt");
    expect(second.accepted).toBe("queued");
    const marked = await runOf(first.run.id);
    expect(marked.cancelRequestedAt).not.toBeNull();
    const { generation } = ownership.claim;
    expect(await world.record.ownership.cancelled(marked.owner ?? 0)).toContainEqual({
      conversationId: conversation,
      generation,
    });
    await finish(ownership, "half an");
    expect(await runOf(first.run.id)).toMatchObject({ status: "cancelled", reason: "superseded" });
    const history = await historyOf(conversation);
    expect(history.map(({ content, partial, struck }) => [content, partial, struck])).toEqual([
      ["one", false, false],
      ["half an", true, false],
      ["two", false, false],
    ]);
    const next = await world.claim(conversation);
    expect(next.claim.runId).toBe(second.run.id);
    expect((await next.history(9)).map(({ text }) => text)).toEqual(["one", "half an"]);
  });

  it("rolls the turn back: it stays in the history, struck, and no agent sees it again", async () => {
    const conversation = await converse();
    const first = await send(conversation, "one");
    const ownership = await world.claim(conversation);
    const second = await send(conversation, "two", "rollback");
    await finish(ownership, "half an");
    expect(await runOf(first.run.id)).toMatchObject({ status: "rolled_back", reason: "superseded" });
    const history = await historyOf(conversation);
    expect(history.map(({ content, struck }) => [content, struck])).toEqual([
      ["one", true],
      ["half an", true],
      ["two", false],
    ]);
    const next = await world.claim(conversation);
    expect(next.claim).toMatchObject({ runId: second.run.id, hasHistory: false, lastUserSnippet: null, leaf: null });
    expect(await next.history(9)).toEqual([]);
    const ended = (await eventsOf(conversation)).find((event) => event.type === "run.finished");
    expect(ended).toMatchObject({ outcome: "rolled_back", rollback: "struck" });
  });

  it("is offered to the running engine when nothing else waits, and ends with the run that took it in", async () => {
    const conversation = await converse();
    const first = await send(conversation, "one");
    const ownership = await world.claim(conversation);
    const process = (await runOf(first.run.id)).owner ?? 0;
    const second = await send(conversation, "two", "steer");
    expect(second).toMatchObject({ accepted: "steered", run: { status: "queued" } });
    const third = await send(conversation, "three");
    const late = await send(conversation, "four", "steer");
    expect(late.accepted).toBe("queued");
    const offers = await world.record.ownership.steered(process);
    expect(offers.filter((offer) => offer.conversationId === conversation)).toEqual([
      {
        conversationId: conversation,
        generation: ownership.claim.generation,
        messageId: second.message.id,
        text: "two",
      },
    ]);
    // The id is the one that was acknowledged.
    await ownership.takeIn(second.message.id as Parameters<Ownership["takeIn"]>[0]);
    const shown = (await world.ask<Conversation>(pathOf(conversation), { key })).body;
    expect(shown.queue.map(({ runId, position }) => [runId, position])).toEqual([
      [third.run.id, 1],
      [late.run.id, 2],
    ]);
    const tooLate = await world.ask<Run>(`/v1/runs/${second.run.id}/cancel`, { key, method: "POST" });
    // Nothing ends it now: that it is shown as it is says so.
    expect([tooLate.status, tooLate.body.status, tooLate.body.cancelRequestedAt]).toEqual([200, "queued", null]);
    await finish(ownership, "to both");
    expect(await runOf(second.run.id)).toMatchObject({ status: "completed", reason: "merged" });
    const answer = (await runOf(first.run.id)).answerMessageId;
    expect((await runOf(second.run.id)).answerMessageId).toBe(answer);
    expect((await historyOf(conversation)).map(({ content }) => content)).toEqual([
      "one",
      "two",
      "to both",
      "three",
      "four",
    ]);
    expect((await world.claim(conversation)).claim.runId).toBe(third.run.id);
  });

  it("is an ordinary message when the run ends without having taken it in", async () => {
    const conversation = await converse();
    await send(conversation, "one");
    const ownership = await world.claim(conversation);
    const second = await send(conversation, "two", "steer");
    await finish(ownership, "to one");
    const next = await world.claim(conversation);
    expect(next.claim.runId).toBe(second.run.id);
    await finish(next, "to two");
    expect((await historyOf(conversation)).map(({ content }) => content)).toEqual(["one", "to one", "two", "to two"]);
  });

  it("does what its agent says where it does not say itself, on both ways in", async () => {
    const conversation = await converse("reject");
    await send(conversation, "one");
    const path = `${pathOf(conversation)}/messages`;
    for (const accept of ["application/json", "text/event-stream"]) {
      const refused = await world.refused(path, { key, body: { content: "two" }, headers: { accept } });
      expect(refused.body).toMatchObject({ status: 409, code: "conversation_busy" });
    }
    const stop = new AbortController();
    const headers = { accept: "text/event-stream" };
    const body = { content: "two", whenBusy: "rollback" };
    const streamed = await world.fetch(path, { key, body, headers, signal: stop.signal });
    expect(streamed.status).toBe(200);
    stop.abort();
    const { data } = (await world.ask<{ data: Run[] }>(`${pathOf(conversation)}/runs?order=asc`, { key })).body;
    expect(data.map(({ status, granted }) => [status, granted.whenBusy])).toEqual([
      ["rolled_back", "reject"],
      ["running", "rollback"],
    ]);
  });
});

describe("a fork", () => {
  it("begins with the history up to a message and leaves the rest behind", async () => {
    const conversation = await converse();
    await send(conversation, "one");
    await finish(await world.claim(conversation), "to one");
    await send(conversation, "two");
    const [question, answer] = await historyOf(conversation);
    const forked = await world.ask<Conversation>(`${pathOf(conversation)}/fork`, { key, body: {} });
    expect(forked.status).toBe(201);
    expect(forked.body).toMatchObject({ forkedFrom: conversation, activeRun: null, queue: [], lastSequence: 0 });
    const copied = await historyOf(forked.body.id);
    expect(copied.map(({ content, runId }) => [content, runId])).toEqual([
      ["one", null],
      ["to one", null],
    ]);
    expect(copied[0]?.id).not.toBe(question?.id);
    await send(forked.body.id, "instead");
    const ownership = await world.claim(forked.body.id);
    expect(ownership.claim).toMatchObject({ leaf: null, hasHistory: true, lastUserSnippet: "one" });
    expect((await ownership.history(9)).map(({ text }) => text)).toEqual(["one", "to one"]);
    await ownership.append([textEvent("so")], TURN);
    await finish(ownership, "so");
    expect((await historyOf(forked.body.id)).map(({ content }) => content)).toEqual(["one", "to one", "instead", "so"]);

    const early = { messageId: question?.id };
    const first = await world.ask<Conversation>(`${pathOf(conversation)}/fork`, { key, body: early });
    expect((await historyOf(first.body.id)).map(({ content }) => content)).toEqual(["one"]);
    const none = await world.refused(`${pathOf(first.body.id)}/fork`, { key, body: { messageId: answer?.id } });
    expect(none.body).toMatchObject({ status: 404, errors: [{ pointer: "/messageId" }] });
  });
});
