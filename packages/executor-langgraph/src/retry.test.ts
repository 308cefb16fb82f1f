import { ERROR_CODES, isErrorCode, PlatformError } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { RetryBudget } from "./retry.ts";

const overloaded = new PlatformError("provider_overloaded");

describe("retry of model calls", () => {
  it("waits longer each time, and gives up after four tries", () => {
    const budget = new RetryBudget(() => 0);
    expect([1, 2, 3, 4].map(() => budget.nextWaitMs(overloaded))).toEqual([500, 1_000, 2_000, null]);
  });

  it("never wakes earlier than told, and spreads who wakes afterwards", () => {
    const told = new PlatformError("provider_rate_limited", undefined, { retryAfterMs: 4_000 });
    expect(new RetryBudget(() => 0).nextWaitMs(told)).toBe(4_000);
    expect(new RetryBudget(() => 0.999).nextWaitMs(told)).toBeGreaterThan(5_000);
  });

  it("gives up at once when it would wait too long altogether", () => {
    const far = new PlatformError("provider_rate_limited", undefined, { retryAfterMs: 61_000 });
    expect(new RetryBudget(() => 0).nextWaitMs(far)).toBeNull();
    const budget = new RetryBudget(() => 0);
    const long = new PlatformError("provider_rate_limited", undefined, { retryAfterMs: 40_000 });
    expect(budget.nextWaitMs(long)).toBe(40_000);
    expect(budget.nextWaitMs(long)).toBeNull();
  });

  it("decides by the code: what a provider may mend, and nothing else", () => {
    const tried = Object.keys(ERROR_CODES)
      .filter(isErrorCode)
      .filter((code) => new RetryBudget().nextWaitMs(new PlatformError(code)) !== null);
    expect(tried.toSorted()).toEqual([
      "provider_failed",
      "provider_overloaded",
      "provider_rate_limited",
      "provider_stream_broken",
      "provider_timeout",
      "provider_unreachable",
    ]);
  });
});
