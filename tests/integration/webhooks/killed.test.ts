/** Whatever dies between the commit and the receiver's answer, what was owed arrives. */
import { afterEach, expect, test } from "vitest";
import { Webhook } from "standardwebhooks";
import { makeAgent, setNeighbourhood } from "../platform/several.ts";
import { answerJson, serveHttp } from "../../setup/scripted-http.ts";
import { until } from "../../setup/until.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const ARRIVES_MS = 60_000;
const environment = { SIGNALBOX_EGRESS_ALLOW: "127.0.0.1" };

test(
  "a platform that is killed before it tells, or while it is telling, tells after its restart",
  { timeout: 240_000 },
  async () => {
    const receiver = stack.use(await serveHttp([answerJson(204, null), () => undefined, answerJson(200, {})]));
    const place = await setNeighbourhood(stack);
    const whole = await place.node({ environment });
    place.worker(whole.gatesUrl);
    await makeAgent(place.client(whole.url));
    const alone = await place.node({ role: "api", environment });
    const client = place.client(alone.url);
    const { id, secret } = await client.webhooks.create({ url: `${receiver.url}/hooks`, events: ["run.finished"] });

    // Nobody who could tell is left when the run ends; then nobody at all.
    await whole.process.kill("SIGKILL");
    const conversation = await client.conversations.create({ agent: "answerer" });
    const run = await conversation.send("hello");
    await run.cancel();
    await alone.process.kill("SIGKILL");
    expect(receiver.asked).toEqual([]);

    const second = await place.node({ environment });
    await until("the first to arrive", () => receiver.asked.length === 1, ARRIVES_MS);
    const [told] = receiver.asked;
    expect(new Webhook(secret ?? "").verify(told?.body ?? "", told?.headers as Record<string, string>)).toMatchObject({
      type: "run.finished",
      data: { runId: run.id, outcome: "cancelled" },
    });

    const { id: deliveryId } = await place.client(second.url).webhooks.test(id);
    await until("the second to be outside", () => receiver.asked.length === 2, ARRIVES_MS);
    await second.process.kill("SIGKILL");
    const third = await place.node({ environment });
    // The minute is over after which an attempt that nobody noted is given up.
    await place.database.query("update signalbox.webhook_delivery set next_at = signalbox.clock() where id = $1", [
      deliveryId,
    ]);
    const delivery = await until(
      "the second to arrive",
      async () => {
        const shown = await place.client(third.url).webhooks.delivery(id, deliveryId);
        return shown.state === "delivered" && shown;
      },
      ARRIVES_MS,
    );
    expect(delivery.attempts.map(({ number, status, durationMs }) => [number, status, durationMs !== null])).toEqual([
      [2, 200, true],
      [1, null, false],
    ]);
    expect(receiver.asked.slice(1).map(({ headers }) => headers["webhook-id"])).toEqual([deliveryId, deliveryId]);
  },
);
