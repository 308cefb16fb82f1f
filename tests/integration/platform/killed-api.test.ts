/** An API process that dies while it accepts a message: whoever asks again elsewhere, with the same key, gets one run. */
import { afterEach, expect, test } from "vitest";
import { HeldPoint } from "../lifecycle/fault-points.ts";
import { makeAgent, setNeighbourhood } from "./several.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const IDEMPOTENCY_KEY = "pay-invoice-7";

test(
  "killed between the key and the run: the retry is answered, and there is one run",
  { timeout: 240_000 },
  async () => {
    const place = await setNeighbourhood(stack);
    const whole = await place.node();
    place.worker(whole.gatesUrl);
    const staying = place.client(whole.url);
    await makeAgent(staying);
    const dying = await place.node({ role: "api" });
    const { id } = await staying.conversations.create({ agent: "answerer" });
    const inserting = { table: "run", on: "insert", when: "before", where: `new.conversation_id = '${id}'` } as const;
    await using point = await HeldPoint.hold(place.cloned, inserting);

    // The client would ask again by itself; this one must be seen to be cut off.
    const cut = fetch(`${dying.url}/v1/conversations/${id}/messages`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${place.apiKey}`,
        "content-type": "application/json",
        "idempotency-key": IDEMPOTENCY_KEY,
      },
      body: JSON.stringify({ content: "pay invoice 7" }),
    }).then(
      () => "answered",
      () => "cut off",
    );
    await point.reached();
    await dying.process.kill("SIGKILL");
    expect(await cut).toBe("cut off");
    await point.letGo();

    const run = await staying.conversations.open(id).send("pay invoice 7", { idempotencyKey: IDEMPOTENCY_KEY });
    expect(await run.result()).toMatchObject({ outcome: "completed", reason: "answered" });
    const { rows } = await place.database.query("select id from signalbox.run where conversation_id = $1", [id]);
    expect(rows).toEqual([{ id: run.id }]);
  },
);
