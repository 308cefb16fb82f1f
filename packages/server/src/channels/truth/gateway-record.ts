/** The ledger of the gateway's clients: each intent and each outcome is one call of one function. */
import { PlatformError } from "@signalbox/contract";
import type {
  AskedGatewayCall,
  ClientHistory,
  GatewayDenial,
  GatewayIntent,
  GatewayQuestion,
  GatewayRecord,
} from "@signalbox/core";
import { actorText } from "../../store/actor-text.ts";
import { askRecord, jsonText, type Queryable, type RecordValue } from "../../store/record-call.ts";
import {
  ASK_GATEWAY_CALL,
  ASKED_GATEWAY_CALL,
  BEGIN_ASKED_CALL,
  BEGIN_GATEWAY_CALL,
  CLIENT_HISTORY,
  CONTINUE_ASKED_CALL,
  NOTE_LATE_RESULT,
  REFUSE_ASKED_CALL,
  REFUSE_GATEWAY_CALL,
  SETTLE_GATEWAY_CALL,
  TIDY_GATEWAY_CALLS,
  WITHDRAW_ASKED_CALL,
} from "../../store/statements/gateway-statements.ts";
import type { Authority } from "./authority.ts";

/** Calls of one client that a person may be asked about at once. */
const ASKED_MAX = 100;

type Asked = AskedGatewayCall & { readonly kind: "asked" };
type Short = { readonly kind: "begun" } | { readonly kind: "none" };

/** `database` must connect as the role `signalbox_run`. */
export function createGatewayRecord({
  database,
  authority,
}: {
  readonly database: Queryable;
  readonly authority: Authority;
}): GatewayRecord {
  const demand = (process: number): void => {
    if (authority.holds(process)) return;
    throw new PlatformError("database_unavailable", "This gate has lost its presence in the record.");
  };
  return {
    async begin(intent) {
      demand(intent.process);
      const values = [...intentOf(intent), intent.isCounted, intent.asOf];
      return (await askRecord<{ readonly kind: "begun" | "judge" }>(database, BEGIN_GATEWAY_CALL, values)).kind;
    },
    async refuse(denial) {
      await askRecord(database, REFUSE_GATEWAY_CALL, denialOf(denial));
    },
    ask(question) {
      demand(question.process);
      const values = [...intentOf(question), question.callDigest, question.title, ASKED_MAX];
      return askRecord<Asked>(database, ASK_GATEWAY_CALL, values);
    },
    async asked({ callId, principal, callDigest }) {
      const values = [callId, principal, callDigest];
      const answer = await askRecord<Asked | { readonly kind: "none" }>(database, ASKED_GATEWAY_CALL, values);
      return answer.kind === "asked" ? answer : null;
    },
    async beginAsked({ callId, process, callDigest, policyVersion }) {
      demand(process);
      const values = [callId, process, callDigest, policyVersion];
      const answer = await askRecord<Asked | Short>(database, BEGIN_ASKED_CALL, values);
      if (answer.kind === "none") throw new PlatformError("not_found");
      return answer.kind === "begun" ? "begun" : answer;
    },
    async continueAsked({ callId, process, continues, principal, callDigest }) {
      demand(process);
      const values = [callId, process, continues, principal, callDigest];
      const answer = await askRecord<{ readonly kind: "begun" | "none" }>(database, CONTINUE_ASKED_CALL, values);
      return answer.kind === "begun";
    },
    async refuseAsked({ callId, code, reason }) {
      await askRecord(database, REFUSE_ASKED_CALL, [callId, code, reason]);
    },
    async withdrawAsked(callId, principal) {
      await askRecord(database, WITHDRAW_ASKED_CALL, [callId, principal]);
    },
    history: ({ principal, besides, windowMs, limit }) =>
      askRecord<ClientHistory>(database, CLIENT_HISTORY, [principal, besides, Math.round(windowMs), limit]),
    async settle({ callId, state, errorCode, resultJson, resultSummary }) {
      await askRecord(database, SETTLE_GATEWAY_CALL, [callId, state, errorCode, resultJson, resultSummary]);
    },
    async noteLate(callId, resultJson) {
      await askRecord(database, NOTE_LATE_RESULT, [callId, resultJson]);
    },
    tidy: ({ ageMs, limit }) => askRecord<number>(database, TIDY_GATEWAY_CALLS, [ageMs, limit]),
  };
}

function intentOf(intent: GatewayIntent | GatewayQuestion): readonly RecordValue[] {
  return [
    intent.callId,
    intent.tenantId,
    actorText(intent.actor),
    intent.principal,
    intent.process,
    intent.endpoint,
    intent.server,
    intent.tool,
    intent.effect,
    intent.definitionHash,
    intent.argumentsJson,
    intent.argumentsDigest,
    intent.traceId,
    intent.policyVersion,
    jsonOrNull(intent.judgement),
  ];
}

function denialOf(denial: GatewayDenial): readonly RecordValue[] {
  return [
    denial.callId,
    denial.tenantId,
    actorText(denial.actor),
    denial.principal,
    denial.endpoint,
    denial.server,
    denial.tool,
    denial.effect,
    denial.argumentsJson,
    denial.argumentsDigest,
    denial.code,
    denial.reason,
    denial.policyVersion,
    jsonOrNull(denial.judgement),
  ];
}

function jsonOrNull(value: unknown): string | null {
  return value === null ? null : jsonText(value);
}
