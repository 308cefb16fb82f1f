import type { Page } from "@signalbox/client";
import type { Terminal } from "./terminal.ts";

/** A page of a list: as JSON the page itself, else a table, and how to see the rest. */
export function tellPage<T>(
  terminal: Terminal,
  page: Page<T>,
  shape: { readonly none: string; readonly row: (item: T) => readonly string[] },
): void {
  if (terminal.json) {
    terminal.value(page);
    return;
  }
  if (page.data.length === 0) terminal.line(shape.none);
  else terminal.table(page.data.map((item) => shape.row(item).map((cell) => cell.replaceAll("\n", " "))));
  if (page.nextCursor !== null) terminal.note(`There are more: --cursor ${page.nextCursor}`);
}
