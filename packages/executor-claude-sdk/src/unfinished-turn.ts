/**
 * A turn that another worker left in the engine's transcript. What was torn off at its end is cut, in the record as well;
 * calls without a result get the ledger's; then the engine goes on behind them. A turn in which the model has not come to
 * the end of any message has nothing to go on from.
 */
import { PlatformError, wellFormed } from "@signalbox/contract";
import { modelBlocks, type CallOutcome, type FoundCall, type LostCall, type SaidItem } from "@signalbox/worker";
import { uuidFrom } from "./stable-id.ts";
import { callsOf, damageBefore, ENDINGS, isLinked, resultsOf, type LinkedRow } from "./transcript-check.ts";
import { agentToolName } from "./tool-guard.ts";
import { blocksOf, type TranscriptRow } from "./transcript-row.ts";

export interface UnfinishedTurn {
  /** The rows to go on from: those before the turn, what is kept of it, and results that were added. */
  readonly rows: readonly TranscriptRow[];
  /** The last row of the turn that was kept: what stood behind it is cut. */
  readonly keptId: string;
  readonly isCut: boolean;
  readonly added: readonly TranscriptRow[];
  /** What the turn has said so far. */
  readonly said: readonly SaidItem[];
  /** Set when the turn had come to its end. */
  readonly answer: { readonly text: string; readonly stopReason: string; readonly servedModel: string } | null;
}

/** What is known of the turn's calls. */
export interface CallLedger {
  outcomes(toolUseIds: readonly string[]): Promise<readonly CallOutcome[]>;
  resultsOf(calls: readonly LostCall[]): Promise<readonly FoundCall[]>;
}

/** `before` are the rows of finished turns, `all` those of the turn. Throws `transcript_corrupt`. */
export async function repairTurn(
  before: readonly TranscriptRow[],
  all: readonly TranscriptRow[],
  ledger: CallLedger,
): Promise<UnfinishedTurn> {
  const rows = await withoutInvented(all, ledger);
  const begin = rows.findIndex((row, place) => isQuestion(row) && !isSeeded(row, place));
  const end = rows.findLastIndex((row, place) => place > begin && isKept(row, rows));
  const last = rows[end];
  if (begin < 0 || last === undefined || !isLinked(last)) {
    throw new PlatformError("transcript_corrupt", "The transcript has nothing of the turn to go on from.");
  }
  const kept = rows.slice(0, end + 1);
  const turn = kept.slice(begin);
  const added = await lostResults(turn, last, ledger);
  const repaired = [...before, ...kept, ...added];
  if (turn.slice(1).some((row) => isQuestion(row) && !wentOn(row))) {
    // Whether the record knows that it was taken in is not known here: with the turn run again it is answered once.
    throw new PlatformError("transcript_corrupt", "A message was handed in while the turn ran.");
  }
  const damage = damageBefore(repaired);
  if (damage !== "") {
    throw new PlatformError("transcript_corrupt", `The transcript is not whole: ${damage}.`);
  }
  return {
    rows: repaired,
    keptId: last.uuid,
    isCut: end + 1 < all.length,
    added,
    said: turn.flatMap((row) => saidIn(row)),
    answer: added.length === 0 ? answerIn(turn, last) : null,
  };
}

/** What a person said; results of tools and marks of an interrupt are rows of the user's too. */
function isQuestion(row: TranscriptRow): boolean {
  return isLinked(row) && row.type === "user" && resultsOf(row).length === 0;
}

/** The engine's own word when it goes on with a turn that was left. */
const WENT_ON = "Continue from where you left off.";

function wentOn(row: TranscriptRow): boolean {
  return blocksOf(row).every((block) => block.text === WENT_ON);
}

/** A row that a rebuilt session began with. */
function isSeeded(row: TranscriptRow, place: number): boolean {
  return row.uuid === uuidFrom("seed", row.sessionId ?? "", String(place));
}

/** Rows that stand: results, and messages of the model that came to their end. */
function isKept(row: TranscriptRow, rows: readonly TranscriptRow[]): boolean {
  if (!isLinked(row)) {
    return false;
  }
  return row.type === "user" ? resultsOf(row).length > 0 : row.type === "assistant" && isWhole(row, rows);
}

