/**
 * Cancels that a client says in words, at an address where nothing but the id of the request says which call it means.
 * Two programs with one key may both have a request of that id under way: then nobody knows whose is meant, and none is
 * cut. A client that closes its request is understood in any case.
 */
export class ClientCancels {
  readonly #calls = new Map<string, Set<() => void>>();

  /** Until disposed, `cancel` is what a cancel of this request does. */
  begin(key: string, cancel: () => void): Disposable {
    const calls = this.#calls.get(key) ?? new Set();
    calls.add(cancel);
    this.#calls.set(key, calls);
    return {
      [Symbol.dispose]: () => {
        calls.delete(cancel);
        if (calls.size === 0) this.#calls.delete(key);
      },
    };
  }

  cancel(key: string): void {
    const [cancel, ...others] = this.#calls.get(key) ?? [];
    if (others.length === 0) cancel?.();
  }
}
