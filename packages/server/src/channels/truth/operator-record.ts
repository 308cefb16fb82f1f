/** What people decide about runs that exist, and what follows from it. */
import { PlatformError, type StopId } from "@signalbox/contract";
import type { Authorised, HoldChange, LiveChannel, Log, OperatorRecord } from "@signalbox/core";
import { actorText } from "../../store/actor-text.ts";
import { askRecord, jsonText, readRows, type Queryable, type RecordValue } from "../../store/record-call.ts";
import {
  CREATE_STOP,
  DECIDE_HOLD,
  EXPIRE_HOLD,
  FAIL_RUN,
  LEFT_TO_DO,
  LIFT_STOP,
  RECONCILE,
  RELEASE_RUN,
  RESUME_HOLD,
  STOP_RUN,
} from "../../store/statements/operator-statements.ts";
import type { RecordStatement } from "../../store/statements/record-statements.ts";

type Bells = Pick<LiveChannel, "ring" | "ringGates" | "ringSupervisors">;

export interface OperatorRecordParts {
  /** Connects as `signalbox_app`: what a caller asks for stays inside its tenant. */
  readonly requests: Queryable;
  /** Connects as `signalbox_run`: what stands is carried out for every tenant. */
  readonly sweeps: Queryable;
  readonly live: Bells;
  readonly log: Log;
}

interface Changed {
  /** `null` for the hold of a call that belongs to no run: whoever waits for it looks by itself. */
  readonly conversationId: string | null;
  readonly sequence: number;
  readonly ready?: boolean;
}

/** Who decides too late learns it as a refusal, and the hold is closed all the same. */
interface TooLate {
  readonly kind: keyof typeof TOO_LATE;
  readonly ready: boolean;
}

const TOO_LATE = {
  expired: "The hold has expired; nothing waits for it any more.",
  withdrawn: "The run is to end, so the hold was withdrawn; nothing waits for it any more.",
} as const;

export function createOperatorRecord(parts: OperatorRecordParts): OperatorRecord {
  const { requests, live } = parts;
  const change = async (statement: RecordStatement, values: readonly RecordValue[]): Promise<void> => {
    const changed = await askRecord<Changed>(requests, statement, values);
    ring(live, changed);
    if (changed.conversationId !== null) live.ringGates(changed.conversationId);
  };
  return {
    async decide(command) {
      const { holdId, decision, response, digest } = command;
      const given = response === undefined ? null : jsonText(response);
      const values = [...scopeOf(command), holdId, actorText(command.actor), decision, given, digest];
      const answer = await askRecord<Changed & (HoldChange | TooLate)>(requests, DECIDE_HOLD, values);
      ring(live, answer);
      if (answer.kind === "expired" || answer.kind === "withdrawn") {
        if (answer.ready) live.ringSupervisors();
        throw new PlatformError("hold_closed", TOO_LATE[answer.kind]);
      }
      return { kind: answer.kind, ready: answer.ready };
    },
    createStop(command) {
      const { stopId, kind, scope, subject, reason } = command;
      const values = [...scopeOf(command), stopId, kind, scope, subject, reason, actorText(command.actor)];
      return askRecord<{ readonly stopId: StopId; readonly created: boolean }>(requests, CREATE_STOP, values);
    },
    async liftStop({ tenantId, actor, stopId }) {
      await askRecord(requests, LIFT_STOP, [tenantId, stopId, actorText(actor)]);
    },
    carryOut: (limit) => carryOut({ database: parts.sweeps, live, log: parts.log }, limit),
    fail: (command) => change(FAIL_RUN, [...scopeOf(command), command.runId, actorText(command.actor), command.force]),
    reconcile: ({ toolCallId, outcome, resultJson, note, ...command }) =>
      change(RECONCILE, [...scopeOf(command), toolCallId, actorText(command.actor), outcome, resultJson, note]),
    release: (command) => change(RELEASE_RUN, [...scopeOf(command), command.runId, actorText(command.actor)]),
  };
}

function scopeOf({ tenantId, actor }: Authorised): readonly [string, string | null] {
  return [tenantId, actor.user];
}

function ring(live: Bells, { conversationId, sequence }: Changed): void {
  if (conversationId !== null) live.ring(conversationId, sequence);
}

const HOW: Readonly<Record<string, RecordStatement>> = { stop: STOP_RUN, resume: RESUME_HOLD, expire: EXPIRE_HOLD };

interface Sweep {
  readonly database: Queryable;
  readonly live: Bells;
  readonly log: Log;
}

/** Carries out what stands, one transaction each. What fails is left for the next sweep and keeps no other row. */
export async function carryOut({ database, live, log }: Sweep, limit: number): Promise<number> {
  const left = await readRows<{ readonly kind: string; readonly id: string }>(database, LEFT_TO_DO, [limit]);
  let moved = false;
  let doneCount = 0;
  for (const { kind, id } of left) {
    const statement = HOW[kind];
    if (statement === undefined) continue;
    try {
      const changed = await askRecord<Changed>(database, statement, [id]);
      ring(live, changed);
      if (kind === "stop" && changed.conversationId !== null) live.ringGates(changed.conversationId);
      moved ||= kind === "stop" || changed.ready === true;
      doneCount += 1;
    } catch (thrown) {
      log.error("what stands could not be carried out; the next sweep tries again", thrown, { kind, id });
    }
  }
  if (moved) live.ringSupervisors();
  return doneCount;
}
