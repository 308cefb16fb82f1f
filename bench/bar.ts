/** What a measured bar is: a module that measures, and the results it hands out. One folder for each bar. */

/** One line of the table, one object of `--json`. */
export interface BarResult {
  /** The bar, or the bar and the case: `P-1/langgraph/instant`. */
  readonly id: string;
  /** The median of what was measured. */
  readonly value: number;
  readonly unit: string;
  /** `null` for what is printed without a bar. */
  readonly bar: number | null;
  /** `null` without a bar. */
  readonly holds: boolean | null;
  /** Measured runs behind the value. */
  readonly n: number;
  readonly note: string;
}

export interface BenchOptions {
  /** Measured runs, and runs before them that are thrown away; `null`: as many as the bar asks for. */
  readonly runCount: number | null;
  readonly warmUpCount: number | null;
  /** Only whether everything works: as little as there can be of everything, and no number to be believed. */
  readonly smoke: boolean;
  /** Whether the case of this id was asked for. */
  readonly wants: (id: string) => boolean;
  /** Says what is going on; never on standard output. */
  readonly say: (text: string) => void;
  readonly interrupted: AbortSignal;
}

export interface Bar {
  readonly id: string;
  readonly title: string;
  /** Every case there is, so that `--only` can be checked before anything is started. */
  readonly cases: readonly string[];
  /** Results in the order they are known. */
  readonly measure: (options: BenchOptions) => AsyncIterable<BarResult>;
}
