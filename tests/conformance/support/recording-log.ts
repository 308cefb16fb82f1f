import { inspect } from "node:util";
import type { WorkerLog } from "@signalbox/worker";

export interface RecordedLine {
  readonly level: "info" | "warn" | "error";
  readonly text: string;
}

/** A log that keeps its lines; an error's text has its whole chain of causes. */
export function recordingLog(): WorkerLog & { readonly lines: readonly RecordedLine[] } {
  const lines: RecordedLine[] = [];
  return {
    lines,
    info: (message, facts = {}) => lines.push({ level: "info", text: `${message} ${inspect(facts)}` }),
    warn: (message, facts = {}) => lines.push({ level: "warn", text: `${message} ${inspect(facts)}` }),
    error: (message, error, facts = {}) =>
      lines.push({ level: "error", text: `${message} ${inspect(error)} ${inspect(facts)}` }),
  };
}
