/** What becomes of a call of the memory record that has not been made: denied, withdrawn, moved by a decision about it. */
import type { ErrorCode } from "@signalbox/contract";
import { isPendingCall } from "@signalbox/core";
import { writeToolFinished } from "./call-events.ts";
import type { MemoryDatabase } from "./database.ts";
import type { HoldRow, ToolCallRow } from "./rows.ts";

export function saidResult(text: string, isError: boolean): string {
  return JSON.stringify({ content: [{ type: "text", text }], isError });
}

export function denyPending(
  db: MemoryDatabase,
  call: ToolCallRow,
  denial: { readonly code: ErrorCode | null; readonly reason: string; readonly resultJson: string },
): ToolCallRow {
  if (!isPendingCall(call.state)) return call;
  const { reason, resultJson } = denial;
  const denied = db.toolCalls.update(call.id, { state: "denied", denial: reason, resultJson });
  writeToolFinished(db, denied);
  return denied;
}

interface Edit {
  readonly argumentsJson: string;
  readonly digest: string;
}

/** In the transaction that closes the approval. A call with other arguments is judged again before it is made. */
export function moveAskedCall(db: MemoryDatabase, hold: HoldRow): void {
  const call = db.toolCalls.where((each) => each.holdId === hold.id && isPendingCall(each.state))[0];
  if (call === undefined) return;
  if (hold.state === "withdrawn") {
    db.toolCalls.update(call.id, { state: "withdrawn" });
  } else if (hold.state === "expired") {
    const reason = "Nobody approved this call in time.";
    const resultJson = saidResult(`${reason} (approval_expired)`, true);
    denyPending(db, call, { code: "approval_expired", reason, resultJson });
  } else if (hold.decision === "approve") {
    db.toolCalls.update(call.id, { state: "authorized" });
  } else if (hold.decision === "edit") {
    // Written by whoever decided, who had it checked.
    const { argumentsJson, digest } = hold.response as Edit;
    const judged = { verdict: null, policyVersion: null } as const;
    db.toolCalls.update(call.id, {
      ...judged,
      state: "authorized",
      editedArgumentsJson: argumentsJson,
      callDigest: digest,
    });
  } else if (hold.decision === "respond") {
    const resultJson = saidResult(wordsOf(hold.response) ?? "", false);
    denyPending(db, call, { code: null, reason: "A person answered in place of the tool.", resultJson });
  } else {
    const words = wordsOf(hold.response);
    const reason = `A person refused this call${words === null ? "." : `: ${words}`}`;
    denyPending(db, call, { code: "approval_rejected", reason, resultJson: saidResult(reason, true) });
  }
}

function wordsOf(response: unknown): string | null {
  if (response === undefined || response === null) return null;
  if (typeof response === "string") return response;
  if (typeof response !== "object" || Array.isArray(response)) return JSON.stringify(response);
  // Any object may have them.
  const { reason, text } = response as { readonly reason?: unknown; readonly text?: unknown };
  const said = [reason, text].find((each) => typeof each === "string");
  return typeof said === "string" ? said : JSON.stringify(response);
}
