/** A problem we know: it is told in a sentence that helps, never with a stack trace. */
export class Trouble extends Error {
  /**
   * @param {string} sentence
   * @param {number} [exitCode]
   */
  constructor(sentence, exitCode = 1) {
    super(sentence);
    this.name = "Trouble";
    this.exitCode = exitCode;
  }
}

/**
 * Runs the main function of a script and turns its end into an exit code.
 * @param {() => Promise<number>} run
 * @param {(sentence: string) => void} [onTrouble] what else to print when it ends in a known problem
 */
export async function conclude(run, onTrouble) {
  try {
    process.exitCode = await run();
  } catch (error) {
    if (!(error instanceof Trouble)) {
      throw error;
    }
    process.stderr.write(`\n${error.message}\n`);
    onTrouble?.(error.message);
    process.exitCode = error.exitCode;
  }
}
