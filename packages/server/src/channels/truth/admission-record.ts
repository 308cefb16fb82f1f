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
import { actorText } from "../../store/actor-text.ts";
import { violatedConstraint } from "../../store/database-errors.ts";
import { askRecord, jsonText, type Queryable, type RecordValue } from "../../store/record-call.ts";
import type { SnapshotCache } from "../../store/snapshot-cache.ts";
import { ADMIT, REQUEST_CANCEL } from "../../store/statements/record-statements.ts";
import type { Authority } from "./authority.ts";
import { claimOf, type ClaimFacts } from "./claim-facts.ts";

export interface AdmissionRecordParts {
  /** Connects as `signalbox_app`. */
  readonly database: Queryable;
  readonly snapshots: SnapshotCache;
  readonly live: Pick<LiveChannel, "ring">;
  /** `null` in a process that drives no runs. */
  readonly authority: Authority | null;
}

export function createAdmissionRecord(parts: AdmissionRecordParts): AdmissionRecord {
  return {
    admit: (command) => admit(parts, command),
    requestCancel: (command) => requestCancel(parts, command),
  };
}

interface AdmitAnswer {
  readonly kind: "admitted" | "replayed";
  readonly messageId: MessageId;
  readonly runId: RunId;
  readonly accepted: "started" | "queued";
  readonly position: number;
  readonly cursor: number;
  readonly claim: ClaimFacts | null;
  readonly sequence?: number;
}

async function admit(parts: AdmissionRecordParts, command: AdmitCommand): Promise<Admission> {
  const { tenantId, conversationId, snapshot, snapshotHash } = command;
  const answer = await submit(parts, command);
  const { kind, messageId, runId, accepted, position, cursor, claim, sequence } = answer;
  if (kind === "admitted") {
    parts.snapshots.put(tenantId, snapshotHash, snapshot);
  }
  if (sequence !== undefined) {
    parts.live.ring(conversationId, sequence);
  }
  return {
    kind,
    messageId,
    runId,
    accepted,
    position,
    cursor,
    claim: claim === null ? null : claimOf(claim, snapshot),
  };
}

/** A snapshot travels once; when the record lost it since (a restore), it travels again. */
async function submit(parts: AdmissionRecordParts, command: AdmitCommand): Promise<AdmitAnswer> {
  const { tenantId, snapshotHash } = command;
  const known = parts.snapshots.has(tenantId, snapshotHash);
  const first = await ask(parts, command, !known);
  if (first !== "snapshot_missing") {
    return first;
  }
  parts.snapshots.forget(tenantId, snapshotHash);
  const second = await ask(parts, command, true);
  if (second === "snapshot_missing") {
    throw new PlatformError("internal", undefined, { cause: new Error("the record kept no snapshot") });
  }
  return second;
}

async function ask(
  { database, authority }: AdmissionRecordParts,
  command: AdmitCommand,
  withSnapshot: boolean,
): Promise<AdmitAnswer | "snapshot_missing"> {
  const { claimFor } = command;
  const claims = claimFor !== null && authority?.holds(claimFor) === true;
  try {
    const values = admitValues(command, { withSnapshot, claimFor: claims ? claimFor : null });
    const answer = await askRecord<AdmitAnswer | { readonly missing: true }>(database, ADMIT, values);
    return "missing" in answer ? "snapshot_missing" : answer;
  } catch (thrown) {
    const error = asPlatformError(thrown);
    if (violatedConstraint(error.cause) === "message_id" || violatedConstraint(error.cause) === "run_pkey") {
      // A client may choose its message's id; this one names another message already.
      throw new PlatformError("idempotency_key_reused", undefined, { cause: error });
    }
    throw error;
  }
}

function admitValues(
  command: AdmitCommand,
  how: { readonly withSnapshot: boolean; readonly claimFor: number | null },
): readonly RecordValue[] {
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
  ];
}

interface CancelAnswer {
  readonly kind: CancelOutcome["kind"];
  readonly state: RunState;
  readonly conversationId?: string;
  readonly sequence?: number;
}

async function requestCancel(parts: AdmissionRecordParts, command: CancelCommand): Promise<CancelOutcome> {
  const { tenantId, runId, actor } = command;
  const values = [tenantId, actor.user, runId, actorText(actor)];
  const { kind, state, conversationId, sequence } = await askRecord<CancelAnswer>(
    parts.database,
    REQUEST_CANCEL,
    values,
  );
  if (conversationId !== undefined && sequence !== undefined) {
    parts.live.ring(conversationId, sequence);
  }
  return { kind, state };
}
