import type { Cancellation, Clock } from "../ports/clock.ts";

/** Waits for `work`, at most `limitMs`; tells whether it came in time. `work` must not reject. */
export async function within(
  work: Promise<unknown>,
  limitMs: number,
  ports: { readonly clock: Clock; readonly cancellation: Cancellation },
): Promise<boolean> {
  const done = ports.cancellation.source();
  const timer = ports.clock.sleep(limitMs, done.signal);
  const first = await Promise.race([work.then(() => "done"), timer]);
  done.abort();
  await timer;
  return first === "done";
}
