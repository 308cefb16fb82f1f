import { describe, expect, it, vi } from "vitest";
import { systemCancellation, systemClock, systemDigest, systemRandomness } from "./ports.ts";

describe("the machine's clock", () => {
  it("sleeps for as long as it is told, or until it is woken", async () => {
    vi.useFakeTimers();
    try {
      const { signal, abort } = systemCancellation.source();
      const sleeping = systemClock.sleep(1_000);
      const woken = systemClock.sleep(60_000, signal);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(await sleeping).toBe("elapsed");
      abort("enough");
      expect(await woken).toBe("aborted");
      expect(signal.reason).toBe("enough");
      expect(await systemClock.sleep(60_000, signal)).toBe("aborted");
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  it("never goes back", () => {
    const before = systemClock.monotonicMs();
    expect(systemClock.monotonicMs()).toBeGreaterThanOrEqual(before);
    expect(Math.abs(systemClock.nowMs() - Date.now())).toBeLessThan(1_000);
  });
});

describe("the machine's randomness", () => {
  it("is as long as was asked for, and never the same", () => {
    expect(systemRandomness.bytes(32)).toHaveLength(32);
    expect(systemRandomness.bytes(0)).toHaveLength(0);
    expect(systemRandomness.bytes(32)).not.toEqual(systemRandomness.bytes(32));
  });

  it("has fractions from 0 to below 1", () => {
    const fractions = Array.from({ length: 1_000 }, () => systemRandomness.fraction());
    expect(Math.min(...fractions)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...fractions)).toBeLessThan(1);
    expect(new Set(fractions).size).toBeGreaterThan(900);
  });
});

it("digests the UTF-8 of a text", () => {
  expect(systemDigest.sha256Hex("")).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  expect(systemDigest.sha256Hex("é")).toBe("4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c");
});
