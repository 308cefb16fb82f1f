/** An event in a few words, for people who watch. */
import { clip, type PlatformEvent } from "@signalbox/contract";

const TEXT_LIMIT = 100;

export function summaryOf(event: PlatformEvent): string {
  switch (event.type) {
    case "text.delta":
    case "text.completed":
    case "thinking.delta":
    case "thinking.completed":
      return JSON.stringify(clip(event.text, TEXT_LIMIT));
    case "text.retracted":
      return `${event.itemId}: ${event.cause}`;
    case "tool.started":
      return `${event.title} (${event.effect}, ${event.grade}) ${clip(event.argumentsSummary, TEXT_LIMIT)}`;
    case "tool.finished":
      return `${event.title} ${event.state} in ${event.elapsedMs} ms${event.denial === null ? "" : `: ${event.denial}`}`;
    case "usage.recorded":
      return `${event.servedModel}: ${event.usage.inputTokens} in, ${event.usage.outputTokens} out${event.estimated ? " (estimated)" : ""}`;
    case "run.phase":
      return event.phase;
    case "run.admitted":
      return event.messageId;
    case "run.started":
      return `${event.runtime}, attempt ${event.attempt}`;
    case "run.recovered":
      return `${event.cause}, attempt ${event.attempt}`;
    case "run.suspended":
      return `waits for ${event.waitingFor.map((wait) => `${wait.kind} ${wait.holdId}`).join(", ")}`;
    case "run.resumed":
      return "nothing keeps it any more";
    case "hold.opened":
      return `${event.kind} ${event.holdId}`;
    case "hold.decided":
      return `${event.kind} ${event.holdId}: ${event.decision}`;
    case "hold.expired":
    case "hold.withdrawn":
      return `${event.kind} ${event.holdId}`;
    case "run.finished":
      return `${event.outcome} (${event.reason})${event.error === null ? "" : ` ${event.error.code}: ${event.error.detail}`}`;
    case "turn.composed":
      return `${event.model}, transcript ${event.rung}${event.missedTurnCount === 0 ? "" : `, told of ${event.missedTurnCount} earlier turns that it lacks`}`;
    case "queue.moved":
      return `${event.messageId} at ${event.position}`;
  }
}
