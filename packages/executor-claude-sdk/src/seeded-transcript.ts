/**
 * A session rebuilt from the history. The exchange is written as rows of the engine's own transcript, so that the
 * model sees it as turns that were taken, not as a quotation somebody could forge inside a message; and because the
 * rows are appended before the engine starts, the next worker resumes them like any other.
 */
import type { HistoryEntry } from "@signalbox/contract";
import { uuidFrom } from "./stable-id.ts";
import type { TranscriptRow } from "./transcript-row.ts";

export interface SeededTranscript {
  readonly rows: readonly TranscriptRow[];
  /**
   * What was asked last and not answered. It is sent along with the next message: left at the end of the transcript,
   * the engine would put an answer of its own invention after it.
   */
  readonly unanswered: readonly string[];
}

export function seedTranscript(sessionId: string, model: string, history: readonly HistoryEntry[]): SeededTranscript {
  const texts = history.filter((entry) => entry.text.trim() !== "");
  // A provider takes no exchange that an assistant opens.
  const spoken = texts.slice(
    Math.max(
      0,
      texts.findIndex((entry) => entry.role === "user"),
    ),
  );
  const answeredCount = spoken.findLastIndex((entry) => entry.role === "assistant") + 1;
  let parentUuid: string | null = null;
  const rows: TranscriptRow[] = [];
  for (const [place, entry] of spoken.slice(0, answeredCount).entries()) {
    const uuid = uuidFrom("seed", sessionId, String(place));
    rows.push({
      ...ROW,
      type: entry.role,
      uuid,
      parentUuid,
      sessionId,
      message: entry.role === "user" ? asked(entry.text) : answered({ id: `msg_${uuid}`, model, text: entry.text }),
    });
    parentUuid = uuid;
  }
  return { rows, unanswered: spoken.slice(answeredCount).map((entry) => entry.text) };
}

/** Rows carry the moment they were written; here it means nothing, and a fixed one keeps rebuilding repeatable. */
const ROW = { isSidechain: false, userType: "external", timestamp: "1970-01-01T00:00:00.000Z" } as const;

function asked(text: string) {
  return { role: "user", content: [{ type: "text", text }] };
}

function answered(answer: { readonly id: string; readonly model: string; readonly text: string }) {
  return {
    id: answer.id,
    type: "message",
    role: "assistant",
    model: answer.model,
    content: [{ type: "text", text: answer.text }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 0, output_tokens: 0 },
  };
}
