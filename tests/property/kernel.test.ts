import { backoffMs, createBoundedQueue, isLeaseHeld, leaseEndsAtMs, rfc3339 } from "@signalbox/core";
import fc from "fast-check";
import { expect, it } from "vitest";

it("a backoff never shrinks, never exceeds its cap by more than half, and is never nothing", () => {
  const fraction = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  const options = fc.record({
    baseMs: fc.integer({ min: 1, max: 1_000 }),
    capMs: fc.integer({ min: 1, max: 60_000 }),
    fraction,
  });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 500 }), options, (failureCount, given) => {
      const capMs = Math.max(given.capMs, given.baseMs);
      const plain = backoffMs(failureCount, { ...given, capMs, fraction: 0 });
      const jittered = backoffMs(failureCount, { ...given, capMs });
      expect(plain).toBeGreaterThanOrEqual(given.baseMs);
      expect(jittered).toBeGreaterThanOrEqual(plain);
      expect(jittered).toBeLessThanOrEqual(capMs * 1.5);
      expect(backoffMs(failureCount + 1, { ...given, capMs, fraction: 0 })).toBeGreaterThanOrEqual(plain);
    }),
  );
});

it("a bounded queue is a list that refuses what does not fit", () => {
  const step = fc.oneof(fc.constant("take" as const), fc.integer({ min: 1, max: 5 }));
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), fc.array(step, { maxLength: 300 }), (limit, steps) => {
      const queue = createBoundedQueue<number>(limit);
      const model: { readonly item: number; readonly weight: number }[] = [];
      steps.forEach((each, item) => {
        if (each === "take") {
          expect(queue.take()).toBe(model.shift()?.item);
          return;
        }
        const weight = model.reduce((sum, one) => sum + one.weight, 0);
        const fits = model.length === 0 || weight + each <= limit;
        expect(queue.offer(item, each)).toBe(fits);
        if (fits) model.push({ item, weight: each });
      });
      expect(queue.length).toBe(model.length);
      expect(queue.weight).toBe(model.reduce((sum, one) => sum + one.weight, 0));
    }),
    { numRuns: 300 },
  );
});

it("a holder gives up before the record can, however long its request travelled", () => {
  const time = fc.nat({ max: 100_000 });
  fc.assert(
    fc.property(time, time, fc.integer({ min: 1_000, max: 20_000 }), (sentAtMs, travelMs, leaseMs) => {
      // The record counts its lease from when the renewal arrived, never from before it was sent.
      const recordJudgesAtMs = sentAtMs + travelMs + leaseMs;
      const lease = { leaseMs, sentAtMs };
      expect(leaseEndsAtMs(lease, 1_000)).toBeLessThan(recordJudgesAtMs);
      expect(isLeaseHeld(lease, recordJudgesAtMs, 1_000)).toBe(false);
      expect(isLeaseHeld(lease, leaseEndsAtMs(lease, 1_000) - 1, 1_000)).toBe(true);
    }),
  );
});

it("times are written as everybody writes them", () => {
  fc.assert(
    fc.property(fc.integer({ min: -62_135_596_800_000, max: 253_402_300_799_999 }), (atMs) => {
      expect(rfc3339(atMs)).toBe(new Date(atMs).toISOString());
    }),
    { numRuns: 2_000 },
  );
});
