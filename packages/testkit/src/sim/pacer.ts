/** Waiting that ends at once when nobody is left to wait for. */
export interface Pacer {
  readonly stopped: boolean;
  /** Resolves after so many milliseconds, or when stopped. */
  wait(ms: number): Promise<void>;
  /** Resolves when stopped. */
  forever(): Promise<void>;
  stop(): void;
}

export function newPacer(): Pacer {
  const waiting = new Set<() => void>();
  let stopped = false;
  const forever = () =>
    new Promise<void>((resolve) => {
      if (stopped) {
        resolve();
      } else {
        waiting.add(resolve);
      }
    });
  return {
    get stopped() {
      return stopped;
    },
    wait(ms) {
      if (stopped || ms <= 0) {
        return Promise.resolve();
      }
      return new Promise<void>((resolve) => {
        const end = () => {
          clearTimeout(timer);
          waiting.delete(end);
          resolve();
        };
        const timer = setTimeout(end, ms);
        waiting.add(end);
      });
    },
    forever,
    stop() {
      stopped = true;
      for (const end of waiting) {
        end();
      }
      waiting.clear();
    },
  };
}
