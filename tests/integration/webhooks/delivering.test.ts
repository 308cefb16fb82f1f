/** Real receivers that answer, fail, hang, redirect and die; signatures are verified by the library receivers use. */
import { createHmac } from "node:crypto";
import type { DeliveryDetail, WebhookWithSecret } from "@signalbox/contract";
import { Webhook } from "standardwebhooks";
import { afterEach, expect, it } from "vitest";
import { startDeliveries } from "../../../packages/server/src/wiring/webhooks.ts";
import { ApiWorld } from "../../setup/api-world.ts";
import {
  answerJson,
  serveHttp,
  type AskedRequest,
  type ScriptedAnswer,
  type ScriptedHttp,
} from "../../setup/scripted-http.ts";
import { until } from "../../setup/until.ts";

const LOOPBACK = { names: [], networks: [{ address: "127.0.0.1", prefix: 32 }] };
const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
const ending: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of ending.splice(0).toReversed()) await each[Symbol.asyncDispose]();
});

function use<T extends AsyncDisposable>(thing: T): T {
  ending.push(thing);
  return thing;
}

async function receiver(...answers: readonly ScriptedAnswer[]): Promise<ScriptedHttp> {
  return use(await serveHttp(answers));
}

/** A world in which somebody delivers. */
async function open(
  options: { readonly delivers?: boolean } = {},
): Promise<{ readonly world: ApiWorld; readonly key: string }> {
  const world = use(await ApiWorld.open({ egressAllow: LOOPBACK }));
  if (options.delivers !== false) deliver(world);
  return { world, key: await world.key() };
}

function deliver(world: ApiWorld): AsyncDisposable {
  const { deliveries, sealer, live } = world.record;
  const onRung = live.onRung.bind(live);
  return use(startDeliveries({ deliveries, sealer, egressAllow: LOOPBACK, onRung, log: silent }));
}

async function hook(world: ApiWorld, key: string, url: string): Promise<WebhookWithSecret> {
  const body = { url: `${url}/hooks`, events: ["run.finished", "hold.opened"] };
  return (await world.ask<WebhookWithSecret>("/v1/webhooks", { key, body })).body;
}

async function test(world: ApiWorld, key: string, id: string): Promise<DeliveryDetail> {
  return (await world.ask<DeliveryDetail>(`/v1/webhooks/${id}/test`, { key, method: "POST" })).body;
}

function shown(world: ApiWorld, key: string, delivery: Pick<DeliveryDetail, "id" | "webhookId">) {
  return async (): Promise<DeliveryDetail> =>
    (await world.ask<DeliveryDetail>(`/v1/webhooks/${delivery.webhookId}/deliveries/${delivery.id}`, { key })).body;
}

/** Waits until an attempt of this number is noted. */
async function attempted(look: () => Promise<DeliveryDetail>, number: number): Promise<DeliveryDetail> {
  return await until(`attempt ${number} to be noted`, async () => {
    const delivery = await look();
    return delivery.attempts.some((attempt) => attempt.number === number && attempt.durationMs !== null) && delivery;
  });
}

/** The time of the next attempt has come. */
async function hurry(world: ApiWorld, { id }: Pick<DeliveryDetail, "id">): Promise<void> {
  await world.rows(
    "update signalbox.webhook_delivery set next_at = signalbox.clock() where id = $1 and next_at is not null",
    [id],
  );
}

function verify(secret: string | null, { body, headers }: AskedRequest): unknown {
  return new Webhook(secret ?? "").verify(body, headers as Record<string, string>);
}

it("tells a receiver what happened, signed, at once after the commit", async () => {
  const server = await receiver(answerJson(204, null));
  const { world, key } = await open();
  const { id, secret } = await hook(world, key, server.url);
  const agent = await world.ask<{ id: string }>("/v1/agents", { key, body: { name: "a", model: "sim/quote" } });
  const { body: conversation } = await world.ask<{ id: string }>("/v1/conversations", {
    key,
    body: { agent: agent.body.id },
  });
  await world.ask(`/v1/conversations/${conversation.id}/messages`, { key, body: { content: "hi" } });
  const holdId = await world.openHold(conversation.id);
  await until("both to arrive", async () => {
    if (server.asked.length === 1) {
      const runs = await world.ask<{ data: { id: string }[] }>(`/v1/runs?conversation=${conversation.id}`, { key });
      await world.ask(`/v1/runs/${runs.body.data[0]?.id}/cancel`, { key, method: "POST" });
    }
    return server.asked.length >= 2;
  });
  const [opened, finished] = server.asked.map((request) => verify(secret, request));
  expect(opened).toMatchObject({
    type: "hold.opened",
    data: { holdId, conversationId: conversation.id, kind: "input" },
  });
  expect(finished).toMatchObject({
    type: "run.finished",
    data: { outcome: "cancelled", sequence: expect.any(Number) },
  });
  const [first] = server.asked;
  expect(first).toMatchObject({ method: "POST", url: "/hooks", headers: { "content-type": "application/json" } });
  const { "webhook-id": messageId, "webhook-timestamp": at, "webhook-signature": signature } = first!.headers;
  // The same, worked out by hand.
  const mac = createHmac("sha256", Buffer.from((secret ?? "").replace("whsec_", ""), "base64"));
  expect(signature).toBe(`v1,${mac.update(`${String(messageId)}.${String(at)}.${first!.body}`).digest("base64")}`);
  expect(() => verify("whsec_b3RoZXI=", first!)).toThrow("No matching signature");
  expect(() => verify(secret, { ...first!, body: first!.body.replace("input", "inputs") })).toThrow(
    "No matching signature",
  );
  const { body } = await world.ask<{ data: { state: string }[] }>(`/v1/webhooks/${id}/deliveries`, { key });
  await until("both to be noted", () => body.data.length === 2);
});

