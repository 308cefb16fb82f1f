import { AssertionError } from "node:assert";
import { describe, expect, it } from "vitest";

export type InvariantId = `INV-${number}`;

export interface Proof<Sabotage extends string> {
  /** One sentence: the story of this proof. */
  readonly title: string;
  /** Deliberate defects the check must catch; each is run once and has to fail. */
  readonly sabotages: readonly [Sabotage, ...Sabotage[]];
  /**
   * Builds its world with the named defect in place (none when null) and checks the promise, throwing an assertion
   * error, or an error whose message names the promise, when it is broken.
   */
  readonly holds: (sabotage: Sabotage | null) => Promise<void> | void;
  /** Bound of one run of `holds`; the test kind's own when left out. */
  readonly timeoutMs?: number;
}

/**
 * States which numbered promise of docs/invariants.md is proven here. The check must pass as things are and fail
 * under each sabotage; a sabotage that ends in any other error than a broken promise proves nothing and fails.
 */
export function proves<Sabotage extends string>(id: InvariantId, proof: Proof<Sabotage>): void {
  describe(`${id}: ${proof.title}`, () => {
    it(
      "holds",
      async () => {
        await proof.holds(null);
      },
      proof.timeoutMs,
    );
    for (const sabotage of proof.sabotages) {
      it(
        `catches the sabotage ${sabotage}`,
        async () => {
          await mustBreak(id, () => proof.holds(sabotage));
        },
        proof.timeoutMs,
      );
    }
  });
}

/** Runs a check under a sabotage and throws unless it ends in the broken promise. */
export async function mustBreak(id: InvariantId, check: () => Promise<void> | void): Promise<void> {
  const failure = await failureOf(check);
  expect(failure, "the check did not notice the sabotage").not.toBeNull();
  if (!isBrokenPromise(failure, id)) {
    throw new Error("the sabotage ended in an error that is no broken promise", { cause: failure });
  }
}

async function failureOf(run: () => Promise<void> | void): Promise<Error | null> {
  try {
    await run();
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error("a check threw something that is no error", { cause: error });
  }
}

function isBrokenPromise(error: Error | null, id: InvariantId): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (at instanceof AssertionError || at.name === "AssertionError" || at.message.includes(id)) {
      return true;
    }
  }
  return false;
}
