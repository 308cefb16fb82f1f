import { createVirtualTime } from "@signalbox/testkit";
import { describe, expect, it } from "vitest";
import { LIMITS } from "../kernel/limits.ts";
import type {
  AttemptResult,
  DeliveryRecord,
  DeliverySender,
  DueDelivery,
  DueQuery,
  SettledAttempt,
} from "../ports/delivery-record.ts";
import { createDeliveries } from "./deliveries.ts";

const ARRIVED: AttemptResult = { status: 200, errorCode: null, response: "", retryAfterMs: null };

function dueOf(deliveryId: string, webhookId = "whk_1"): DueDelivery {
  return { deliveryId, webhookId, number: 1, effort: 1, url: "https://example.com", secrets: [], payload: "{}" };
}

/** A record with a line of what is due; each look takes what it may. */
function recordOf(line: DueDelivery[], options: { readonly wanted?: boolean } = {}) {
  const asked: DueQuery[] = [];
  const settled: SettledAttempt[] = [];
  const record: DeliveryRecord = {
    begin(query) {
      asked.push(query);
      const free = line.filter(({ webhookId }) => !query.busy.includes(webhookId)).slice(0, query.limit);
      for (const each of free) line.splice(line.indexOf(each), 1);
      return Promise.resolve({ due: free, wanted: options.wanted ?? true });
    },
    settle(attempt) {
      settled.push(attempt);
      return Promise.resolve();
    },
  };
  return { record, asked, settled };
}

/** A receiver that answers when it is told to. */
function slowSender() {
  const open = new Map<string, (result: AttemptResult) => void>();
  const sender: DeliverySender = {
    send: ({ deliveryId }, signal) =>
      new Promise((resolve) => {
        open.set(deliveryId, resolve);
        const cut: AttemptResult = { status: null, errorCode: "shutting_down", response: null, retryAfterMs: null };
        signal.addEventListener("abort", () => resolve(cut), { once: true });
      }),
  };
  return { sender, open, answer: (id: string, result = ARRIVED) => open.get(id)?.(result) };
}

describe("the deliveries", () => {
  it("tells what is due and notes what came of it, leaving busy webhooks to what they are busy with", async () => {
    const time = createVirtualTime();
    const line = [dueOf("dlv_1", "whk_1"), dueOf("dlv_2", "whk_2")];
    const { record, asked, settled } = recordOf(line);
    const { sender, answer } = slowSender();
    const deliveries = createDeliveries({ ...time, record, sender });
    deliveries.start();
    await time.pass(10);
    expect(asked[0]).toMatchObject({ busy: [], limit: LIMITS.deliveryParallelCount });
    line.push(dueOf("dlv_3", "whk_1"));
    await time.pass(LIMITS.deliveryEveryMs);
    expect(asked.at(-1)?.busy.toSorted()).toEqual(["whk_1", "whk_2"]);
    expect(line).toHaveLength(1);
    answer("dlv_1");
    await time.pass(LIMITS.deliveryGapMs);
    expect(settled).toMatchObject([
      { deliveryId: "dlv_1", number: 1, verdict: "delivered", status: 200, retryMs: null },
    ]);
    expect(line).toEqual([]);
    answer("dlv_2", { status: 500, errorCode: null, response: "no", retryAfterMs: null });
    await time.pass(10);
    expect(settled[1]).toMatchObject({
      deliveryId: "dlv_2",
      verdict: "failed",
      errorCode: "http_status",
      response: "no",
    });
    expect(settled[1]?.retryMs).toBeGreaterThanOrEqual(5_000);
    await time.until(Promise.resolve(deliveries[Symbol.asyncDispose]()));
    expect(settled[2]).toMatchObject({ deliveryId: "dlv_3", verdict: "interrupted", retryMs: 0 });
  });

  it("has a bound on what is outside at once", async () => {
    const time = createVirtualTime();
    const line = Array.from({ length: LIMITS.deliveryParallelCount + 5 }, (_, n) => dueOf(`dlv_${n}`, `whk_${n}`));
    const { record, asked } = recordOf(line);
    const { sender, open, answer } = slowSender();
    const deliveries = createDeliveries({ ...time, record, sender });
    deliveries.start();
    await time.pass(LIMITS.deliveryEveryMs * 3);
    expect([open.size, line.length]).toEqual([LIMITS.deliveryParallelCount, 5]);
    answer("dlv_0");
    await time.pass(LIMITS.deliveryGapMs + 1);
    expect(line).toHaveLength(4);
    expect(asked.at(-1)?.limit).toBe(1);
    await time.until(Promise.resolve(deliveries[Symbol.asyncDispose]()));
  });

  it("looks when a bell rings, however often it does, and not at all where nobody wants to be told", async () => {
    for (const wanted of [true, false]) {
      const time = createVirtualTime();
      const { record, asked } = recordOf([], { wanted });
      const deliveries = createDeliveries({ ...time, record, sender: slowSender().sender });
      deliveries.start();
      await time.pass(1);
      for (let count = 0; count < 90; count += 1) {
        deliveries.nudge();
        await time.pass(10);
      }
      expect(asked.length).toBeLessThanOrEqual(wanted ? 11 : 1);
      expect(asked.length).toBeGreaterThanOrEqual(wanted ? 8 : 1);
      await time.until(Promise.resolve(deliveries[Symbol.asyncDispose]()));
    }
  });

  it("goes on when the record cannot be reached, or a sender breaks its word", async () => {
    const time = createVirtualTime();
    const { record, settled } = recordOf([dueOf("dlv_1"), dueOf("dlv_2", "whk_2")]);
    let failures = 1;
    const failing: DeliveryRecord = {
      ...record,
      begin: (query) => (failures-- > 0 ? Promise.reject(new Error("away")) : record.begin(query)),
    };
    const sender: DeliverySender = {
      send: ({ deliveryId }) => (deliveryId === "dlv_1" ? Promise.reject(new Error("no")) : Promise.resolve(ARRIVED)),
    };
    const deliveries = createDeliveries({ ...time, record: failing, sender });
    deliveries.start();
    await time.pass(10_000);
    expect(settled.map(({ deliveryId }) => deliveryId)).toEqual(["dlv_2"]);
    await time.until(Promise.resolve(deliveries[Symbol.asyncDispose]()));
  });
});
