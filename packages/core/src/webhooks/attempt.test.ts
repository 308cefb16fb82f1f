import { describe, expect, it } from "vitest";
import { judgeAttempt } from "./attempt.ts";

const answered = (status: number, retryAfterMs: number | null = null) =>
  ({ status, errorCode: null, response: "", retryAfterMs }) as const;
const silent = (errorCode: string) => ({ status: null, errorCode, response: null, retryAfterMs: null }) as const;
const first = { effort: 1, fraction: 0 };

describe("an attempt to deliver", () => {
  it.each([200, 201, 204, 299])("has arrived with %s", (status) => {
    expect(judgeAttempt(answered(status), first)).toEqual({ verdict: "delivered", errorCode: null, retryMs: null });
  });

  it.each([
    [301, "redirected"],
    [308, "redirected"],
    [400, "http_status"],
    [404, "http_status"],
    [429, "http_status"],
    [500, "http_status"],
  ])("has not arrived with %s", (status, errorCode) => {
    expect(judgeAttempt(answered(status), first)).toEqual({ verdict: "failed", errorCode, retryMs: 5_000 });
  });

  it("says what kept it", () => {
    expect(judgeAttempt(silent("timeout"), first)).toEqual({ verdict: "failed", errorCode: "timeout", retryMs: 5_000 });
  });

  it("is the last one where the receiver wants nothing any more", () => {
    expect(judgeAttempt(answered(410), first)).toMatchObject({ verdict: "gone", retryMs: null });
  });

  it("does not count where this process ends", () => {
    expect(judgeAttempt(silent("shutting_down"), first)).toMatchObject({ verdict: "interrupted", retryMs: 0 });
  });

  it("is made thirteen times within three days, each time later, and not again", () => {
    const waits = Array.from(
      { length: 12 },
      (_, index) => judgeAttempt(silent("timeout"), { effort: index + 1, fraction: 0 }).retryMs ?? 0,
    );
    expect(waits.slice(0, 3)).toEqual([5_000, 30_000, 120_000]);
    expect(waits).toEqual(waits.toSorted((a, b) => a - b));
    const daysCount = waits.reduce((sum, wait) => sum + wait, 0) / 86_400_000;
    expect(daysCount).toBeGreaterThan(2.9);
    expect(daysCount).toBeLessThan(3.1);
    expect(judgeAttempt(silent("timeout"), { effort: 13, fraction: 0 }).retryMs).toBeNull();
    expect(judgeAttempt(silent("timeout"), { effort: 2, fraction: 0.999 }).retryMs).toBe(32_997);
  });

  it("leaves a receiver alone for as long as it asks to be, and no longer than a day", () => {
    expect(judgeAttempt(answered(503, 60_000), first).retryMs).toBe(60_000);
    expect(judgeAttempt(answered(503, 1_000), first).retryMs).toBe(5_000);
    expect(judgeAttempt(answered(503, 1e12), first).retryMs).toBe(86_400_000);
  });
});
