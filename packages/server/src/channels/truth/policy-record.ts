/** The policy that is in place, and what a run's calls are judged by. */
import type { KeptFacts, PolicyInPlace, PolicyRecord } from "@signalbox/core";
import { askRecord, jsonText, type Queryable } from "../../store/record-call.ts";
import { CURRENT_POLICY, RUN_FACTS } from "../../store/statements/policy-statements.ts";

/** What one judgement may read. */
const FACTS_LIMITS = { textChars: 64 * 1024, allTextChars: 512 * 1024, textCount: 400, historyCount: 1_000 } as const;

/** `database` connects as `signalbox_run`. */
export function createPolicyRecord(database: Queryable): PolicyRecord {
  return {
    async current(tenantId) {
      const answer = await askRecord<{ readonly policy: PolicyInPlace | null }>(database, CURRENT_POLICY, [tenantId]);
      return answer.policy;
    },
    facts({ runId, besides, needs, asOf }) {
      const values = [runId, besides, needs.sources, needs.history, asOf, jsonText(FACTS_LIMITS)];
      return askRecord<KeptFacts>(database, RUN_FACTS, values);
    },
  };
}
