/** Where a command writes: results on standard output, progress on standard error, colour only where a person reads. */
import { stripVTControlCharacters, styleText } from "node:util";

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
    // Of a pipe or a file this is undefined, whatever the type says.
    this.interactive = options.out.isTTY === true && options.err.isTTY === true && !options.json;
    this.#colour = this.interactive && !options.noColor;
  }

  style(style: Style, text: string): string {
    return this.#colour ? styleText(style, text, { validateStream: false }) : text;
  }

  line(text = ""): void {
    this.#clear();
    this.#out.write(`${text}\n`);
  }

  /** Somebody else's text as it comes, without an end of line. */
  text(text: string): void {
    this.#clear();
    this.#out.write(this.plain(text));
  }

  /** Somebody else's text: on a terminal it must not move the cursor, ring, or change what is shown. */
  plain(text: string): string {
    return this.interactive ? text.replaceAll(/[^\P{Cc}\n\t]/gu, "\uFFFD") : text;
  }

  /** One JSON value on a line of its own. */
  value(value: unknown): void {
    this.#clear();
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
    for (const row of rows) {
      row.forEach((cell, column) => (widths[column] = Math.max(widths[column] ?? 0, widthOf(cell))));
    }
    for (const row of rows) {
      const cells = row.map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - widthOf(cell)));
      this.line(cells.join("  ").trimEnd());
    }
  }

  #clear(): void {
    if (this.#progress) this.#err.write("\r\u001b[2K");
    this.#progress = false;
  }
}

/** Colours take no room. */
function widthOf(cell: string): number {
  return stripVTControlCharacters(cell).length;
}
