import { PlatformError } from "@signalbox/contract";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { systemClock } from "../system/ports.ts";
import { Settling } from "./settling.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const log = { info: () => undefined, warn: () => undefined, error: () => undefined };

function newSettling(): Settling {
  return new Settling({ clock: systemClock, log, patienceMs: 10_000 });
}

/** A record that is away for that long. */
function away(forMs: number): { readonly settle: () => Promise<string>; readonly recorded: () => boolean } {
  const backAtMs = Date.now() + forMs;
  let isRecorded = false;
  return {
    settle: async () => {
      if (Date.now() < backAtMs) throw new PlatformError("database_unavailable");
      isRecorded = true;
      return "kept";
    },
    recorded: () => isRecorded,
  };
}

test("an outcome is recorded again until the record is back, and whoever waits gets the answer", async () => {
  await using settling = newSettling();
  const asked = settling.firmly(away(8_000).settle);
  await vi.advanceTimersByTimeAsync(9_500);
  expect(await asked).toBe("kept");
});

test("whoever waits is told after a while, and the outcome is recorded all the same, however long that takes", async () => {
  await using settling = newSettling();
  const { settle, recorded } = away(600_000);
  const told = settling.firmly(settle).catch((thrown: unknown) => thrown);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await told).toMatchObject({ code: "database_unavailable" });
  await vi.advanceTimersByTimeAsync(580_000);
  expect(recorded()).toBe(false);
  await vi.advanceTimersByTimeAsync(15_000);
  expect(recorded()).toBe(true);
});

test("what does not pass is told at once", async () => {
  await using settling = newSettling();
  let tries = 0;
  const settle = async (): Promise<never> => {
    tries += 1;
    throw new PlatformError("invalid_request");
  };
  await expect(settling.firmly(settle)).rejects.toMatchObject({ code: "invalid_request" });
  expect(tries).toBe(1);
});

test("a gate that ends tries a few times more and then lets go", async () => {
  const settling = newSettling();
  const { settle, recorded } = away(600_000);
  settling.firmly(settle).catch(() => undefined);
  await vi.advanceTimersByTimeAsync(30_000);
  const ended = settling[Symbol.asyncDispose]();
  await vi.advanceTimersByTimeAsync(5_000);
  await ended;
  expect(recorded()).toBe(false);
});
