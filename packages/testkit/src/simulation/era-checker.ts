/**
 * What an era must have put an end to: whoever and whatever was there before it. Keeps its own books of what that was,
 * taken at the commit that opened it.
 */
import type { Commit, MemoryDatabase } from "../memory/database.ts";
import type { HoldRow, ModelCallRow, OwnershipRow, RunRow, ToolCallRow } from "../memory/rows.ts";
import type { Change } from "../memory/table.ts";
import { rows } from "./changed-rows.ts";
import type { Violation } from "./violations.ts";

type Report = (invariant: Violation["invariant"], detail: string) => void;

interface Before {
  /** By conversation. */
  readonly generations: Map<string, number>;
  readonly processes: Set<number>;
  /** Holds whose approval nobody has given again, by the run that waits for it. */
  readonly approvals: Map<string, string>;
}

/** Answers what looks at each commit. */
export function watchEras(db: MemoryDatabase, report: Report): (commit: Commit) => void {
  const generations = new Map<string, number>();
  const before: Before = { generations: new Map(), processes: new Set(), approvals: new Map() };
  return (commit) => {
    if (commit.call === "open_era") {
      for (const [conversationId, generation] of generations) before.generations.set(conversationId, generation);
      for (const process of registeredIn(db)) before.processes.add(process);
      for (const hold of approvedIn(db, commit)) before.approvals.set(hold.id, hold.runId);
    } else {
      checkFence(before, commit, report);
      for (const change of commit.changes) checkChange(before, change, report);
    }
    for (const change of commit.changes.filter(({ table }) => table === "ownership")) {
      const { conversationId, generation } = rows<OwnershipRow>(change).after;
      generations.set(conversationId, generation);
    }
  };
}

function registeredIn(db: MemoryDatabase): readonly number[] {
  return db.processes.all().map(({ incarnation }) => incarnation);
}

/** Approvals as they stood before the era: some of them were asked again in its own commit. */
function approvedIn(db: MemoryDatabase, commit: Commit): readonly HoldRow[] {
  const was = earlierRows<HoldRow>(commit, "hold");
  const runs = earlierRows<RunRow>(commit, "run");
  return db.holds.all().filter((hold) => {
    const state = (was.get(hold.id) ?? hold).state;
    const run = runs.get(hold.runId) ?? db.runs.must(hold.runId);
    const isOpen = run.state === "admitted" || run.state === "running" || run.state === "suspended";
    return hold.kind === "approval" && state === "decided" && isOpen && run.cancelCause === null;
  });
}

/** What a commit changed, as it was before, by key. */
function earlierRows<Row>({ changes }: Commit, name: string): ReadonlyMap<string, Row | null> {
  return new Map(changes.filter(({ table }) => table === name).map((change) => [change.key, rows<Row>(change).before]));
}

function checkFence(before: Before, { call, presented, changes }: Commit, report: Report): void {
  if (presented === null || changes.length === 0) return;
  const last = before.generations.get(presented.conversationId);
  if (last !== undefined && presented.generation <= last) {
    report("INV-25", `${call} under generation ${presented.generation}, which an era has ended`);
  }
}

function checkChange(before: Before, change: Change, report: Report): void {
  switch (change.table) {
    case "ownership": {
      const { before: was, after } = rows<OwnershipRow>(change);
      const { owner, conversationId } = after;
      if (owner !== null && owner !== was?.owner && before.processes.has(owner)) {
        report("INV-25", `process ${owner} of an earlier era owns ${conversationId}`);
      }
      break;
    }
    case "tool_call":
    case "model_call": {
      const { before: was, after } = rows<ToolCallRow | ModelCallRow>(change);
      const { id, state, process } = after;
      if (state === "executing" && was?.state !== "executing" && process !== null && before.processes.has(process)) {
        report("INV-25", `a gate of an earlier era began ${id}`);
      }
      break;
    }
    case "hold": {
      const { before: was, after } = rows<HoldRow>(change);
      if (was?.state === "open" && after.state !== "open") before.approvals.delete(after.id);
      break;
    }
    case "run": {
      const { before: was, after } = rows<RunRow>(change);
      const goesOn = after.state === "running" && was?.state !== "running" && after.cancelCause === null;
      if (goesOn && [...before.approvals.values()].includes(after.id)) {
        report("INV-25", `${after.id} goes on with what was approved in an earlier era`);
      }
      break;
    }
    default:
      break;
  }
}
