import { PlatformError, type SnapshotTool } from "@signalbox/contract";
import type { PinnedTool } from "./api-record.ts";

/** An agent's tools sorted by wire name, when all of them are pinned. Errors: `tool_unknown`, naming each that is not. */
export function demandTools(references: readonly string[], pinned: readonly PinnedTool[]): readonly SnapshotTool[] {
  const found = new Map<string, SnapshotTool>(pinned.map(({ reference, ...tool }) => [reference, tool]));
  const missing = references.filter((reference) => !found.has(reference));
  if (missing.length > 0) {
    throw new PlatformError("tool_unknown", `There is no tool ${missing.join(", ")}. Tools are named server/tool.`, {
      fields: missing.map((reference) => ({
        pointer: `/tools/${references.indexOf(reference)}`,
        detail: `no tool ${reference}`,
      })),
    });
  }
  return [...found.values()].sort((left, right) => (left.name < right.name ? -1 : 1));
}
