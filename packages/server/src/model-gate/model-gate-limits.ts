/** Bounds of the model gate. */
export interface ModelGateLimits {
  readonly requestBytesMax: number;
  readonly answerBytesMax: number;
  /** A streaming provider that sends nothing for this long is given up. */
  readonly streamIdleMs: number;
  /** A provider that was asked for a whole message may take this long. */
  readonly answerMs: number;
  /** How often the slots of open calls are looked at; with the look itself, a stale stream is cut within a second. */
  readonly recheckEveryMs: number;
}

export const MODEL_GATE_LIMITS: ModelGateLimits = {
  requestBytesMax: 32 * 1024 * 1024,
  answerBytesMax: 32 * 1024 * 1024,
  streamIdleMs: 120_000,
  answerMs: 600_000,
  recheckEveryMs: 900,
};
