/** What an attempt to deliver means, and when the next one is made. */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "../kernel/units.ts";
import type { AttemptResult, DeliveryVerdict } from "../ports/delivery-record.ts";

/** Waits before each further attempt: thirteen attempts within three days. */
const WAITS_MS = [
  5 * SECOND_MS,
  30 * SECOND_MS,
  2 * MINUTE_MS,
  10 * MINUTE_MS,
  30 * MINUTE_MS,
  HOUR_MS,
  2 * HOUR_MS,
  4 * HOUR_MS,
  8 * HOUR_MS,
  12 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
] as const;
/** Waits grow by up to this share, so that what failed together does not come back together. */
const SPREAD = 0.1;
const RETRY_AFTER_CAP_MS = DAY_MS;
const GONE = 410;

export interface Judgement {
  readonly verdict: DeliveryVerdict;
  readonly errorCode: string | null;
  /** `null`: it is not tried again. */
  readonly retryMs: number | null;
}

export interface Effort {
  /** 1 for the first attempt. */
  readonly effort: number;
  /** 0 ≤ fraction < 1. */
  readonly fraction: number;
}

/** Only an answer of 2xx is one. A redirect points to an address that nobody gave us. */
export function judgeAttempt(
  { status, errorCode, retryAfterMs }: AttemptResult,
  { effort, fraction }: Effort,
): Judgement {
  if (status === null && errorCode === "shutting_down") return { verdict: "interrupted", errorCode, retryMs: 0 };
  if (status !== null && status >= 200 && status < 300) return { verdict: "delivered", errorCode: null, retryMs: null };
  if (status === GONE) return { verdict: "gone", errorCode: "http_status", retryMs: null };
  const code = status === null ? errorCode : status >= 300 && status < 400 ? "redirected" : "http_status";
  const waitMs = WAITS_MS[effort - 1];
  if (waitMs === undefined) return { verdict: "failed", errorCode: code, retryMs: null };
  const spreadMs = Math.round(waitMs * (1 + SPREAD * fraction));
  const askedMs = Math.min(retryAfterMs ?? 0, RETRY_AFTER_CAP_MS);
  return { verdict: "failed", errorCode: code, retryMs: Math.max(spreadMs, askedMs) };
}
