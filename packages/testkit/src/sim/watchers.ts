/** Waiting for a state with a bound: whoever changes something says so, whoever waits looks again. */
import { PlatformError } from "@signalbox/contract";

export interface Wait {
  readonly holds: () => boolean;
  readonly withinMs: number;
  /** What had been seen when the wait was in vain; part of the error. */
  readonly seen: () => string;
}

export interface Watchers {
  /** To be called after every change. */
  readonly changed: () => void;
  /** Ends with `internal` when the condition does not hold within the bound. */
  readonly waitFor: (wait: Wait) => Promise<void>;
}

export function newWatchers(): Watchers {
  const watching = new Set<() => void>();
  return {
    changed: () => {
      for (const look of watching) {
        look();
      }
    },
    waitFor: ({ holds, withinMs, seen }) =>
      new Promise<void>((resolve, reject) => {
        const end = (error: PlatformError | null) => {
          clearTimeout(timer);
          watching.delete(look);
          return error === null ? resolve() : reject(error);
        };
        const look = () => {
          if (holds()) {
            end(null);
          }
        };
        const timer = setTimeout(() => {
          end(new PlatformError("internal", `nothing that was waited for came within ${withinMs} ms; seen: ${seen()}`));
        }, withinMs);
        watching.add(look);
        look();
      }),
  };
}