/** The gate hands out calls only when their message is whole; a message without any says itself how it ended. */
function isWhole(row: LinkedRow, rows: readonly TranscriptRow[]): boolean {
  const id = row.message?.id;
  const parts = rows.filter((each) => each.type === "assistant" && each.message?.id === id);
  return (
    row.isApiErrorMessage !== true &&
    (parts.some((each) => callsOf(each).length > 0) || ENDINGS.has(row.message?.stop_reason ?? ""))
  );
}

/**
 * An engine whose gate is gone answers its call itself, with an error. Where the ledger does not know how a call ended its
 * row is worth nothing, and so is what the engine said to it.
 */
async function withoutInvented(rows: readonly TranscriptRow[], ledger: CallLedger): Promise<readonly TranscriptRow[]> {
  const answered = rows.flatMap((row) => resultsOf(row));
  const outcomes = answered.length === 0 ? [] : await ledger.outcomes(answered);
  const open = new Set(outcomes.filter(({ state }) => state === "unknown").map(({ toolUseId }) => toolUseId));
  const invented = rows.findIndex((row) => resultsOf(row).some((id) => open.has(id)));
  return invented < 0 ? rows : rows.slice(0, invented);
}

async function lostResults(
  turn: readonly TranscriptRow[],
  last: LinkedRow,
  ledger: CallLedger,
): Promise<readonly TranscriptRow[]> {
  const known = new Set(turn.flatMap((row) => resultsOf(row)));
  const open = turn.flatMap((row) => lostCallsOf(row, known));
  const found = await ledger.resultsOf(open.map(({ call }) => call));
  const parents = new Map(turn.flatMap((row) => (isLinked(row) ? [[row.uuid, row.parentUuid] as const] : [])));
  let leaf = last.uuid;
  return found.map(({ toolUseId: id, outcome }, place) => {
    const row = open[place]?.row ?? last;
    // Calls made side by side hang from each other, and a result from its call: none may end up outside of the chain.
    const parentUuid = isAbove(row.uuid, leaf, parents) ? leaf : (row.uuid ?? leaf);
    const blocks = modelBlocks(outcome.content);
    const result = { tool_use_id: id, type: "tool_result", content: blocks, is_error: outcome.isError };
    const uuid = uuidFrom("outcome", row.sessionId ?? "", id);
    const { message: _message, ...envelope } = row;
    const added = {
      ...envelope,
      parentUuid,
      type: "user",
      uuid,
      message: { role: "user", content: [result] },
      toolUseResult: blocks,
      sourceToolAssistantUUID: row.uuid,
    };
    parents.set(uuid, parentUuid);
    leaf = uuid;
    return added;
  });
}

function lostCallsOf(
  row: TranscriptRow,
  known: ReadonlySet<string>,
): readonly { readonly call: LostCall; readonly row: TranscriptRow }[] {
  const lost = new Set(callsOf(row).filter((id) => !known.has(id)));
  return blocksOf(row).flatMap(({ id = "", name = "", input = {} }) =>
    lost.has(id) ? [{ call: { toolUseId: id, name: agentToolName(name), input }, row }] : [],
  );
}

/** Whether the chain from `leaf` upwards passes this row. */
function isAbove(id: string | undefined, leaf: string, parents: ReadonlyMap<string, string | null>): boolean {
  let at: string | null | undefined = leaf;
  for (let count = 0; at !== undefined && at !== null && count <= parents.size; count += 1) {
    if (at === id) {
      return true;
    }
    at = parents.get(at);
  }
  return false;
}

function saidIn(row: TranscriptRow): readonly SaidItem[] {
  if (row.type !== "assistant" || row.isApiErrorMessage === true) {
    return [];
  }
  return blocksOf(row).flatMap((block): readonly SaidItem[] => {
    const text = wellFormed((block.type === "thinking" ? block.thinking : block.text) ?? "");
    return text === "" || (block.type !== "text" && block.type !== "thinking") ? [] : [{ kind: block.type, text }];
  });
}

function answerIn(turn: readonly TranscriptRow[], last: LinkedRow): UnfinishedTurn["answer"] {
  const { id, stop_reason: stopReason, model: servedModel = "" } = last.message ?? {};
  if (last.type !== "assistant" || !ENDINGS.has(stopReason ?? "") || callsOf(last).length > 0) {
    return null;
  }
  const text = turn
    .filter((row) => row.message?.id === id)
    .flatMap((row) => saidIn(row))
    .map((item) => (item.kind === "text" ? item.text : ""))
    .join("");
  return { text, stopReason: stopReason ?? "", servedModel };
}
