/** Results for people and for machines. */
import type { BarResult } from "./bar.ts";

const NOTE_WIDTH = 96;

export function toJson(results: readonly BarResult[]): string {
  const objects = results.map(({ id, value, unit, bar, holds, n, note }) => ({ id, value, unit, bar, holds, n, note }));
  return JSON.stringify(objects, null, 2);
}

/** One line for each result, its note wrapped below it. */
export function toTable(results: readonly BarResult[]): string {
  const rows = results.map((result) => [
    result.id,
    String(result.value),
    result.unit,
    result.bar === null ? "–" : String(result.bar),
    result.holds === null ? "–" : result.holds ? "holds" : "MISSED",
    String(result.n),
  ]);
  const heads = ["bar", "median", "unit", "bar is", "", "n"];
  const widths = heads.map((head, at) => Math.max(head.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join("  ")
      .trimEnd();
  return [
    line(heads),
    ...rows.flatMap((row, at) => [line(row), ...wrapped(results[at]?.note ?? "").map((text) => `    ${text}`)]),
  ].join("\n");
}

function wrapped(note: string): readonly string[] {
  const lines: string[] = [];
  for (const word of note.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < NOTE_WIDTH) lines[lines.length - 1] = `${last} ${word}`;
    else if (word !== "") lines.push(word);
  }
  return lines;
}
