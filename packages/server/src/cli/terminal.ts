/** Where a command writes: results on standard output, progress on standard error, colour only where a person reads. */
import { styleText } from "node:util";

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

export class Terminal {
  readonly json: boolean;
  readonly interactive: boolean;
  readonly #out: NodeJS.WriteStream;
  readonly #err: NodeJS.WriteStream;
  readonly #colour: boolean;
  #progress = false;

  constructor(options: {
    readonly out: NodeJS.WriteStream;
    readonly err: NodeJS.WriteStream;
    readonly json: boolean;
    readonly noColor: boolean;
  }) {
    this.json = options.json;
    this.#out = options.out;
    this.#err = options.err;
    this.interactive = options.out.isTTY && options.err.isTTY && !options.json;
    this.#colour = this.interactive && !options.noColor;
  }

  style(style: Style, text: string): string {
    return this.#colour ? styleText(style, text, { validateStream: false }) : text;
  }

  line(text = ""): void {
    this.#clear();
    this.#out.write(`${text}\n`);
  }

  /** Text as it comes, without an end of line. */
  text(text: string): void {
    this.#clear();
    this.#out.write(text);
  }

  /** One JSON value on a line of its own. */
  value(value: unknown): void {
    this.#out.write(`${JSON.stringify(value)}\n`);
  }

  note(text: string): void {
    this.#clear();
    this.#err.write(`${text}\n`);
  }

  /** A line that the next output replaces; nothing where nobody watches. */
  progress(text: string): void {
    if (!this.interactive) return;
    this.#err.write(`\r\u001b[2K${this.style("dim", text)}`);
    this.#progress = true;
  }

  table(rows: readonly (readonly string[])[]): void {
    const widths: number[] = [];
    for (const row of rows)
      row.forEach((cell, column) => (widths[column] = Math.max(widths[column] ?? 0, cell.length)));
    for (const row of rows) {
      this.line(
        row.map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0))).join("  "),
      );
    }
  }

  #clear(): void {
    if (this.#progress) this.#err.write("\r\u001b[2K");
    this.#progress = false;
  }
}
