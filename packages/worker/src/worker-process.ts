/** A worker as a process of its own: runs until it is told to stop, then drains. */
import { PlatformError } from "@signalbox/contract";
import { startWorker, type WorkerOptions } from "./worker.ts";

/** What `runWorkerProcess` takes: options of a worker that always listens and always announces itself. */
export interface WorkerProcessOptions extends Omit<WorkerOptions, "onRefused" | "host"> {
  readonly host?: string;
  readonly platformUrl: string;
  /** Also stop when standard input ends: whoever holds the other end of the pipe is gone. */
  readonly stopWithParent?: boolean;
  /** Told when the worker listens. */
  readonly onStarted?: (started: { readonly address: string; readonly incarnation: string }) => void;
}

/**
 * Resolves with the exit code once everything is put away: 0 after SIGTERM, SIGINT or the end of standard input, 1
 * when the platform does not accept the join token. A second signal ends the process at once.
 */
export async function runWorkerProcess(options: WorkerProcessOptions): Promise<number> {
  if (options.joinToken === "") {
    throw new PlatformError("unauthenticated", "A worker needs a join token: set SIGNALBOX_JOIN_TOKEN.");
  }
  const ending = Promise.withResolvers<number>();
  const onSignal = (): void => {
    ending.resolve(0);
    for (const signal of SIGNALS) {
      process.once(signal, () => process.exit(130));
    }
  };
  const onInputEnd = (): void => ending.resolve(0);
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

const SIGNALS = ["SIGTERM", "SIGINT"] as const;
