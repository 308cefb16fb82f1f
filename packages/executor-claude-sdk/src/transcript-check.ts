/**
 * Whether a transcript is whole. The engine resumes a broken one without a word: a missing row makes it join two
 * questions and forget an answer, a forked one makes it follow one branch. So it is checked here, before the engine
 * sees it, and a broken one is never resumed.
 */
import { blocksOf, isCompaction, type TranscriptRow } from "./transcript-row.ts";

/** Empty when whole, otherwise what is wrong with it. */
export type Damage =
  | ""
  | "empty"
  | "conflicting row"
  | "missing row"
  | "forked"
  | "call without result"
  | "result without call"
  | "unfinished turn";

export const ENDINGS: ReadonlySet<string> = new Set(["end_turn", "stop_sequence", "max_tokens", "refusal"]);
const INTERRUPTED = "[Request interrupted by user";

export interface LinkedRow extends TranscriptRow {
  readonly uuid: string;
  readonly parentUuid: string | null;
}

export function damageOf(rows: readonly TranscriptRow[]): Damage {
  const { damage, upwards } = examine(rows);
  return damage || (endsWell(upwards) ? "" : "unfinished turn");
}

/** The same for a transcript whose last turn is still to be gone on with. */
export function damageBefore(rows: readonly TranscriptRow[]): Damage {
  return examine(rows).damage;
}

/** `upwards` are the rows from the last one to the first. */
function examine(rows: readonly TranscriptRow[]): { readonly damage: Damage; readonly upwards: readonly LinkedRow[] } {
  const byId = new Map<string, LinkedRow>();
  for (const row of rows.filter((each) => isLinked(each))) {
    const known = byId.get(row.uuid);
    if (known !== undefined && known.parentUuid !== row.parentUuid) {
      return { damage: "conflicting row", upwards: [] };
    }
    byId.set(row.uuid, known ?? row);
  }
  const linked = [...byId.values()];
  const leaf = linked.at(-1);
  if (leaf === undefined) {
    return { damage: "empty", upwards: [] };
  }
  const chain = chainTo(leaf, byId);
  if (chain === null) {
    return { damage: "missing row", upwards: [] };
  }
  // What was compacted is no longer sent to the model; only what came after it has to hold together.
  const current = linked.slice(
    Math.max(
      0,
      linked.findLastIndex((row) => isCompaction(row)),
    ),
  );
  return { damage: branchDamage(current, chain) || callDamage(linked, current), upwards: [...chain] };
}

export function isLinked(row: TranscriptRow): row is LinkedRow {
  return row.uuid !== undefined && row.parentUuid !== undefined && row.isSidechain !== true;
}

/** From the leaf up to the first row, or `null` when a row between them is missing. */
function chainTo(leaf: LinkedRow, byId: ReadonlyMap<string, LinkedRow>): ReadonlySet<LinkedRow> | null {
  const chain = new Set<LinkedRow>();
  let row: LinkedRow | undefined = leaf;
  while (row !== undefined && !chain.has(row)) {
    chain.add(row);
    if (row.parentUuid === null) {
      return chain;
    }
    row = byId.get(row.parentUuid);
  }
  return null;
}

/**
 * Results of calls made side by side hang from the row of their call, and an error the engine shows to its user hangs
 * beside the conversation. Any other spoken row outside the chain is a second branch.
 */
function branchDamage(current: readonly LinkedRow[], chain: ReadonlySet<LinkedRow>): Damage {
  const calls = new Set([...chain].flatMap((row) => callsOf(row)));
  const isBeside = (row: LinkedRow): boolean => {
    if (row.type === "user") {
      return blocksOf(row).every((block) => block.type === "tool_result" && calls.has(block.tool_use_id ?? ""));
    }
    return row.type === "assistant" ? row.isApiErrorMessage === true : row.parentUuid !== null || isCompaction(row);
  };
  return current.every((row) => chain.has(row) || isBeside(row)) ? "" : "forked";
}

function callDamage(all: readonly LinkedRow[], current: readonly LinkedRow[]): Damage {
  const results = new Set(all.flatMap((row) => resultsOf(row)));
  if (current.some((row) => callsOf(row).some((id) => !results.has(id)))) {
    return "call without result";
  }
  const calls = new Set(all.flatMap((row) => callsOf(row)));
  return current.some((row) => resultsOf(row).some((id) => !calls.has(id))) ? "result without call" : "";
}

export function callsOf(row: TranscriptRow): readonly string[] {
  if (row.type !== "assistant") {
    return [];
  }
  return blocksOf(row).flatMap((block) => (block.type === "tool_use" ? [block.id ?? ""] : []));
}

export function resultsOf(row: TranscriptRow): readonly string[] {
  return blocksOf(row).flatMap((block) => (block.type === "tool_result" ? [block.tool_use_id ?? ""] : []));
}

/** A turn ends with an answer, with an error the engine reported, or with the mark of an interrupt. */
function endsWell(upwards: readonly LinkedRow[]): boolean {
  const last = upwards.find((row) => row.type === "assistant" || row.type === "user");
  if (last?.type === "user") {
    return blocksOf(last).some((block) => block.text?.startsWith(INTERRUPTED) === true);
  }
  return last?.isApiErrorMessage === true || ENDINGS.has(last?.message?.stop_reason ?? "");
}
