/** Waits for a state, with a bound: the only way a test waits. */
const POLL_MS = 25;

export async function until<T>(
  what: string,
  look: () => Promise<T | null | undefined | false> | T | null | undefined | false,
  boundMs = 15_000,
): Promise<T> {
  const deadlineMs = performance.now() + boundMs;
  for (;;) {
    const seen = await look();
    if (seen !== null && seen !== undefined && seen !== false) return seen;
    if (performance.now() > deadlineMs) throw new Error(`waited ${boundMs} ms in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
