/** Limits of the API and of one run, all shown by `GET /v1/info`. */
export const RUN_LIMITS = { wallClockMs: 3_600_000, modelCallCount: 64, toolCallCount: 256 } as const;

export const API_LIMITS = {
  bodyBytes: 1_000_000,
  queuedRunsPerConversation: 20,
  pageSize: 200,
  idempotencyKeyRetentionDays: 7,
  runWallClockMs: RUN_LIMITS.wallClockMs,
  modelCallsPerRun: RUN_LIMITS.modelCallCount,
  toolCallsPerRun: RUN_LIMITS.toolCallCount,
} as const;
