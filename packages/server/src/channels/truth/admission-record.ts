/** Admission in PostgreSQL: message, run, key, audit and events are one call of one function. */
import { asPlatformError, PlatformError, type MessageId, type RunId, type RunState } from "@signalbox/contract";
import type {
  Admission,
  AdmissionRecord,
  AdmitCommand,
  CancelCommand,
  CancelOutcome,
  LiveChannel,
} from "@signalbox/core";
import type { BoundSlots } from "../../store/bound-slots.ts";
import { actorText } from "../../store/actor-text.ts";
import { violatedConstraint } from "../../store/database-errors.ts";
import { eventOf, type EventRow } from "../../store/queries/event-queries.ts";
import { askRecord, jsonText, type Queryable, type RecordValue } from "../../store/record-call.ts";
import type { SnapshotCache } from "../../store/snapshot-cache.ts";
import { ADMIT, REQUEST_CANCEL } from "../../store/statements/record-statements.ts";
import type { Authority } from "./authority.ts";
import { claimOf, type ClaimFacts } from "./claim-facts.ts";

export interface AdmissionRecordParts {
  /** Connects as `signalbox_app`. */
  readonly database: Queryable;
  readonly snapshots: SnapshotCache;
  readonly live: Pick<LiveChannel, "ring" | "ringGates">;
  /** `null` in a process that drives no runs. */
  readonly authority: Authority | null;
  /** The seat the run will most likely get here, so that its slot is bound with the claim. */
  readonly expectedSeat: (conversationId: string, runtime: string) => ExpectedSeat | null;
  readonly slots: Pick<BoundSlots, "note">;
}

export interface ExpectedSeat {
  readonly tokenHash: string;
  readonly workerId: string;
}

export function createAdmissionRecord(parts: AdmissionRecordParts): AdmissionRecord {
  return {
    admit: (command) => admit(parts, command),
    ...createCancelRecord(parts),
  };
}

/** What a cancel needs of the record, in whatever transaction `database` is. */
export function createCancelRecord(
  parts: Pick<AdmissionRecordParts, "database" | "live">,
): Pick<AdmissionRecord, "requestCancel"> {
  return { requestCancel: (command) => requestCancel(parts, command) };
}

interface AdmitAnswer {
  readonly kind: "admitted" | "replayed";
  readonly messageId: MessageId;
  readonly runId: RunId;
  readonly accepted: Admission["accepted"];
  readonly position: number;
  readonly cursor: number;
  readonly claim: ClaimFacts | null;
  /** Whether the expected seat's slot was bound to the claimed run. */
  readonly bound?: boolean;
  readonly sequence?: number;
  readonly events?: readonly EventRow[];
}

/** A message sent so ends the run it finds. */
const MAY_END_A_RUN: ReadonlySet<AdmitCommand["whenBusy"]> = new Set(["interrupt", "rollback"]);

async function admit(parts: AdmissionRecordParts, command: AdmitCommand): Promise<Admission> {
  const { tenantId, conversationId, snapshot, snapshotHash } = command;
  const claims = command.claimFor !== null && parts.authority?.holds(command.claimFor) === true;
  const seat = claims ? parts.expectedSeat(conversationId, snapshot.runtime) : null;
  const answer = await submit(parts, command, { claimFor: claims ? command.claimFor : null, seat });
  const { kind, messageId, runId, accepted, position, cursor, claim, sequence, events = [] } = answer;
  if (kind === "admitted") {
    parts.snapshots.put(tenantId, snapshotHash, snapshot);
  }
  if (sequence !== undefined) {
    parts.live.ring(conversationId, sequence);
    if (MAY_END_A_RUN.has(command.whenBusy)) parts.live.ringGates(conversationId);
  }
  if (claim !== null && seat !== null && answer.bound === true) {
    parts.slots.note(seat.tokenHash, { conversationId, generation: claim.generation, snapshot, snapshotHash });
  }
  return {
    kind,
    messageId,
    runId,
    accepted,
    position,
    cursor,
    claim: claim === null ? null : claimOf(claim, snapshot),
    events: events.map((row) => eventOf(row, conversationId)),
  };
}

