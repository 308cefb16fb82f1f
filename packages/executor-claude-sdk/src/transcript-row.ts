/**
 * The engine's transcript is a list of JSON lines it alone understands. This is the little of them that must be read
 * to tell whether a transcript is whole; everything else in a row is carried and never looked at.
 */
import { PlatformError, wellFormedJson } from "@signalbox/contract";
import type { Compaction, JsonObject, TranscriptEntry } from "@signalbox/worker";
import { uuidFrom } from "./stable-id.ts";

export interface ContentBlock {
  readonly type: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: JsonObject;
  readonly text?: string;
  readonly thinking?: string;
  readonly tool_use_id?: string;
}

export interface TranscriptRow {
  readonly type: string;
  readonly subtype?: string;
  readonly uuid?: string;
  readonly parentUuid?: string | null;
  readonly sessionId?: string;
  readonly isSidechain?: boolean;
  readonly isApiErrorMessage?: boolean;
  readonly compactMetadata?: { readonly preservedMessages?: { readonly [list in PreservedList]?: unknown } };
  readonly message?: {
    readonly id?: string;
    readonly model?: string;
    readonly stop_reason?: string | null;
    readonly content?: string | readonly ContentBlock[];
  };
}

/** Both name rows before a compaction that the engine puts behind its summary when it reads the transcript again. */
const PRESERVED_LISTS = ["uuids", "allUuids"] as const;
type PreservedList = (typeof PRESERVED_LISTS)[number];

export function isCompaction(row: TranscriptRow): boolean {
  return row.subtype === "compact_boundary";
}

/** The last row among these with which the engine begins anew, and what it still reads from before. */
export function compactionIn(rows: readonly TranscriptRow[]): Compaction | undefined {
  const row = rows.findLast((each) => isCompaction(each));
  if (row?.uuid === undefined) {
    return undefined;
  }
  const preserved = row.compactMetadata?.preservedMessages ?? {};
  const ids = PRESERVED_LISTS.flatMap((list): readonly unknown[] => {
    const named = preserved[list];
    return Array.isArray(named) ? named : [];
  });
  return { entryId: row.uuid, keptEntryIds: [...new Set(ids.filter((id) => typeof id === "string"))] };
}

/**
 * Rows that only tell the engine's own screens what to show. They come at any time, also after a turn has ended, and
 * a resumed session does without them.
 */
const BOOKKEEPING: ReadonlySet<string> = new Set(["queue-operation", "last-prompt", "mode", "cost-state"]);

export function isBookkeeping(row: TranscriptRow): boolean {
  return row.uuid === undefined && BOOKKEEPING.has(row.type);
}

/** `after` is the entry before it: a row without an id of its own gets one that a repeated write arrives at again. */
export function entryOf(row: TranscriptRow, stream: string, after: string | null): TranscriptEntry {
  const text = JSON.stringify(wellFormedJson(row));
  return {
    kind: "item",
    entryId: row.uuid ?? uuidFrom("row", stream, after ?? "", text),
    stream,
    body: new TextEncoder().encode(text),
  };
}

export function rowOf(entry: TranscriptEntry): TranscriptRow {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(entry.body));
  } catch (cause) {
    throw new PlatformError("transcript_corrupt", "A row of the transcript is not JSON.", { cause });
  }
  if (!isRow(value)) {
    throw new PlatformError("transcript_corrupt", "A row of the transcript is not one of the engine's.");
  }
  return value;
}

export function blocksOf(row: TranscriptRow): readonly ContentBlock[] {
  const content = row.message?.content;
  if (content === undefined) {
    return [];
  }
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

function isRow(value: unknown): value is TranscriptRow {
  if (typeof value !== "object" || value === null || !("type" in value) || typeof value.type !== "string") {
    return false;
  }
  const content = "message" in value && isObject(value.message) && "content" in value.message && value.message.content;
  return content === false || typeof content === "string" || (Array.isArray(content) && content.every(isBlock));
}

function isBlock(value: unknown): value is ContentBlock {
  return isObject(value) && "type" in value && typeof value.type === "string";
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
