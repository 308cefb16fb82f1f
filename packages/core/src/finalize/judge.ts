/**
 * Decides what is true once the gates are closed for a run: a provider's success is not ours until every check holds.
 * Pure: the conclusion of the turn and the sealed facts come in, the finalization goes out.
 */
import {
  errorObject,
  PlatformError,
  type CancelCause,
  type EndReason,
  type ErrorCode,
  type MessageId,
} from "@signalbox/contract";
import type { Claim, Conclusion, Finalization, Seal } from "../ports/ownership-record.ts";
import { endReason } from "./end-reason.ts";

export interface SealedTurn {
  readonly claim: Claim;
  readonly conclusion: Conclusion;
  readonly seal: Seal;
  /** Id of the answer, if there is one to keep. */
  readonly answerId: MessageId;
}

export function judge(turn: SealedTurn): Finalization {
  const { conclusion, seal } = turn;
  // A gate refuses under a stop also before the run is marked.
  const cause = seal.cancelCause ?? (conclusion.error?.code === "run_stopped" ? "operator_stop" : null);
  if (cause !== null) {
    return stopped(turn, cause);
  }
  const error = firstMiss(turn);
  if (error !== null) {
    return failed(turn, error);
  }
  return {
    ...whatHolds(turn),
    outcome: "completed",
    reason: "answered",
    error: null,
    answer: { messageId: turn.answerId, text: conclusion.answer, partial: false },
    ...continued(seal),
  };
}

/** The first check that a completed run does not pass, or `null`. An effect nobody can vouch for weighs most. */
function firstMiss(turn: SealedTurn): PlatformError | null {
  const { conclusion, seal } = turn;
  const checks: readonly (readonly [holds: boolean, code: ErrorCode, detail?: string | undefined])[] = [
    [seal.unknownToolCallCount === 0, "outcome_unknown"],
    [conclusion.error === null, conclusion.error?.code ?? "internal", conclusion.error?.detail],
    [seal.openToolCallCount === 0, "outcome_unknown", "A tool call of this run was still open when it ended."],
    [seal.openModelCallCount === 0, "provider_stream_broken", "A model call of this run was still open when it ended."],
    [conclusion.ending === "done", "engine_failed", "The engine stopped before the turn was over."],
    [conclusion.stopReason !== "max_tokens", "output_truncated"],
    [conclusion.stopReason !== "refusal", "refused"],
    [conclusion.answer.trim() !== "", "answer_missing"],
    [isTranscriptDurable(turn), "transcript_not_durable"],
  ];
  const miss = checks.find(([holds]) => !holds);
  return miss === undefined ? null : new PlatformError(miss[1], miss[2]);
}

/** The sealed leaf is the one the executor named; an executor that keeps no transcript leaves none behind. */
function isTranscriptDurable({ conclusion, seal }: SealedTurn): boolean {
  return conclusion.leaf === seal.leaf;
}

/** What there is of the answer is kept and marked. A turn that is struck leaves the transcript where it was before. */
function stopped(turn: SealedTurn, cause: CancelCause): Finalization {
  const { conclusion, seal } = turn;
  const text = conclusion.answer;
  const answer = text.trim() === "" ? null : { messageId: turn.answerId, text, partial: true };
  const agrees = conclusion.leaf !== null && conclusion.leaf === seal.leaf;
  return {
    ...whatHolds(turn),
    outcome: seal.strikes ? "rolled_back" : "cancelled",
    reason: cause,
    error: null,
    answer,
    ...(seal.strikes ? KEPT : agrees ? continued(seal) : answer === null ? KEPT : BROKEN),
  };
}

/** A gate may have heard of the mark before the owner did. */
const ENDED_BY_PEOPLE: ReadonlySet<EndReason> = new Set(["user_cancel", "operator_stop"]);

function failed(turn: SealedTurn, error: PlatformError): Finalization {
  const { conclusion, seal } = turn;
  const reason = endReason(error.code);
  // An answer that only ran out of room is worth keeping, marked.
  const keeps = reason === "output_truncated" && conclusion.answer.trim() !== "";
  const agrees = keeps && conclusion.leaf !== null && conclusion.leaf === seal.leaf;
  return {
    ...whatHolds(turn),
    outcome: ENDED_BY_PEOPLE.has(reason) ? "cancelled" : "failed",
    reason,
    error: errorObject(error),
    answer: keeps ? { messageId: turn.answerId, text: conclusion.answer, partial: true } : null,
    ...(agrees ? continued(seal) : keeps ? BROKEN : KEPT),
  };
}

const KEPT = { continuity: "kept", leaf: null, digest: null } as const;
/** The history gained what the transcript does not have, so the next turn may not resume it. */
const BROKEN = { continuity: "broken", leaf: null, digest: null } as const;

function continued(seal: Seal): Pick<Finalization, "continuity" | "leaf" | "digest"> {
  return seal.leaf === null ? KEPT : { continuity: "moved", leaf: seal.leaf, digest: seal.digest };
}

function whatHolds({ conclusion }: SealedTurn): Pick<Finalization, "rung" | "servedModel"> {
  return { rung: conclusion.rung, servedModel: conclusion.servedModel };
}
