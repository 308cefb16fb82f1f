/** The ledger of the gateway's clients: each intent and each outcome is one call of one function. */
import { PlatformError } from "@signalbox/contract";
import type { GatewayRecord } from "@signalbox/core";
import { actorText } from "../../store/actor-text.ts";
import { askRecord, type Queryable } from "../../store/record-call.ts";
import {
  BEGIN_GATEWAY_CALL,
  NOTE_LATE_RESULT,
  REFUSE_GATEWAY_CALL,
  SETTLE_GATEWAY_CALL,
  TIDY_GATEWAY_CALLS,
} from "../../store/statements/record-statements.ts";
import type { Authority } from "./authority.ts";

/** `database` must connect as the role `signalbox_run`. */
export function createGatewayRecord({
  database,
  authority,
}: {
  readonly database: Queryable;
  readonly authority: Authority;
}): GatewayRecord {
  return {
    async begin(intent) {
      if (!authority.holds(intent.process)) {
        throw new PlatformError("database_unavailable", "This gate has lost its presence in the record.");
      }
      await askRecord(database, BEGIN_GATEWAY_CALL, [
        intent.callId,
        intent.tenantId,
        actorText(intent.actor),
        intent.process,
        intent.endpoint,
        intent.server,
        intent.tool,
        intent.effect,
        intent.definitionHash,
        intent.argumentsJson,
        intent.argumentsDigest,
        intent.traceId,
      ]);
    },
    async refuse(denial) {
      await askRecord(database, REFUSE_GATEWAY_CALL, [
        denial.callId,
        denial.tenantId,
        actorText(denial.actor),
        denial.endpoint,
        denial.server,
        denial.tool,
        denial.effect,
        denial.argumentsJson,
        denial.argumentsDigest,
        denial.code,
        denial.reason,
      ]);
    },
    async settle({ callId, state, errorCode, resultJson, resultSummary }) {
      await askRecord(database, SETTLE_GATEWAY_CALL, [callId, state, errorCode, resultJson, resultSummary]);
    },
    async noteLate(callId, resultJson) {
      await askRecord(database, NOTE_LATE_RESULT, [callId, resultJson]);
    },
    tidy: ({ ageMs, limit }) => askRecord<number>(database, TIDY_GATEWAY_CALLS, [ageMs, limit]),
  };
}
