/** Webhooks as their tenant keeps them. */
import type { Delivery, DeliveryDetail, Webhook, WebhookWithSecret } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, newId } from "../../setup/api-world.ts";

let world: ApiWorld;
beforeAll(async () => {
  world = await ApiWorld.open({ egressAllow: { names: ["hooks.corp"], networks: [] } });
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

const BODY = { url: "https://example.com/hooks", events: ["run.finished", "hold.opened"] };
let tenantCount = 0;
async function freshKey(): Promise<string> {
  tenantCount += 1;
  return await world.key({ tenantId: `tenant-${tenantCount}` });
}

async function made(key: string, body: object = BODY): Promise<WebhookWithSecret> {
  const told = await world.ask<WebhookWithSecret>("/v1/webhooks", { key, body });
  expect(told.status).toBe(201);
  expect(told.headers.get("location")).toBe(`/v1/webhooks/${told.body.id}`);
  return told.body;
}

describe("a webhook", () => {
  it("is made with a secret that is shown once and kept sealed", async () => {
    const key = await freshKey();
    const { secret, ...webhook } = await made(key, { ...BODY, description: "to billing" });
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(webhook).toMatchObject({
      ...BODY,
      id: expect.stringMatching(/^whk_[0-9a-f]{32}$/),
      description: "to billing",
      state: "active",
      failingSince: null,
      disabledCause: null,
      previousSecretUntil: null,
    });
    expect((await world.ask(`/v1/webhooks/${webhook.id}`, { key })).body).toEqual(webhook);
    const [row] = await world.rows<{ text: string }>("select w::text as text from signalbox.webhook w where id = $1", [
      webhook.id,
    ]);
    expect(row?.text).not.toContain(secret);
    expect(row?.text).not.toContain(Buffer.from(secret ?? "").toString("hex"));
  });

  it("is made once under one key, and a replay does not show the secret again", async () => {
    const key = await freshKey();
    const asked = { key, body: BODY, headers: { "idempotency-key": "once" } };
    const first = await world.ask<WebhookWithSecret>("/v1/webhooks", asked);
    const second = await world.ask<WebhookWithSecret>("/v1/webhooks", asked);
    expect(first.body.secret).toMatch(/^whsec_/);
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect(second.body).toEqual({ ...first.body, secret: null });
    const kept = await world.rows<{ body: string }>("select body from signalbox.idempotency where key = 'once'");
    expect(JSON.stringify(kept)).not.toContain("whsec_");
    expect((await world.ask<{ data: Webhook[] }>("/v1/webhooks", { key })).body.data).toHaveLength(1);
  });

  it.each([
    ["an address that is not public", { url: "https://10.0.0.1/" }, 422, "address_refused"],
    ["one that is written so that it does not look so", { url: "https://0x7f.1/" }, 422, "address_refused"],
    ["one in the clear", { url: "http://example.com/" }, 422, "address_refused"],
    ["no address", { url: "example" }, 422, "address_refused"],
    ["no event", { events: [] }, 400, "invalid_request"],
    ["an event that there is not", { events: ["text.delta"] }, 400, "invalid_request"],
    ["an event twice", { events: ["run.finished", "run.finished"] }, 400, "invalid_request"],
    ["a field that there is not", { secret: "whsec_mine" }, 400, "field_unknown"],
  ])("is refused with %s", async (_what, change, ...refusal) => {
    const key = await freshKey();
    const told = await world.refused("/v1/webhooks", { key, body: { ...BODY, ...change } });
    expect([told.status, told.body.code]).toEqual(refusal);
    expect(told.body.errors?.[0]?.pointer).toMatch(/^\/(url|events|secret)/);
    const { id } = await made(key);
    const changed = await world.refused(`/v1/webhooks/${id}`, { key, method: "PATCH", body: change });
    expect([changed.status, changed.body.code]).toEqual(refusal);
  });

  it("may call what the operator allows", async () => {
    expect(await made(await freshKey(), { ...BODY, url: "http://hooks.corp:8080/x" })).toMatchObject({
      state: "active",
    });
  });

  it("is changed, disabled and enabled, listed by pages, and removed", async () => {
    const key = await freshKey();
    const [first, second] = [await made(key), await made(key)];
    const patch = (body: object) => world.ask<Webhook>(`/v1/webhooks/${first.id}`, { key, method: "PATCH", body });
    expect((await patch({ events: ["hold.opened"], description: "x" })).body).toMatchObject({
      events: ["hold.opened"],
      description: "x",
      url: BODY.url,
    });
    expect((await patch({ disabled: true })).body).toMatchObject({ state: "disabled", disabledCause: "request" });
    expect((await patch({ disabled: false })).body).toMatchObject({ state: "active", disabledAt: null });
    expect((await world.refused(`/v1/webhooks/${first.id}`, { key, method: "PATCH", body: {} })).status).toBe(400);
    const page = await world.ask<{ data: Webhook[]; nextCursor: string }>("/v1/webhooks?limit=1", { key });
    expect(page.body.data.map(({ id }) => id)).toEqual([second.id]);
    const rest = await world.ask<{ data: Webhook[] }>(`/v1/webhooks?limit=1&cursor=${page.body.nextCursor}`, { key });
    expect(rest.body.data.map(({ id }) => id)).toEqual([first.id]);
    expect((await world.ask(`/v1/webhooks/${first.id}`, { key, method: "DELETE" })).status).toBe(204);
    expect((await world.refused(`/v1/webhooks/${first.id}`, { key })).body.code).toBe("not_found");
    expect((await world.refused(`/v1/webhooks/${first.id}`, { key, method: "DELETE" })).body.code).toBe("not_found");
  });

  it("gets another secret, while the old one signs on for as long as was asked", async () => {
    const key = await freshKey();
    const { id, secret } = await made(key);
    const rotate = (body: object) => world.ask<WebhookWithSecret>(`/v1/webhooks/${id}/rotate`, { key, body });
    const told = await rotate({ graceSeconds: 3_600 });
    expect(told.status).toBe(200);
    expect(told.body.secret).toMatch(/^whsec_/);
    expect(told.body.secret).not.toBe(secret);
    const leftMs = Date.parse(told.body.previousSecretUntil ?? "") - Date.now();
    expect(leftMs).toBeGreaterThan(3_500_000);
    expect(leftMs).toBeLessThan(3_700_000);
    expect((await rotate({ graceSeconds: 0 })).body.previousSecretUntil).toBeNull();
    expect((await world.refused(`/v1/webhooks/${id}/rotate`, { key, body: { graceSeconds: 1e9 } })).status).toBe(400);
  });

  it("says when its secret was sealed by a platform secret that is not the present one, until it is rotated", async () => {
    const key = await freshKey();
    const { id } = await made(key);
    await world.rows("update signalbox.webhook set secret_key = 'another' where id = $1", [id]);
    expect((await world.ask(`/v1/webhooks/${id}`, { key })).body).toMatchObject({ state: "unreadable" });
    const told = await world.ask(`/v1/webhooks/${id}/rotate`, { key, body: {} });
    expect(told.body).toMatchObject({ state: "active", previousSecretUntil: null });
  });

  it("is one of fifty at most, also when many are asked for at once", async () => {
    const key = await freshKey();
    const told = await Promise.all(Array.from({ length: 52 }, () => world.ask("/v1/webhooks", { key, body: BODY })));
    expect(told.filter(({ status }) => status === 201)).toHaveLength(50);
    expect(told.filter(({ status }) => status === 409).map(({ body }) => body.code)).toEqual([
      "command_refused",
      "command_refused",
    ]);
  });

  it("is nobody's but the tenant's: whoever speaks for an end user has none", async () => {
    const key = await freshKey();
    const { id } = await made(key);
    for (const path of [
      "/v1/webhooks",
      `/v1/webhooks/${id}`,
      `/v1/webhooks/${newId("webhook")}`,
      `/v1/webhooks/${id}/deliveries`,
    ]) {
      const told = await world.refused(path, { key, user: "u_1" });
      expect([told.status, told.body.code]).toEqual([403, "permission_denied"]);
    }
    expect((await world.refused("/v1/webhooks", { key, user: "u_1", body: BODY })).body.code).toBe("permission_denied");
  });

  it("shows a stranger's tenant nothing", async () => {
    const { id } = await made(await freshKey());
    const foreign = await freshKey();
    expect((await world.ask<{ data: Webhook[] }>("/v1/webhooks", { key: foreign })).body.data).toEqual([]);
    for (const path of ["", "/deliveries", "/rotate", "/test"]) {
      const method = ["/rotate", "/test"].includes(path) ? "POST" : "GET";
      const asked = { key: foreign, method, ...(path === "/rotate" ? { body: {} } : {}) };
      expect((await world.refused(`/v1/webhooks/${id}${path}`, asked)).body.code).toBe("not_found");
    }
  });
});

describe("a delivery", () => {
  it("is asked for to try a webhook out, listed, shown with what is sent, and asked for again", async () => {
    const key = await freshKey();
    const { id } = await made(key);
    const told = await world.ask<DeliveryDetail>(`/v1/webhooks/${id}/test`, { key, method: "POST" });
    expect(told.status).toBe(202);
    expect(told.body).toMatchObject({
      webhookId: id,
      type: "webhook.test",
      state: "pending",
      attemptCount: 0,
      attempts: [],
    });
    const { payload, attempts: _, ...common } = told.body;
    expect(JSON.parse(payload)).toMatchObject({ id: told.body.id, type: "webhook.test", data: { webhookId: id } });
    const path = `/v1/webhooks/${id}/deliveries`;
    const list = async (query = "") => (await world.ask<{ data: Delivery[] }>(`${path}${query}`, { key })).body.data;
    expect(await list()).toEqual([{ ...common, lastAttempt: null }]);
    expect(await list("?state=failed")).toEqual([]);
    expect((await world.ask(`${path}/${common.id}`, { key })).body).toEqual(told.body);

    await world.rows(
      `with a as (insert into signalbox.webhook_attempt (delivery_id, number, tenant_id, duration_ms, status, error_code, response)
         select id, n, tenant_id, 5, 500, 'http_status', 'no ' || n from signalbox.webhook_delivery, generate_series(1, 2) n where id = $1)
       update signalbox.webhook_delivery set state = 'failed', next_at = null, finished_at = signalbox.clock(), attempt_count = 2
       where id = $1`,
      [common.id],
    );
    expect(await list("?state=failed")).toMatchObject([
      {
        id: common.id,
        nextAttemptAt: null,
        lastAttempt: { number: 2, status: 500, errorCode: "http_status", response: "no 2" },
      },
    ]);
    const again = await world.ask<DeliveryDetail>(`${path}/${common.id}/redeliver`, { key, method: "POST" });
    expect(again.status).toBe(202);
    expect(again.body).toMatchObject({ id: common.id, state: "pending", finishedAt: null, attemptCount: 2, payload });
    expect(again.body.attempts.map(({ number }) => number)).toEqual([2, 1]);
    for (const unknown of [newId("delivery"), "dlv_x"]) {
      expect((await world.refused(`${path}/${unknown}`, { key })).body.code).toBe("not_found");
      const post = { key, method: "POST" };
      expect((await world.refused(`${path}/${unknown}/redeliver`, post)).body.code).toBe("not_found");
    }
  });

  it("is not promised to a webhook that is disabled", async () => {
    const key = await freshKey();
    const { id } = await made(key);
    const { body } = await world.ask<DeliveryDetail>(`/v1/webhooks/${id}/test`, { key, method: "POST" });
    await world.ask(`/v1/webhooks/${id}`, { key, method: "PATCH", body: { disabled: true } });
    for (const path of ["test", `deliveries/${body.id}/redeliver`]) {
      const told = await world.refused(`/v1/webhooks/${id}/${path}`, { key, method: "POST" });
      expect([told.status, told.body.code]).toEqual([409, "command_refused"]);
    }
  });
});
