/**
 * Decides what a session continues from. The engine reads its transcript from its own directory, so the rows are
 * written there before it starts; the record stays the only place that counts.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { PlatformError } from "@signalbox/contract";
import {
  resultsOfLostCalls,
  type FoundCall,
  type LostCall,
  type LostCallPorts,
  type SessionContext,
  type TranscriptEntry,
} from "@signalbox/worker";
import { LIMITS } from "./limits.ts";
import type { PrivateDirectories } from "./private-directories.ts";
import { seedTranscript } from "./seeded-transcript.ts";
import { uuidFrom } from "./stable-id.ts";
import { damageOf } from "./transcript-check.ts";
import { entryOf, rowOf, type TranscriptRow } from "./transcript-row.ts";
import { repairTurn, type UnfinishedTurn } from "./unfinished-turn.ts";

/** The engine's name for the directory of its transcripts; fixed, so that it does not depend on where a worker runs. */
export const PROJECT_NAME = "signalbox";

export interface TranscriptPlan {
  readonly sessionId: string;
  /** By stream; the main one has the empty name. Nothing when the session starts anew. */
  readonly rows: ReadonlyMap<string, readonly TranscriptRow[]>;
  /** Last durable entry of the main stream. */
  readonly leaf: string | null;
  readonly sizeBytes: number;
  /** Earlier messages that go along with the next one. */
  readonly unanswered: readonly string[];
  /** The turn that the session goes on with, on the rung `repaired`. */
  readonly unfinished: UnfinishedTurn | null;
}

/**
 * Ends with `transcript_corrupt` when the stored transcript is not whole or not the one the platform expects, and
 * with what the record gate answers.
 */
export async function planTranscript(context: SessionContext, tools: LostCallPorts["tools"]): Promise<TranscriptPlan> {
  const { rung, leaf } = context.continuity;
  if (rung === "repaired") {
    return repaired(context, tools);
  }
  if (rung === "native") {
    return resumed(await context.transcript.load(), leaf);
  }
  const sessionId = uuidFrom("session", context.conversationId, String(context.generation));
  return rung === "fresh" ? { ...NOTHING, sessionId } : rebuilt(context, sessionId);
}

export async function writeTranscript(plan: TranscriptPlan, directories: PrivateDirectories): Promise<void> {
  const project = join(directories.config, "projects", PROJECT_NAME);
  for (const [stream, rows] of plan.rows) {
    const path =
      stream === "" ? join(project, `${plan.sessionId}.jsonl`) : join(project, plan.sessionId, `${stream}.jsonl`);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""), { mode: 0o600 });
  }
}

const NOTHING = {
  rows: new Map<string, readonly TranscriptRow[]>(),
  leaf: null,
  sizeBytes: 0,
  unanswered: [],
  unfinished: null,
} as const;
const SAFE_STREAM = /^[\w-]+(\/[\w-]+)*$/;

interface Read {
  readonly sessionId: string;
  readonly entries: readonly TranscriptEntry[];
}

/** The entries of the session that the transcript ends in: a rebuilt one begins after the rows of the one it replaced. */
function readSession(entries: readonly TranscriptEntry[], leaf: string | null): Read {
  const last = entries.findLast((entry) => entry.stream === "");
  if (last === undefined || last.entryId !== leaf) {
    throw new PlatformError("transcript_corrupt", "The transcript does not end where the history says it does.");
  }
  const { sessionId } = rowOf(last);
  if (sessionId === undefined) {
    throw new PlatformError("transcript_corrupt", "The transcript does not name its session.");
  }
  const own = entries.filter((entry) => {
    const of = rowOf(entry).sessionId;
    return of === undefined || of === sessionId;
  });
  return { sessionId, entries: own };
}

function rowsByStream(entries: readonly TranscriptEntry[]): Map<string, TranscriptRow[]> {
  const rows = new Map<string, TranscriptRow[]>();
  for (const entry of entries) {
    if (entry.stream !== "" && !SAFE_STREAM.test(entry.stream)) {
      throw new PlatformError("transcript_corrupt", "A stream of the transcript has a name it cannot have.");
    }
    const stream = rows.get(entry.stream) ?? [];
    stream.push(rowOf(entry));
    rows.set(entry.stream, stream);
  }
  return rows;
}

