/**
 * An intent becomes a record: a message becomes a run that begins, waits, or is refused; a cancel becomes a mark or an
 * ending. Nothing is answered before its record is committed, and nothing is started here: a run that was claimed on
 * the way is handed to the supervisor of this process, every other one is found by whoever has room.
 */
import { asPlatformError, makeId, uuidV7Bytes, type ErrorCode } from "@signalbox/contract";
import { LIMITS, type Limits } from "../kernel/limits.ts";
import type { Admission, AdmissionRecord, AdmitCommand, CancelOutcome } from "../ports/admission-record.ts";
import type { Clock } from "../ports/clock.ts";
import type { Handover, Reservation } from "../ports/handover.ts";
import type { LiveChannel } from "../ports/live.ts";
import type { Digest, Randomness } from "../ports/randomness.ts";
import { checkMessage } from "./bounds.ts";
import type { CancelIntent, MessageIntent, NewIds } from "./intent.ts";
import { narrow } from "./narrow.ts";
import { freezeSnapshot } from "./snapshot.ts";

export interface AdmissionPorts {
  readonly record: AdmissionRecord;
  /** The supervisor of this process; `null` in a process that drives no runs. */
  readonly handover: Handover | null;
  readonly live: Pick<LiveChannel, "ringSupervisors">;
  /** Runtimes whose engines can take in a message while they run. */
  readonly steerable: () => readonly string[];
  readonly clock: Pick<Clock, "nowMs">;
  readonly randomness: Randomness;
  readonly digest: Digest;
}

export interface AdmissionFlow {
  /**
   * Resolves once message and run are committed. Errors: those of the checks (`invalid_request`, `payload_too_large`,
   * `field_not_supported`, `field_unknown`, `model_not_granted`, each naming its field) and of the record.
   */
  submit(intent: MessageIntent): Promise<Admission>;
  /** Resolves once the mark or the ending is committed; after that no intent of the run commits. */
  cancel(intent: CancelIntent): Promise<CancelOutcome>;
}

export function createAdmission(ports: AdmissionPorts, limits: Limits = LIMITS): AdmissionFlow {
  return {
    async submit(intent) {
      const granted = narrow(intent);
      const message = checkMessage(intent, limits);
      const { snapshot, hash } = freezeSnapshot(intent.agent, limits, ports.digest);
      const reservation = ports.handover?.reserve(snapshot.runtime) ?? null;
      const command: AdmitCommand = {
        tenantId: intent.tenantId,
        conversationId: intent.conversationId,
        ...newIds(intent, ports),
        actor: intent.actor,
        ...message,
        whenBusy: granted.whenBusy,
        snapshot,
        snapshotHash: hash,
        requested: requestedOf(intent),
        granted: { ...granted },
        idempotency: intent.idempotency,
        queueLimit: limits.queueCount,
        minuteLimit: limits.messagesPerMinuteCount,
        tenantLimit: limits.tenantRunCount,
        steerable: ports.steerable(),
        claimFor: reservation?.process ?? null,
      };
      const admission = await admit(ports.record, command, reservation);
      if (hasNews(command, admission)) {
        ports.live.ringSupervisors();
      }
      return admission;
    },
    cancel: createCancel(ports),
  };
}

/** A cancel alone, over whatever carries its mark. */
export function createCancel({
  record,
  live,
}: {
  readonly record: Pick<AdmissionRecord, "requestCancel">;
  readonly live: Pick<LiveChannel, "ringSupervisors">;
}): AdmissionFlow["cancel"] {
  return async (intent) => {
    const outcome = await record.requestCancel(intent);
    if (outcome.kind === "ended" || outcome.kind === "requested") live.ringSupervisors();
    return outcome;
  };
}

/** Whether a supervisor has something to do: a run to claim, a mark to hear of, a message to offer. */
function hasNews(command: AdmitCommand, { kind, accepted, claim }: Admission): boolean {
  const ends = command.whenBusy === "interrupt" || command.whenBusy === "rollback";
  return kind === "admitted" && claim === null && (accepted !== "queued" || ends);
}

/** Asks the record, and settles the reservation whichever way it answers. */
async function admit(
  record: AdmissionRecord,
  command: AdmitCommand,
  reservation: Reservation | null,
): Promise<Admission> {
  let admission: Admission;
  try {
    admission = await record.admit(command);
  } catch (thrown) {
    if (isRefusal(asPlatformError(thrown).code)) {
      reservation?.free();
    } else {
      reservation?.doubt();
    }
    throw thrown;
  }
  if (admission.claim === null) {
    reservation?.free();
  } else {
    reservation?.take(admission.claim);
  }
  return admission;
}

const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  "not_found",
  "conversation_busy",
  "queue_full",
  "message_rate_exceeded",
  "too_many_runs",
  "idempotency_key_reused",
  "operator_stopped",
  "agent_disabled",
  "conversation_deleting",
]);

/** A refusal was decided by the record, so nothing was claimed; after any other error nobody can tell. */
function isRefusal(code: ErrorCode): boolean {
  return REFUSALS.has(code);
}

/** What the run shows as asked for. */
function requestedOf({ asked, retry }: MessageIntent): Readonly<Record<string, unknown>> {
  if (retry === undefined) return asked;
  return { ...asked, retryOf: retry.runId, ...(retry.force ? { retryForced: true } : {}) };
}

function newIds(intent: MessageIntent, ports: AdmissionPorts): NewIds {
  const id = (): Uint8Array => uuidV7Bytes(ports.clock.nowMs(), ports.randomness.bytes(10));
  return {
    messageId: intent.messageId ?? makeId("message", id()),
    runId: makeId("run", id()),
    traceId: intent.traceId ?? hex(ports.randomness.bytes(16)),
  };
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
