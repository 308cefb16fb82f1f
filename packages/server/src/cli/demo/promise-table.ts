/** What a demonstration ends with: what was promised, what was seen, and whether the two agree. */
import type { PlatformEvent } from "@signalbox/contract";
import type { Terminal } from "../terminal.ts";

export interface Finding {
  readonly promised: string;
  readonly saw: string;
  readonly holds: boolean;
}

export function finding(promised: string, saw: string, holds: boolean): Finding {
  return { promised, saw, holds };
}

/** True when every promise held. */
export function showFindings(terminal: Terminal, findings: readonly Finding[]): boolean {
  const holds = findings.every((each) => each.holds);
  if (terminal.json) {
    terminal.value({ holds, findings });
    return holds;
  }
  const mark = (each: Finding): string =>
    each.holds ? terminal.style("green", "ok") : terminal.style("red", "BROKEN");
  terminal.line();
  terminal.table([["", "promised", "saw"], ...findings.map((each) => [mark(each), each.promised, each.saw])]);
  return holds;
}

/** What every log must show, whatever died while it was written. */
export function logFindings(log: readonly PlatformEvent[], runs: readonly string[]): readonly Finding[] {
  const sequences = log.flatMap((event) => (event.sequence === null ? [] : [event.sequence]));
  const gapless = sequences.every((sequence, index) => sequence === index + 1);
  const endings = runs.map((run) => log.filter((event) => event.type === "run.finished" && event.runId === run).length);
  return [
    finding(
      "sequences are 1..n without a gap",
      gapless ? `1..${sequences.length}` : `not gapless: ${sequences.join(",").slice(0, 60)}`,
      gapless,
    ),
    finding(
      "each run has one terminal event",
      endings.join(", "),
      endings.every((count) => count === 1),
    ),
  ];
}
