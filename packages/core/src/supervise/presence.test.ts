import { PlatformError } from "@signalbox/contract";
import { createVirtualTime, type VirtualTime } from "@signalbox/testkit";
import { beforeEach, describe, expect, it } from "vitest";
import { LIMITS } from "../kernel/limits.ts";
import type { ProcessRecord } from "../ports/ownership-record.ts";
import { Presence } from "./presence.ts";

const LEASE_MS = 10_000;
/** The holder gives up a margin before its lease ends. */
const HELD_MS = LEASE_MS - LIMITS.leaseMarginMs;

let time: VirtualTime;
let told: string[];
let registerCount: number;

beforeEach(() => {
  time = createVirtualTime();
  told = [];
  registerCount = 0;
});

function presenceWith(heartbeat: () => Promise<void>, registerTakesMs = 0): Presence {
  const processes: ProcessRecord = {
    register: async () => {
      registerCount += 1;
      const process = registerCount;
      await time.clock.sleep(registerTakesMs);
      return { process, leaseMs: LEASE_MS };
    },
    heartbeat,
    sweep: async () => 0,
    unregister: async () => {
      told.push("unregistered");
    },
  };
  return new Presence({
    processes,
    ports: time,
    limits: LIMITS,
    roles: [],
    onLapse: () => told.push("lapsed"),
    onHeld: () => told.push("held"),
  });
}

describe("presence", () => {
  it("keeps the lease for as long as heartbeats are answered, and leaves in order", async () => {
    const presence = presenceWith(async () => undefined);
    expect(presence.process()).toBeNull();
    await time.until(presence.start());
    await time.pass(10 * LEASE_MS);
    expect([presence.process(), told]).toEqual([1, []]);
    await time.until(presence[Symbol.asyncDispose]());
    expect([presence.process(), told]).toEqual([null, ["unregistered"]]);
  });

  it("gives up before the record can judge, though the heartbeat hangs for ever", async () => {
    const presence = presenceWith(() => new Promise(() => undefined));
    await time.until(presence.start());
    await time.pass(HELD_MS - 1);
    expect([presence.process(), told]).toEqual([1, []]);
    await time.pass(1);
    expect([presence.process(), told]).toEqual([null, ["lapsed"]]);
    await time.pass(10 * LEASE_MS);
    expect(told).toEqual(["lapsed"]);
  });

  it("counts from before a request was sent, however long it travelled", async () => {
    const presence = presenceWith(() => new Promise(() => undefined), 4_000);
    await time.until(presence.start());
    await time.pass(HELD_MS - 4_000 - 1);
    expect(presence.process()).toBe(1);
    await time.pass(1);
    expect(presence.process()).toBeNull();
  });

  it("holds again when a late answer says that it was not declared dead", async () => {
    let away = false;
    const presence = presenceWith(async () => {
      if (away) throw new PlatformError("database_unavailable");
    });
    await time.until(presence.start());
    away = true;
    await time.pass(2 * LEASE_MS);
    expect([presence.process(), told]).toEqual([null, ["lapsed"]]);
    away = false;
    await time.pass(LIMITS.loopRetryCapMs * 2);
    expect([presence.process(), told]).toEqual([1, ["lapsed", "held"]]);
  });

  it("begins anew under another number when it was declared dead", async () => {
    let dead = false;
    const presence = presenceWith(async () => {
      if (dead) {
        dead = false;
        throw new PlatformError("stale_generation");
      }
    });
    await time.until(presence.start());
    dead = true;
    await time.pass(LEASE_MS);
    expect([presence.process(), told]).toEqual([2, ["lapsed", "held"]]);
  });
});
