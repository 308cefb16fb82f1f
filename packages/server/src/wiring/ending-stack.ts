/**
 * What was opened, to be ended in reverse. It does what `AsyncDisposableStack` does, which the oldest Node that is
 * supported does not have.
 */
export class EndingStack implements AsyncDisposable {
  #ends: (() => unknown)[] = [];

  /** Takes what is open and hands it back. */
  use<T extends AsyncDisposable | Disposable>(opened: T): T {
    this.defer(() => (Symbol.asyncDispose in opened ? opened[Symbol.asyncDispose]() : opened[Symbol.dispose]()));
    return opened;
  }

  /** Remembers how to end something that cannot be disposed by itself. */
  defer(end: () => unknown): void {
    this.#ends.push(end);
  }

  /** A stack with everything that is in this one, which is empty from then on. */
  move(): EndingStack {
    const moved = new EndingStack();
    moved.#ends = this.#ends;
    this.#ends = [];
    return moved;
  }

  /** Ends everything, the last first, also what comes after a failure. Rejects with the first failure. Idempotent. */
  async [Symbol.asyncDispose](): Promise<void> {
    const failures: unknown[] = [];
    for (let end = this.#ends.pop(); end !== undefined; end = this.#ends.pop()) {
      try {
        await end();
      } catch (failure) {
        failures.push(failure);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
