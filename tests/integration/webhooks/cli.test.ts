import type { Delivery, DeliveryDetail, Webhook } from "@signalbox/contract";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ApiWorld } from "../../setup/api-world.ts";
import { runSignalbox } from "../../setup/cli-run.ts";

let world: ApiWorld;
let environment: Readonly<Record<string, string>>;
beforeAll(async () => {
  world = await ApiWorld.open();
  environment = { SIGNALBOX_URL: world.url, SIGNALBOX_API_KEY: await world.key() };
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

const webhooks = (...words: readonly string[]) => runSignalbox(["webhooks", ...words], { environment });

/** What a command answers as JSON. */
async function json<T>(...words: readonly string[]): Promise<T> {
  const { exitCode, out, err } = await webhooks(...words, "--json");
  expect([exitCode, err]).toEqual([0, ""]);
  // The caller says what it expects, and looks into it.
  return JSON.parse(out) as T;
}

it("makes webhooks, changes them, and shows what they were told", async () => {
  expect((await webhooks()).out).toBe("No webhooks.\n");
  const made = await webhooks("create", "https://example.com/a", "--event", "run.finished", "--event", "hold.opened");
  expect([made.exitCode, made.out]).toEqual([0, expect.stringMatching(/^whsec_\S+\n$/)]);
  expect(made.err).toMatch(/^whk_[0-9a-f]{32} is told run\.finished, hold\.opened\./);
  const [webhook] = (await json<{ data: Webhook[] }>("list")).data;
  const id = webhook?.id ?? "";
  expect(webhook).toMatchObject({ url: "https://example.com/a", events: ["run.finished", "hold.opened"] });
  expect((await webhooks()).out).toContain(`${id}  active  https://example.com/a`);

  expect(await json<Webhook>("disable", id)).toMatchObject({ state: "disabled", disabledCause: "request" });
  expect((await webhooks("test", id)).err).toMatch(/The webhook is disabled; enable it first\. \(command_refused\)/);
  expect((await webhooks("enable", id)).out).toContain("active");
  const delivery = await json<DeliveryDetail>("test", id);
  expect(await json<{ data: Delivery[] }>("deliveries", id, "--state", "pending")).toMatchObject({
    data: [{ id: delivery.id, type: "webhook.test", state: "pending" }],
  });
  expect((await webhooks("deliveries", id)).out).toContain(`${delivery.id}  webhook.test  pending  0 attempts`);
  expect((await webhooks("delivery", id, delivery.id)).out).toContain(delivery.payload);
  expect(await json<DeliveryDetail>("redeliver", id, delivery.id)).toMatchObject({ id: delivery.id });

  const rotated = await webhooks("rotate", id, "--grace-seconds", "0");
  expect([rotated.err, rotated.out]).toEqual(["The old secret signs no more.\n", expect.stringMatching(/^whsec_/)]);
  expect(rotated.out).not.toBe(made.out);
  expect((await webhooks("delete", id)).out).toBe(`${id} is gone.\n`);
  expect((await webhooks("show", id)).exitCode).toBe(1);
});

it("says why an address is not called", async () => {
  const { exitCode, err } = await webhooks("create", "https://169.254.169.254/");
  expect(exitCode).toBe(1);
  expect(err).toMatch(/This address may not be called: .* credentials\. \(address_refused\)/);
});

it.each([
  [["frobnicate"], /there is no "webhooks frobnicate"/],
  [["constructor", "x"], /there is no "webhooks constructor"/],
  [["show"], /too few words/],
  [["redeliver", "w"], /too few words/],
  [["show", "a", "b"], /too many words/],
  [["create", "https://example.com", "--event", "text.delta"], /there is no event "text\.delta"/],
  [["deliveries", "w", "--state", "lost"], /--state is one of/],
  [["rotate", "w", "--grace-seconds", "soon"], /--grace-seconds takes a number/],
  [["list", "--event", "run.finished"], /--event is for `webhooks create`/],
])("says what is wrong with %s", async (words, why) => {
  const { exitCode, err } = await webhooks(...words);
  expect(exitCode).toBe(2);
  expect(err).toMatch(why);
});