function sizeOf(entries: readonly TranscriptEntry[]): number {
  return entries.reduce((sum, entry) => sum + entry.body.length, 0);
}

function resumed(all: readonly TranscriptEntry[], leaf: string | null): TranscriptPlan {
  const { sessionId, entries } = readSession(all, leaf);
  const rows = rowsByStream(entries);
  const damage = damageOf(rows.get("") ?? []);
  if (damage !== "") {
    throw new PlatformError("transcript_corrupt", `The transcript is not whole: ${damage}.`);
  }
  return { sessionId, rows, leaf, sizeBytes: sizeOf(entries), unanswered: [], unfinished: null };
}

/** Makes the turn at the end whole, in the record first. */
async function repaired(context: SessionContext, tools: LostCallPorts["tools"]): Promise<TranscriptPlan> {
  const { leaf, finalized } = context.continuity;
  const all = await context.transcript.load();
  const { sessionId, entries } = readSession(all, leaf);
  const place = all.findLastIndex((entry) => entry.stream === "" && entry.entryId === finalized);
  if (finalized !== null && place < 0) {
    throw new PlatformError("transcript_corrupt", "The transcript lacks the entry its turn began behind.");
  }
  const finished = new Set(all.slice(0, place + 1));
  const mainRows = (isOfTurn: boolean): readonly TranscriptRow[] =>
    entries.filter((entry) => entry.stream === "" && finished.has(entry) !== isOfTurn).map((entry) => rowOf(entry));
  const turn = await repairTurn(mainRows(false), mainRows(true), {
    outcomes: (ids) => context.transcript.outcomes(ids),
    resultsOf: (calls) => resultsInTime(calls, context, tools),
  });
  const added: TranscriptEntry[] = [];
  for (const row of turn.added) {
    added.push(entryOf(row, "", added.at(-1)?.entryId ?? turn.keptId));
  }
  if (turn.isCut || added.length > 0) {
    await context.transcript.replaceTail(turn.keptId, added);
  }
  const rows: Map<string, readonly TranscriptRow[]> = rowsByStream(entries);
  rows.set("", turn.rows);
  return {
    sessionId,
    rows,
    leaf: added.at(-1)?.entryId ?? turn.keptId,
    sizeBytes: sizeOf(entries) + sizeOf(added),
    unanswered: [],
    unfinished: turn,
  };
}

/** A session may not open for as long as a tool may look: another one is opened, and finds what came of it. */
async function resultsInTime(
  calls: readonly LostCall[],
  { snapshot, transcript: ledger }: SessionContext,
  tools: LostCallPorts["tools"],
): Promise<readonly FoundCall[]> {
  const late = new AbortController();
  const lost = new PlatformError("worker_lost", "A tool that is asked again takes longer than a session may.");
  const timer = setTimeout(() => late.abort(lost), LIMITS.lostCallsMs);
  try {
    return await resultsOfLostCalls(calls, { snapshot, ledger, tools, signal: late.signal });
  } finally {
    clearTimeout(timer);
  }
}

async function rebuilt(context: SessionContext, sessionId: string): Promise<TranscriptPlan> {
  const { rows, unanswered } = seedTranscript(sessionId, context.snapshot.model, context.continuity.history);
  const entries: TranscriptEntry[] = [];
  for (const row of rows) {
    entries.push(entryOf(row, "", entries.at(-1)?.entryId ?? null));
  }
  if (entries.length === 0) {
    return { ...NOTHING, sessionId, unanswered };
  }
  await context.transcript.append(entries);
  return {
    sessionId,
    rows: new Map([["", rows]]),
    leaf: entries.at(-1)?.entryId ?? null,
    sizeBytes: sizeOf(entries),
    unanswered,
    unfinished: null,
  };
}