it("tells it again under the same id with the same bytes until it arrives, however the receiver fails", async () => {
  const elsewhere = await receiver(answerJson(200, {}));
  const server = await receiver(
    answerJson(500, { why: "broken" }),
    answerJson(302, {}, { location: elsewhere.url }),
    (response) => void response.destroy(),
    answerJson(429, {}, { "retry-after": "7200" }),
    (response) => void response.writeHead(200).write("a body that never ends"),
  );
  const { world, key } = await open();
  const { id, secret } = await hook(world, key, server.url);
  const delivery = await test(world, key, id);
  const look = shown(world, key, delivery);
  const told: DeliveryDetail[] = [];
  for (let number = 1; number <= 5; number += 1) {
    told.push(await attempted(look, number));
    await hurry(world, delivery);
  }
  expect(told.map((each) => [each.state, each.attempts[0]?.status, each.attempts[0]?.errorCode])).toEqual([
    ["pending", 500, "http_status"],
    ["pending", 302, "redirected"],
    ["pending", null, "connection_failed"],
    ["pending", 429, "http_status"],
    ["delivered", 200, null],
  ]);
  expect(told[0]?.attempts[0]?.response).toBe('{"why":"broken"}');
  const waits = told.map((each) => Date.parse(each.nextAttemptAt ?? "") - Date.now());
  expect(waits[3]).toBeGreaterThan(7_000_000);
  expect(elsewhere.asked).toEqual([]);
  expect(new Set(server.asked.map(({ body, headers }) => `${String(headers["webhook-id"])} ${body}`)).size).toBe(1);
  for (const request of server.asked) expect(verify(secret, request)).toMatchObject({ id: delivery.id });
  expect((await world.ask(`/v1/webhooks/${id}`, { key })).body).toMatchObject({ state: "active", failingSince: null });
});

it("gives a delivery that arrived again when it is asked for, under the id it had", async () => {
  const server = await receiver(answerJson(200, {}));
  const { world, key } = await open();
  const { id } = await hook(world, key, server.url);
  const delivery = await test(world, key, id);
  await attempted(shown(world, key, delivery), 1);
  await world.ask(`/v1/webhooks/${id}/deliveries/${delivery.id}/redeliver`, { key, method: "POST" });
  await attempted(shown(world, key, delivery), 2);
  expect(server.asked.map(({ headers }) => headers["webhook-id"])).toEqual([delivery.id, delivery.id]);
});

it("signs with the new secret and the old one while both are valid", async () => {
  const server = await receiver(answerJson(200, {}));
  const { world, key } = await open();
  const { id, secret: old } = await hook(world, key, server.url);
  const rotate = { key, body: { graceSeconds: 3_600 } };
  const { secret } = (await world.ask<WebhookWithSecret>(`/v1/webhooks/${id}/rotate`, rotate)).body;
  await attempted(shown(world, key, await test(world, key, id)), 1);
  const [request] = server.asked;
  for (const each of [secret, old]) expect(verify(each, request!)).toMatchObject({ type: "webhook.test" });
  await world.rows("update signalbox.webhook set previous_until = signalbox.clock() where id = $1", [id]);
  await attempted(shown(world, key, await test(world, key, id)), 1);
  expect(verify(secret, server.asked[1]!)).toMatchObject({ type: "webhook.test" });
  expect(() => verify(old, server.asked[1]!)).toThrow("No matching signature");
});

it("goes on telling others while one hangs, and lets go of what hangs when it ends", async () => {
  const hanging = await receiver(() => undefined);
  const quick = await receiver(answerJson(200, {}));
  const { world, key } = await open({ delivers: false });
  const delivering = deliver(world);
  const [slow, fast] = [await hook(world, key, hanging.url), await hook(world, key, quick.url)];
  const kept = await test(world, key, slow.id);
  await until("the one that hangs to be asked", () => hanging.asked.length > 0);
  await attempted(shown(world, key, await test(world, key, fast.id)), 1);
  await delivering[Symbol.asyncDispose]();
  const told = await shown(world, key, kept)();
  expect(told).toMatchObject({ state: "pending", attempts: [{ number: 1, errorCode: "shutting_down", status: null }] });
});

it("is told once by two processes that both look for it", async () => {
  const server = await receiver(answerJson(200, {}));
  const { world, key } = await open();
  const beside = use(await ApiWorld.open({ database: world.database, egressAllow: LOOPBACK }));
  deliver(beside);
  const { id } = await hook(world, key, server.url);
  const told = await Promise.all(Array.from({ length: 20 }, () => test(world, key, id)));
  for (const each of told) await attempted(shown(world, key, each), 1);
  const ids = server.asked.map(({ headers }) => String(headers["webhook-id"]));
  expect(ids.toSorted()).toEqual(told.map((each) => each.id).toSorted());
});

it("calls no address that has become one of the operator's own network meanwhile", async () => {
  const server = await receiver(answerJson(200, {}));
  const { world, key } = await open();
  const { id } = await hook(world, key, server.url);
  await world.rows("update signalbox.webhook set url = $2 where id = $1", [id, "https://127.0.0.2:4433/"]);
  const told = await attempted(shown(world, key, await test(world, key, id)), 1);
  expect(told).toMatchObject({ state: "pending", attempts: [{ errorCode: "address_refused", status: null }] });
});
