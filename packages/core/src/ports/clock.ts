/** Time as the flows see it. Only durations and local deadlines: what decides about ownership is the database clock. */
export interface Clock {
  /** Unix milliseconds, for what is shown to people. */
  nowMs(): number;
  /** Never goes back; for measuring and for local deadlines. */
  monotonicMs(): number;
  /** Resolves after `delayMs`, or at once when `signal` aborts; tells which. */
  sleep(delayMs: number, signal?: CancelSignal): Promise<"elapsed" | "aborted">;
}

/** The part of an `AbortSignal` that flows use; the platform's own `AbortSignal` fits it. */
export interface CancelSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void, options?: { readonly once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

export interface CancelSource {
  readonly signal: CancelSignal;
  abort(reason?: unknown): void;
}

/** Makes cancel sources; a port because `AbortController` belongs to the platform, not to the language. */
export interface Cancellation {
  source(): CancelSource;
}
