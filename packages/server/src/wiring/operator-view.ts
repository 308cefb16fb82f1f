/** Joins what operators see to the store. */
import { isTerminal, PlatformError, RUN_STATES, type Hold, type RunState, type Stop } from "@signalbox/contract";
import { explainRun } from "@signalbox/core";
import type { OperatorView } from "../api/operator-record.ts";
import type { HoldRow, OperatorQueries, RetryFacts, StopRow } from "../store/queries/operator-queries.ts";
import { timeOf, timeOrNull } from "./api-shapes.ts";
import { present } from "./present.ts";

export function createOperatorView(queries: OperatorQueries): OperatorView {
  return {
    hold: async (scope, id) => holdOf(present(await queries.hold(scope, id))),
    async holds(scope, { conversation, run, state, limit, order, cursor = null }) {
      const filter = {
        ...(conversation === null ? {} : { conversationId: conversation }),
        ...(run === null ? {} : { runId: run }),
        ...(state === null ? {} : { state }),
      };
      const page = await queries.holds(scope, { limit, order, cursor }, filter);
      return { data: page.items.map(holdOf), nextCursor: page.nextCursor };
    },
    stop: async (scope, id) => stopOf(present(await queries.stop(scope, id))),
    async stops(scope, { standing, about, limit, order, cursor = null }) {
      const page = await queries.stops(scope, { limit, order, cursor }, { standing, ...about });
      return { data: page.items.map(stopOf), nextCursor: page.nextCursor };
    },
    explanation: async (scope, runId) => explainRun(present(await queries.explained(scope, runId))),
    obligations: (scope, { olderThanMs, limit }) => queries.obligations(scope, olderThanMs, limit),
    obligationCounts: (scope, olderThanMs) => queries.obligationCounts(scope, olderThanMs),
    async again(scope, { runId, force }) {
      const facts = present(await queries.retryFacts(scope, runId));
      const refusal = refusedRetry(facts, force);
      if (refusal !== null) throw new PlatformError("command_refused", refusal);
      const { conversationId, text, metadata } = facts;
      return { conversationId, text, metadata };
    },
  };
}

/** Why this message is not to be answered again now, or `null`. */
function refusedRetry({ state, unknownCount }: RetryFacts, force: boolean): string | null {
  const known = RUN_STATES.find((each): each is RunState => each === state);
  if (known === undefined || !isTerminal(known)) return "The run has not ended; it may still be answered.";
  if (known === "completed") return "The run was answered; send a new message instead.";
  if (unknownCount > 0 && !force) {
    return "A call with an effect has an unknown outcome: answering again may repeat it. With force it is done all the same.";
  }
  return null;
}

function holdOf(row: HoldRow): Hold {
  const { decidedBy } = row;
  return {
    id: row.holdId,
    conversationId: row.conversationId,
    runId: row.runId,
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
