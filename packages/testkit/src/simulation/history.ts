/** The history of a simulation in lines that a person can follow. */
import type { Commit } from "../memory/database.ts";
import type { Change } from "../memory/table.ts";
import type { Life, Scheduler } from "./scheduler.ts";

/** `what` is only asked for its words when somebody listens; `null` says nothing. */
export type Tell = (life: Life | null, what: () => string | null) => void;

export function createTell(scheduler: Scheduler, listener: ((line: string) => void) | null): Tell {
  if (listener === null) return () => undefined;
  return (life, what) => {
    const words = what();
    if (words !== null) {
      listener(
        `${String(Math.round(scheduler.nowMs)).padStart(7)} ms  ${(life?.name ?? "record").padEnd(8)}  ${words}`,
      );
    }
  };
}

/** What a commit did to the facts that matter, or `null` when it did nothing of that kind. */
export function tellCommit(commit: Commit): string | null {
  const facts = commit.changes.map(tellChange).filter((fact) => fact !== null);
  return facts.length === 0 ? null : `${commit.call}: ${facts.join("; ")}`;
}

type Row = Readonly<Record<string, unknown>>;

function tellChange(change: Change): string | null {
  // Rows are records of named columns; what is told is read by name.
  const { before, after } = change as { readonly before: Row | null; readonly after: Row };
  switch (change.table) {
    case "run":
      return (
        tellRung(change.key, before, after) ??
        tellMark(change.key, before, after) ??
        tellState(change.key, before, after)
      );
    case "tool_call":
    case "model_call":
      return tellState(change.key, before, after);
    case "ownership":
      return before?.["generation"] === after["generation"]
        ? cancelOf(before, after)
        : `${short(change.key)} generation ${String(after["generation"])} owner ${String(after["owner"])}`;
    case "process":
      return before === null
        ? `process ${change.key} registered`
        : after["deadAtMs"] !== before["deadAtMs"]
          ? `process ${change.key} is dead`
          : null;
    case "event":
      return `#${String(after["sequence"])} ${String(after["type"])}`;
    case "message":
      return `message ${String(after["role"])}${after["partial"] === true ? " (partial)" : ""}`;
    case "slot":
      return after["runId"] === before?.["runId"] && after["generation"] === before?.["generation"]
        ? null
        : `slot ${after["runId"] === null ? "unbound" : `bound to generation ${String(after["generation"])}`}`;
    case "transcript_entry":
      return after["cut"] === true
        ? `entry ${String(after["position"])} cut`
        : `entry ${String(after["position"])} ${String(after["entryId"])}`;
    default:
      return null;
  }
}

function tellRung(key: string, before: Row | null, after: Row): string | null {
  const rung = after["rung"] ?? null;
  return rung === null || rung === (before?.["rung"] ?? null)
    ? null
    : `${short(key)} was answered on the rung ${JSON.stringify(rung)}`;
}

function tellState(key: string, before: Row | null, after: Row): string | null {
  return before?.["state"] === after["state"]
    ? null
    : `${short(key)} ${before === null ? "new" : String(before["state"])} → ${String(after["state"])}`;
}

/** What was decided about a run that goes on for now. */
function tellMark(key: string, before: Row | null, after: Row): string | null {
  if (before === null || before["state"] !== after["state"]) return null;
  if (before["takenIn"] !== after["takenIn"]) return `${short(key)} was taken in`;
  return before["cancelCause"] === after["cancelCause"]
    ? null
    : `${short(key)} is to end: ${String(after["cancelCause"])}`;
}

function cancelOf(before: Row | null, after: Row): string | null {
  return before?.["cancelAtMs"] === null && after["cancelAtMs"] !== null ? "cancel marked" : null;
}

/** The end of an id tells it apart; the beginning is its time. */
function short(id: string): string {
  return id.includes("_") ? `${id.slice(0, id.indexOf("_"))}_…${id.slice(-4)}` : id;
}
