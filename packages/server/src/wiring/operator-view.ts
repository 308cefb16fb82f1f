/** Joins what operators see to the store. */
import type { Hold, Stop } from "@signalbox/contract";
import { explainRun } from "@signalbox/core";
import type { OperatorView } from "../api/operator-record.ts";
import type { HoldRow, OperatorQueries, StopRow } from "../store/queries/operator-queries.ts";
import { timeOf, timeOrNull } from "./api-shapes.ts";
import { present } from "./present.ts";

export function createOperatorView(queries: OperatorQueries): OperatorView {
  return {
    hold: async (scope, id) => holdOf(present(await queries.hold(scope, id))),
    clientHold: async (scope, id) => present(await queries.clientHold(scope, id)),
    async holds(scope, { conversation, run, state, kind, limit, order, cursor = null }) {
      const filter = {
        ...(conversation === null ? {} : { conversationId: conversation }),
        ...(run === null ? {} : { runId: run }),
        ...(state === null ? {} : { state }),
        ...(kind === undefined ? {} : { kind }),
      };
      const page = await queries.holds(scope, { limit, order, cursor }, filter);
      return { data: page.items.map(holdOf), nextCursor: page.nextCursor };
    },
    toolCall: async (scope, id) => present(await queries.toolCall(scope, id)),
    stop: async (scope, id) => stopOf(present(await queries.stop(scope, id))),
    async stops(scope, { standing, about, limit, order, cursor = null }) {
      const page = await queries.stops(scope, { limit, order, cursor }, { standing, ...about });
      return { data: page.items.map(stopOf), nextCursor: page.nextCursor };
    },
    explanation: async (scope, runId) => explainRun(present(await queries.explained(scope, runId))),
    obligations: (scope, { olderThanMs, limit }) => queries.obligations(scope, olderThanMs, limit),
    obligationCounts: (scope, olderThanMs) => queries.obligationCounts(scope, olderThanMs),
    said: async (scope, runId) => present(await queries.said(scope, runId)),
  };
}

function holdOf(row: HoldRow): Hold {
  const { decidedBy } = row;
  return {
    id: row.holdId,
    conversationId: row.conversationId,
    runId: row.runId,
    gatewayCallId: row.gatewayCallId,
    kind: row.kind,
    subject: { ...row.subject },
    digest: row.digest,
    state: row.state,
    decision: row.decision,
    response: row.response,
    decidedBy: decidedBy === null ? null : { keyId: decidedBy.keyId, user: decidedBy.user },
    openedAt: timeOf(row.openedAtMs),
    expiresAt: timeOrNull(row.expiresAtMs),
    decidedAt: timeOrNull(row.decidedAtMs),
  };
}

function stopOf(row: StopRow): Stop {
  return {
    id: row.stopId,
    kind: row.kind,
    scope: row.scope,
    subject: row.subject,
    reason: row.reason,
    createdAt: timeOf(row.createdAtMs),
    liftedAt: timeOrNull(row.liftedAtMs),
  };
}
