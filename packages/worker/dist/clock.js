import { performance } from "node:perf_hooks";
/** The machine's clock. Its timers keep no process alive. */
export const systemClock = {
    nowMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    sleep: (delayMs, signal) => sleepOnTimer(delayMs, signal),
};
function sleepOnTimer(delayMs, signal) {
    if (signal?.aborted === true) {
        return Promise.resolve("aborted");
    }
    return new Promise((resolve) => {
        const onAbort = () => {
            clearTimeout(timer);
            resolve("aborted");
        };
        const timer = setTimeout(() => {
            signal?.removeEventListener("abort", onAbort);
            resolve("elapsed");
        }, delayMs);
        timer.unref();
        signal?.addEventListener("abort", onAbort, { once: true });
    });
}
/** Waits for `work` to settle either way, at most `boundMs`; tells whether it did. */
export async function settledWithin(work, boundMs, clock) {
    const waiting = new AbortController();
    const settled = work.then(() => true, () => true);
    const bound = clock.sleep(boundMs, waiting.signal).then(() => false);
    const inTime = await Promise.race([settled, bound]);
    waiting.abort();
    return inTime;
}
//# sourceMappingURL=clock.js.map