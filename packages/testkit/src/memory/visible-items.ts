import type { ClosedItem, VisibleItem } from "@signalbox/core";
import type { MemoryDatabase } from "./database.ts";
import type { RunRow } from "./rows.ts";

/** Items of text that a reader of the log sees for this run, whoever wrote them. */
export function visibleItems(db: MemoryDatabase, run: RunRow): readonly VisibleItem[] {
  const visible = new Map<string, VisibleItem>();
  for (const event of db.eventsOf(run.conversationId)) {
    if (event.runId !== run.id) continue;
    switch (event.type) {
      case "text.delta":
      case "text.completed":
        visible.set(event.itemId, { itemId: event.itemId, kind: "text" });
        break;
      case "thinking.delta":
      case "thinking.completed":
        visible.set(event.itemId, { itemId: event.itemId, kind: "thinking" });
        break;
      case "text.retracted":
        visible.delete(event.itemId);
        break;
      default:
        break;
    }
  }
  return [...visible.values()];
}

/** Those that were said to their end, with their text. */
export function closedItems(db: MemoryDatabase, run: RunRow): readonly ClosedItem[] {
  const closed = new Map<string, ClosedItem>();
  for (const event of db.eventsOf(run.conversationId)) {
    if (event.runId !== run.id) continue;
    if (event.type === "text.completed" || event.type === "thinking.completed") {
      const kind = event.type === "text.completed" ? "text" : "thinking";
      closed.set(event.itemId, { itemId: event.itemId, kind, text: event.text });
    } else if (event.type === "text.retracted") {
      closed.delete(event.itemId);
    }
  }
  return [...closed.values()];
}
