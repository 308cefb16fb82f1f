/**
 * Decides what a session continues from. The engine reads its transcript from its own directory, so the rows are
 * written there before it starts; the record stays the only place that counts.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { PlatformError } from "@signalbox/contract";
import type { SessionContext, TranscriptEntry } from "@signalbox/worker";
import type { PrivateDirectories } from "./private-directories.ts";
import { seedTranscript } from "./seeded-transcript.ts";
import { uuidFrom } from "./stable-id.ts";
import { damageOf } from "./transcript-check.ts";
import { entryOf, rowOf, type TranscriptRow } from "./transcript-row.ts";

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
}

/**
 * Ends with `transcript_corrupt` when the stored transcript is not whole or not the one the platform expects, and
 * with what the record gate answers.
 */
export async function planTranscript(context: SessionContext): Promise<TranscriptPlan> {
  const { rung, leaf } = context.continuity;
  if (rung === "native" || rung === "repaired") {
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
} as const;
const SAFE_STREAM = /^[\w-]+(\/[\w-]+)*$/;

function resumed(entries: readonly TranscriptEntry[], leaf: string | null): TranscriptPlan {
  const last = entries.findLast((entry) => entry.stream === "");
  if (last === undefined || last.entryId !== leaf) {
    throw new PlatformError("transcript_corrupt", "The transcript does not end where the history says it does.");
  }
  const sessionId = rowOf(last).sessionId;
  if (sessionId === undefined) {
    throw new PlatformError("transcript_corrupt", "The transcript does not name its session.");
  }
  const rows = new Map<string, TranscriptRow[]>();
  let sizeBytes = 0;
  for (const entry of entries) {
    const row = rowOf(entry);
    // A rebuilt session begins after the rows of the one it replaced.
    if (row.sessionId === undefined || row.sessionId === sessionId) {
      if (entry.stream !== "" && !SAFE_STREAM.test(entry.stream)) {
        throw new PlatformError("transcript_corrupt", "A stream of the transcript has a name it cannot have.");
      }
      const stream = rows.get(entry.stream) ?? [];
      stream.push(row);
      rows.set(entry.stream, stream);
      sizeBytes += entry.body.length;
    }
  }
  const damage = damageOf(rows.get("") ?? []);
  if (damage !== "") {
    throw new PlatformError("transcript_corrupt", `The transcript is not whole: ${damage}.`);
  }
  return { sessionId, rows, leaf, sizeBytes, unanswered: [] };
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
    sizeBytes: entries.reduce((sum, entry) => sum + entry.body.length, 0),
    unanswered,
  };
}