/** Who claims the run in the same transaction, and the seat it will have; both `null` when nobody does. */
interface ForWhom {
  readonly claimFor: number | null;
  readonly seat: ExpectedSeat | null;
}

/** A snapshot travels once; when the record lost it since (a restore), it travels again. */
async function submit(parts: AdmissionRecordParts, command: AdmitCommand, forWhom: ForWhom): Promise<AdmitAnswer> {
  const { tenantId, snapshotHash } = command;
  const known = parts.snapshots.has(tenantId, snapshotHash);
  const first = await ask(parts, command, { ...forWhom, withSnapshot: !known });
  if (first !== "snapshot_missing") {
    return first;
  }
  parts.snapshots.forget(tenantId, snapshotHash);
  const second = await ask(parts, command, { ...forWhom, withSnapshot: true });
  if (second === "snapshot_missing") {
    throw new PlatformError("internal", undefined, { cause: new Error("the record kept no snapshot") });
  }
  return second;
}

async function ask(
  { database }: AdmissionRecordParts,
  command: AdmitCommand,
  how: ForWhom & { readonly withSnapshot: boolean },
): Promise<AdmitAnswer | "snapshot_missing"> {
  try {
    const values = admitValues(command, how);
    const answer = await askRecord<AdmitAnswer | { readonly missing: true }>(database, ADMIT, values);
    return "missing" in answer ? "snapshot_missing" : answer;
  } catch (thrown) {
    const error = asPlatformError(thrown);
    if (violatedConstraint(error.cause) === "message_id" || violatedConstraint(error.cause) === "run_pkey") {
      // A client may choose its message's id; this one names another message already.
      throw new PlatformError("idempotency_key_reused", undefined, { cause: error });
    }
    if (violatedConstraint(error.cause) === "operator_stopped") {
      throw new PlatformError("operator_stopped", undefined, { cause: error });
    }
    throw error;
  }
}

function admitValues(command: AdmitCommand, how: ForWhom & { readonly withSnapshot: boolean }): readonly RecordValue[] {
  const { snapshot, idempotency } = command;
  const { modelCallCount, toolCallCount, wallClockMs } = snapshot.limits;
  return [
    command.tenantId,
    command.conversationId,
    command.messageId,
    command.runId,
    actorText(command.actor),
    command.actor.user,
    command.text,
    jsonText(command.metadata),
    command.whenBusy,
    snapshot.agentId,
    snapshot.revision,
    snapshot.runtime,
    command.snapshotHash,
    how.withSnapshot ? jsonText(snapshot) : null,
    modelCallCount,
    toolCallCount,
    wallClockMs,
    jsonText(command.requested),
    jsonText(command.granted),
    command.traceId,
    idempotency?.key ?? null,
    idempotency?.bodyHash ?? null,
    command.queueLimit,
    how.claimFor,
    how.seat?.tokenHash ?? null,
    how.seat?.workerId ?? null,
    command.minuteLimit,
    command.tenantLimit,
    command.steerable,
  ];
}

interface CancelAnswer {
  readonly kind: CancelOutcome["kind"];
  readonly state: RunState;
  readonly conversationId?: string;
  readonly sequence?: number;
}

async function requestCancel(
  parts: Pick<AdmissionRecordParts, "database" | "live">,
  command: CancelCommand,
): Promise<CancelOutcome> {
  const { tenantId, runId, actor } = command;
  const values = [tenantId, actor.user, runId, actorText(actor)];
  const { kind, state, conversationId, sequence } = await askRecord<CancelAnswer>(
    parts.database,
    REQUEST_CANCEL,
    values,
  );
  if (conversationId !== undefined && sequence !== undefined) {
    parts.live.ring(conversationId, sequence);
    parts.live.ringGates(conversationId);
  }
  return { kind, state };
}
