import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Callers } from "../../../packages/server/src/api/caller.ts";
import { ApiWorld, newId } from "../../setup/api-world.ts";
import { expectProblem } from "./problems.ts";

let world: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

function signed(claim: unknown, by = key): string {
  const payload = Buffer.from(typeof claim === "string" ? claim : JSON.stringify(claim)).toString("base64url");
  return `${payload}.${createHmac("sha256", by).update(payload).digest("base64url")}`;
}

describe("an asserted end user", () => {
  it("is who asks, with roles and units", async () => {
    const callers = new Callers({ ...world.services, record: world.services.record });
    const actor = signed({ user: "u_42", roles: ["buyer"], units: ["emea"] });
    const caller = await callers.identify({ authorization: `Bearer ${key}`, actor });
    expect(caller.scope).toEqual({ tenantId: "default", user: "u_42" });
    expect(caller.actor).toEqual({ keyId: caller.key.id, user: "u_42", roles: ["buyer"], units: ["emea"] });
  });

  it("is not there without the header, and the key speaks for itself", async () => {
    const callers = new Callers(world.services);
    const caller = await callers.identify({ authorization: `Bearer ${key}` });
    expect(caller.scope).toEqual({ tenantId: "default", user: null });
    expect(caller.actor).toMatchObject({ user: null, roles: [], units: [] });
  });

  it.each([
    ["without a signature", () => signed({ user: "u" }).split(".")[0] ?? ""],
    ["with a signature of another key", () => signed({ user: "u" }, "sbx_another_key_01234567890")],
    [
      "with the signature of another claim",
      () => `${signed({ user: "a" }).split(".")[0]}.${signed({ user: "b" }).split(".")[1]}`,
    ],
    ["with an empty signature", () => `${signed({ user: "u" }).split(".")[0]}.`],
    ["with more than that", () => `${signed({ user: "u" })}.more`],
    ["that is empty", () => ""],
    ["that is not JSON", () => signed("nonsense")],
    ["that is no claim", () => signed([])],
    ["without a user", () => signed({ roles: [] })],
    ["with an empty user", () => signed({ user: "" })],
    ["with a field that does not exist", () => signed({ user: "u", admin: true })],
    ["with __proto__", () => signed('{"user":"u","__proto__":{"admin":true}}')],
    ["with NUL in its name", () => signed({ user: "u\u0000" })],
    ["with half a character in its name", () => signed('{"user":"u\\ud83d"}')],
    ["with NUL in a role", () => signed({ user: "u", roles: ["a\u0000"] })],
    ["twice", () => `${signed({ user: "u" })}, ${signed({ user: "v" })}`],
  ])("%s is refused", async (_how, header) => {
    const told = await world.refused("/v1/info", { key, headers: { "signalbox-actor": header() } });
    expectProblem(told, "invalid_actor");
  });

  it("needs a key that may speak for others", async () => {
    const plain = await world.key({ rights: ["read", "write"] });
    expectProblem(await world.refused("/v1/info", { key: plain, user: "u_42" }), "permission_denied");
  });

  it("may have any name a person has", async () => {
    for (const user of ["👩‍👩‍👧", "a".repeat(256), "user@example.com", "' or 1=1 --", "ü"]) {
      const told = await world.ask("/v1/conversations", { key, user });
      expect([user, told.status, told.body.data]).toEqual([user, 200, []]);
    }
  });
});

describe("a revoked key", () => {
  it("is refused at the latest five seconds after", async () => {
    let now = 1_000;
    const callers = new Callers({ ...world.services, monotonicMs: () => now });
    const doomed = await world.key();
    const authorization = `Bearer ${doomed}`;
    const { key: known } = await callers.identify({ authorization });
    expect(await world.record.queries.apiKeys.revoke("default", known.id)).toBe(true);
    now += 4_999;
    expect((await callers.identify({ authorization })).key.id).toBe(known.id);
    now += 1;
    await expect(callers.identify({ authorization })).rejects.toMatchObject({ code: "unauthenticated" });
  });

  it("was never anybody's business of another tenant", async () => {
    expect(await world.record.queries.apiKeys.revoke("other", newId("apiKey"))).toBe(false);
  });
});
