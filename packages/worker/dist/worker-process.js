/** A worker as a process of its own: runs until it is told to stop, then drains. */
import { PlatformError } from "@signalbox/contract";
import { startWorker } from "./worker.js";
/**
 * Resolves with the exit code once everything is put away: 0 after SIGTERM, SIGINT or the end of standard input, 1
 * when the platform does not accept the join token. A second signal ends the process at once.
 */
export async function runWorkerProcess(options) {
    if (options.joinToken === "") {
        throw new PlatformError("unauthenticated", "A worker needs a join token: set SIGNALBOX_JOIN_TOKEN.");
    }
    const ending = Promise.withResolvers();
    const onSignal = () => {
        ending.resolve(0);
        for (const signal of SIGNALS) {
            process.once(signal, () => process.exit(130));
        }
    };
    const onInputEnd = () => ending.resolve(0);
    for (const signal of SIGNALS) {
        process.once(signal, onSignal);
    }
    if (options.stopWithParent === true) {
        process.stdin.resume().once("end", onInputEnd).once("error", onInputEnd);
    }
    const worker = await startWorker({ ...options, onRefused: () => ending.resolve(1) });
    options.onStarted?.({ address: worker.address, incarnation: worker.incarnation });
    const exitCode = await ending.promise;
    await worker[Symbol.asyncDispose]();
    if (options.stopWithParent === true) {
        process.stdin.destroy();
    }
    return exitCode;
}
const SIGNALS = ["SIGTERM", "SIGINT"];
//# sourceMappingURL=worker-process.js.map