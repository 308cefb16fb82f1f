import type { EventData } from "@signalbox/contract";

export type RunPhase = EventData<"run.phase">["phase"];

const PHASES: ReadonlySet<string> = new Set<RunPhase>([
  "thinking",
  "writing",
  "using_tool",
  "waiting_provider",
  "waiting_person",
  "compacting",
]);

export function isRunPhase(text: string): text is RunPhase {
  return PHASES.has(text);
}
