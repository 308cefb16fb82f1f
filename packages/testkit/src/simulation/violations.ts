/** A promise that a history broke. */
export interface Violation {
  readonly invariant: `INV-${string}`;
  readonly atMs: number;
  readonly detail: string;
}

/** A violation as an error, for a test to fail with; `told` says how to see the history again. */
export class InvariantBroken extends Error {
  override readonly name = "InvariantBroken";

  constructor(violation: Violation, told: string) {
    super(`${violation.invariant} broken at ${Math.round(violation.atMs)} ms: ${violation.detail} (${told})`);
  }
}
