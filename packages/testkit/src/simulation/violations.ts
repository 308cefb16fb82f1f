/** A promise that a history broke. */
export interface Violation {
  readonly invariant: `INV-${string}`;
  readonly atMs: number;
  readonly detail: string;
}

export class InvariantBroken extends Error {
  override readonly name = "InvariantBroken";

  constructor(violation: Violation, told: string) {
    super(`${violation.invariant} broken at ${Math.round(violation.atMs)} ms: ${violation.detail} (${told})`);
  }
}
