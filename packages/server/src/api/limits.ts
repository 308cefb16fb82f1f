/** Limits of the API and of one run, all shown by `GET /v1/info`. */
import { DAY_MS, LIMITS, type Limits } from "@signalbox/core";
import { WAIT_LIMIT_SECONDS } from "./prefer.ts";
import { SLOW_READER_MS } from "./sse-response.ts";

export const RUN_LIMITS = {
  wallClockMs: LIMITS.runWallClockMs,
  modelCallCount: 64,
  toolCallCount: 256,
} as const;

/** What an operator may set. */
export type AdmissionLimits = Pick<Limits, "queueCount" | "messagesPerMinuteCount" | "tenantRunCount">;

/** All limits, by the names they are shown under. */
export function shownLimits(admission: AdmissionLimits): Readonly<Record<string, number>> {
  return {
    ...API_LIMITS,
    queuedRunsPerConversation: admission.queueCount,
    messagesPerMinutePerConversation: admission.messagesPerMinuteCount,
    openRunsPerTenant: admission.tenantRunCount,
  };
}

export const API_LIMITS = {
  bodyBytes: 1_000_000,
  /** Arrays and objects within each other. */
  jsonDepth: 64,
  messageChars: LIMITS.messageChars,
  metadataEntries: LIMITS.metadataCount,
  idempotencyKeyChars: LIMITS.idempotencyKeyChars,
  idempotencyKeyRetentionDays: LIMITS.idempotencyKeyMs / DAY_MS,
  preferWaitSeconds: WAIT_LIMIT_SECONDS,
  pageSize: 200,
  searchMs: LIMITS.searchMs,
  /** How long a stream whose reader does not read is kept. */
  slowReaderMs: SLOW_READER_MS,
  /** How long a call waits for its hold before its run gives up its worker. */
  holdPatienceMs: LIMITS.holdPatienceMs,
  toolsPerAgent: LIMITS.toolCount,
  runWallClockMs: RUN_LIMITS.wallClockMs,
  modelCallsPerRun: RUN_LIMITS.modelCallCount,
  toolCallsPerRun: RUN_LIMITS.toolCallCount,
} as const;
