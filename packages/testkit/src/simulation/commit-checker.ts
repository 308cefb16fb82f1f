/**
 * Watches every commit of the record and says which promise it breaks. Keeps its own books of generations, states and
 * sequences, so that it does not believe what the record's own checks believe.
 */
import { isTerminal, type PlatformEvent } from "@signalbox/contract";
import { isActive, isOwned, isRepeatable } from "@signalbox/core";
import type { Commit, MemoryDatabase } from "../memory/database.ts";
import type { ModelCallRow, OwnershipRow, RunRow, ToolCallRow } from "../memory/rows.ts";
import type { Change } from "../memory/table.ts";
import { rows, type ChangedRows } from "./changed-rows.ts";
import { watchEras } from "./era-checker.ts";
import type { Violation } from "./violations.ts";

type Report = (invariant: Violation["invariant"], detail: string) => void;

export function watchCommits(db: MemoryDatabase, report: Report): void {
  const books: Books = {
    db,
    report,
    generations: new Map(),
    sequences: new Map(),
    finished: new Map(),
    items: new Set(),
  };
  const earlier = watchEras(db, report);
  db.watch((commit) => {
    earlier(commit);
    checkFence(books, commit);
    for (const change of commit.changes) checkChange(books, commit, change);
    checkRuns(books, commit);
    for (const change of commit.changes) note(books, change);
  });
}

interface Books {
  readonly db: MemoryDatabase;
  readonly report: Report;
  readonly generations: Map<string, number>;
  readonly sequences: Map<string, number>;
  /** Terminal state and number of terminal events by run. */
  readonly finished: Map<string, { state: string | null; eventCount: number }>;
  readonly items: Set<string>;
}

/** What was presented must have been current at the moment of the commit. */
function checkFence(books: Books, commit: Commit): void {
  if (commit.changes.length === 0) return;
  const { presented, call } = commit;
  const invariant = commit.intent ? "INV-06" : "INV-05";
  if (presented === null) {
    const needsSlot = commit.intent || call === "append_transcript";
    if (needsSlot) books.report(invariant, `${call} was allowed for a slot that is bound to nothing`);
    return;
  }
  const current = books.generations.get(presented.conversationId) ?? 0;
  if (presented.generation !== current) {
    books.report(invariant, `${call} under generation ${presented.generation}, current is ${current}`);
  }
}

function checkChange(books: Books, commit: Commit, change: Change): void {
  switch (change.table) {
    case "event":
      checkEvent(books, rows<PlatformEvent>(change).after);
      break;
    case "tool_call":
      checkCall(books, commit, rows<ToolCallRow>(change));
      break;
    case "model_call":
      checkCall(books, commit, rows<ModelCallRow>(change));
      break;
    case "run":
      checkState(books, rows<RunRow>(change));
      break;
    default:
      break;
  }
}

function checkEvent(books: Books, event: PlatformEvent): void {
  const expected = (books.sequences.get(event.conversationId) ?? 0) + 1;
  if (event.sequence !== expected) books.report("INV-09", `sequence ${event.sequence} where ${expected} was next`);
  books.sequences.set(event.conversationId, event.sequence ?? expected);
  if (event.runId === null) return;
  const run = books.finished.get(event.runId) ?? { state: null, eventCount: 0 };
  if (event.type === "run.finished") run.eventCount += 1;
  else if (run.eventCount > 0 && event.type !== "usage.recorded" && !books.items.has(event.itemId)) {
    books.report("INV-08", `${event.type} opened an item after the run was finished`);
  }
  books.items.add(event.itemId);
  books.finished.set(event.runId, run);
  if (run.eventCount > 1) books.report("INV-08", `${event.runId} has ${run.eventCount} terminal events`);
}

const OPEN: ReadonlySet<string> = new Set(["proposed", "awaiting_approval", "authorized", "executing"]);

function checkCall(books: Books, commit: Commit, { before, after }: ChangedRows<ToolCallRow | ModelCallRow>): void {
  const settles = commit.call === "settle_tool_call" || commit.call === "settle_model_call";
  if (settles && before !== null && before.state !== "executing" && before.id === after.id && isOutcome(after.state)) {
    books.report("INV-05", `${commit.call} closed ${after.id}, which was ${before.state}`);
  }
  const reopened = before !== null && !OPEN.has(before.state) && OPEN.has(after.state);
  if (reopened && "effect" in after && before.state === "unknown" && !isRepeatable(after.effect)) {
    books.report("INV-11", `${after.id} is ${after.state} again though its outcome is unknown`);
  }
  if (after.state !== "executing" || before?.state === "executing") return;
  const run = books.db.runs.must(after.runId);
  if (run.state !== "running") books.report("INV-06", `${commit.call} while its run is ${run.state}`);
  if (books.db.ownerships.must(run.conversationId).cancelAtMs !== null) {
    books.report("INV-20", `${commit.call} after a cancel was acknowledged`);
  }
}

function isOutcome(state: string): boolean {
  return state === "succeeded" || state === "failed" || state === "unknown" || state === "estimated";
}

function checkState(books: Books, { before, after }: ChangedRows<RunRow>): void {
  if (before !== null && isTerminal(before.state) && (after.state !== before.state || after.reason !== before.reason)) {
    books.report("INV-08", `${after.id} was ${before.state} and became ${after.state}`);
  }
  if (isTerminal(after.state) && after.reason === null) books.report("INV-02", `${after.id} ended without a reason`);
  if (isOwned(after.state) && (after.generation === null || after.owner === null)) {
    books.report("INV-07", `${after.id} is ${after.state} without owner and generation`);
  }
}

/** What must hold of whole conversations, wherever a run changed. */
function checkRuns(books: Books, commit: Commit): void {
  const touched = new Set(
    commit.changes
      .filter((change) => change.table === "run")
      .map((change) => rows<RunRow>(change).after.conversationId),
  );
  for (const conversationId of touched) {
    const runs = books.db.runsOf(conversationId);
    const active = runs.filter((run) => isActive(run.state));
    if (active.length > 1) books.report("INV-01", `${active.length} runs of ${conversationId} are active`);
    for (const run of runs.filter((each) => isTerminal(each.state))) {
      const eventCount = books.finished.get(run.id)?.eventCount ?? 0;
      if (eventCount === 0) books.report("INV-08", `${run.id} is ${run.state} without a terminal event`);
      const left = books.db.holds.where((hold) => hold.runId === run.id && hold.state === "open");
      if (left.length > 0) books.report("INV-08", `${run.id} is ${run.state} and still waits for ${left[0]?.id}`);
    }
  }
}

function note(books: Books, change: Change): void {
  if (change.table !== "ownership") return;
  const ownership = rows<OwnershipRow>(change).after;
  const known = books.generations.get(ownership.conversationId) ?? 0;
  if (ownership.generation < known) {
    books.report("INV-05", `the generation fell from ${known} to ${ownership.generation}`);
  }
  books.generations.set(ownership.conversationId, ownership.generation);
}
