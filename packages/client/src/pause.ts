/** Waiting between attempts: longer each time, spread, and over at once when the caller gives up. */
const BACKOFF_START_MS = 200;
const BACKOFF_LIMIT_MS = 5_000;

/** Positive jitter: never earlier than the step, spread afterwards. */
export function backoffMs(attempt: number): number {
  return Math.min(BACKOFF_START_MS * 2 ** (attempt - 1), BACKOFF_LIMIT_MS) * (1 + Math.random() / 2);
}

/** Resolves after `delayMs`; rejects with the signal's reason as soon as it aborts. */
export async function pause(delayMs: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, delayMs);
  const wake = (): void => resolve();
  signal?.addEventListener("abort", wake, { once: true });
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", wake);
  }
  signal?.throwIfAborted();
}
