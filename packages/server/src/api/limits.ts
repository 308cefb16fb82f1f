/** Limits of the API, all shown by `GET /v1/info`. */
export const API_LIMITS = {
  bodyBytes: 1_000_000,
  queuedRunsPerConversation: 20,
  pageSize: 200,
  idempotencyKeyRetentionDays: 7,
  runWallClockMs: 3_600_000,
  modelCallsPerRun: 64,
  toolCallsPerRun: 256,
} as const;
