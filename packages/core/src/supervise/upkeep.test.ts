import { createVirtualTime } from "@signalbox/testkit";
import { describe, expect, it } from "vitest";
import { LIMITS } from "../kernel/limits.ts";
import type { UpkeepRecord } from "../ports/upkeep-record.ts";
import { createUpkeep } from "./upkeep.ts";

const DAYS_30_MS = 30 * 24 * 3_600_000;

interface Asked {
  readonly what: string;
  readonly ageMs: number | null;
}

/** A record with this many rows to forget of each kind. */
function recordOf(rows: { expireEvents?: number; emptyParts?: number; pruneKeys?: number; pruneSlots?: number }) {
  const left = new Map(Object.entries(rows));
  const asked: Asked[] = [];
  let turns = 1;
  const take = (what: string, limit: number, ageMs: number | null): Promise<number> => {
    asked.push({ what, ageMs });
    const count = Math.min(left.get(what) ?? 0, limit);
    left.set(what, (left.get(what) ?? 0) - count);
    return Promise.resolve(count);
  };
  const record: UpkeepRecord = {
    begin: () => {
      const mine = turns > 0;
      turns -= mine ? 1 : 0;
      return Promise.resolve(mine);
    },
    eraseDeleted: (limit) => take("eraseDeleted", limit, null),
    emptyParts: (limit) => take("emptyParts", limit, null),
    pruneTranscripts: (limit) => take("pruneTranscripts", limit, null),
    expireEvents: ({ ageMs, limit }) => take("expireEvents", limit, ageMs),
    pruneKeys: ({ ageMs, limit }) => take("pruneKeys", limit, ageMs),
    pruneSlots: ({ ageMs, limit }) => take("pruneSlots", limit, ageMs),
    pruneDeliveries: ({ ageMs, limit }) => take("pruneDeliveries", limit, ageMs),
  };
  return { record, asked, left, again: () => (turns += 1) };
}

describe("the upkeep", () => {
  it("forgets by batches until nothing is left, each thing at its own age", async () => {
    const time = createVirtualTime();
    const { record, asked, left } = recordOf({ expireEvents: 2 * LIMITS.upkeepRowCount, emptyParts: 3 });
    const upkeep = createUpkeep({ ...time, record }, { eventRetentionMs: DAYS_30_MS });
    upkeep.start();
    await time.pass(1_000);
    expect([...left.values()].every((count) => count === 0)).toBe(true);
    expect(asked).toEqual([
      { what: "eraseDeleted", ageMs: null },
      ...Array.from({ length: 3 }, () => ({ what: "expireEvents", ageMs: DAYS_30_MS })),
      { what: "emptyParts", ageMs: null },
      { what: "pruneTranscripts", ageMs: null },
      { what: "pruneKeys", ageMs: LIMITS.idempotencyKeyMs },
      { what: "pruneSlots", ageMs: LIMITS.unusedSlotMs },
      { what: "pruneDeliveries", ageMs: LIMITS.deliveryKeptMs },
    ]);
    await time.until(Promise.resolve(upkeep[Symbol.asyncDispose]()));
  });

  it("leaves a period to the process that began it, and asks again in the next", async () => {
    const time = createVirtualTime();
    const { record, asked, again } = recordOf({});
    const upkeep = createUpkeep({ ...time, record }, { eventRetentionMs: DAYS_30_MS });
    upkeep.start();
    await time.pass(LIMITS.upkeepEveryMs * 3);
    expect(asked).toHaveLength(7);
    again();
    await time.pass(LIMITS.upkeepEveryMs);
    expect(asked).toHaveLength(14);
    await time.until(Promise.resolve(upkeep[Symbol.asyncDispose]()));
  });

  it("has a bound on one pass, so that no table keeps it for ever", async () => {
    const time = createVirtualTime();
    const { record, asked } = recordOf({ emptyParts: Number.MAX_SAFE_INTEGER });
    const upkeep = createUpkeep({ ...time, record }, { eventRetentionMs: DAYS_30_MS });
    upkeep.start();
    await time.pass(1_000);
    expect(asked.filter(({ what }) => what === "emptyParts")).toHaveLength(LIMITS.upkeepBatchCount);
    expect(asked.at(-1)).toMatchObject({ what: "pruneDeliveries" });
    await time.until(Promise.resolve(upkeep[Symbol.asyncDispose]()));
  });

  it("goes on after a failure", async () => {
    const time = createVirtualTime();
    const { record, asked, again } = recordOf({});
    let failures = 1;
    const failing: UpkeepRecord = {
      ...record,
      emptyParts: (limit) => (failures-- > 0 ? Promise.reject(new Error("no")) : record.emptyParts(limit)),
    };
    again();
    const upkeep = createUpkeep({ ...time, record: failing }, { eventRetentionMs: DAYS_30_MS });
    upkeep.start();
    await time.pass(LIMITS.upkeepEveryMs);
    expect(asked.map(({ what }) => what)).toContain("pruneSlots");
    await time.until(Promise.resolve(upkeep[Symbol.asyncDispose]()));
  });
});
