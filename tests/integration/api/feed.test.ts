/** The feed over all conversations, through the API and the client. */
import { Signalbox } from "@signalbox/client";
import type { EventPage } from "@signalbox/contract";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ApiWorld } from "../../setup/api-world.ts";
import { readFrames } from "../../setup/read-frames.ts";
import { until } from "../../setup/until.ts";
import { newPlace, owned, say, type Place } from "../delivery/conversation.ts";
import { expectProblem } from "./problems.ts";

let world: ApiWorld;
let places: readonly Place[];

beforeAll(async () => {
  world = await ApiWorld.open();
  places = [await newPlace(world), await newPlace(world)];
  for (const place of places) await say(await owned(place), "hello");
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

it("pages through every conversation, goes on from its cursor, and follows", async () => {
  const [first, second] = places;
  const client = new Signalbox({ url: world.url, apiKey: first!.key });
  const page = await until("both are seen", async () => {
    const seen = await client.feed();
    return seen.data.length >= 6 ? seen : null;
  });
  expect(page.more).toBe(false);
  expect(new Set(page.data.map((event) => event.conversationId))).toEqual(new Set([first!.id, second!.id]));
  const start = await client.feed({ limit: 2 });
  const rest = await client.feed({ after: start.nextCursor! });
  expect([...start.data, ...rest.data]).toEqual(page.data);
  expect(await client.feed({ after: page.nextCursor! })).toEqual({
    data: [],
    nextCursor: page.nextCursor,
    more: false,
  });

  const { body } = await world.ask<{ agent: { id: string } }>(`/v1/conversations/${second!.id}`, { key: second!.key });
  const narrowed = await client.feed({ agent: body.agent.id });
  expect(narrowed.data).toEqual(page.data.filter((event) => event.conversationId === second!.id));

  const gone = new AbortController();
  const path = `/v1/events?follow=true&after=${page.nextCursor!}`;
  const response = await world.fetch(path, { key: first!.key, signal: gone.signal });
  expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const third = await newPlace(world);
  await owned(third);
  const frames = readFrames(response);
  const admitted = (await frames.next()).value!;
  const started = (await frames.next()).value!;
  expect([admitted.event, started.event]).toEqual(["run.admitted", "run.started"]);
  gone.abort();
  const again = await world.ask<EventPage>(`/v1/events?after=${String(admitted.id)}`, { key: first!.key });
  expect(again.body.data.map((event) => event.type)).toEqual(["run.started"]);
});

it("shows an end user their own conversations, and a stranger none", async () => {
  const [first] = places;
  const asUser = await world.ask<EventPage>("/v1/events", { key: first!.key, user: "u_1" });
  expect(asUser.body.data).toEqual([]);
  const stranger = await world.key({ tenantId: "other" });
  expect((await world.ask<EventPage>("/v1/events", { key: stranger })).body.data).toEqual([]);
});

it("refuses what is no cursor, and an agent that does not exist, before it streams", async () => {
  const [first] = places;
  for (const follow of ["true", "false"]) {
    const ask = (query: string) => world.refused(`/v1/events?follow=${follow}&${query}`, { key: first!.key });
    expectProblem(await ask("after=17"), "invalid_cursor");
    expectProblem(await ask("after="), "invalid_cursor");
    expectProblem(await ask("agent=nobody"), "not_found");
    expectProblem(await ask("limit=0"), "invalid_request");
  }
});
