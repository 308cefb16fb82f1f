/** Statements of the policy that is in place. */
import type { Actor, EffectClass, ToolCallState } from "@signalbox/contract";
import { sql, type RawBuilder } from "kysely";
import { call } from "./record-statements.ts";

export const CURRENT_POLICY = call("current_policy", 1);
export const RUN_FACTS = call("run_facts", 6);

/** A call that was recorded, and the run it belongs to. */
export interface RecordedCall {
  readonly toolCallId: string;
  readonly runId: string;
  readonly name: string;
  readonly server: string;
  readonly tool: string;
  readonly effect: EffectClass;
  readonly definitionHash: string | null;
  readonly argumentsJson: string;
  readonly state: ToolCallState;
  readonly proposedAtMs: number;
  readonly actor: Actor;
  readonly snapshotHash: string;
}

/** Calls of tools that the agent had, newest first, with the run they belong to: one, or those of the last days. */
export function recentCalls(which: {
  readonly toolCallId: string | null;
  /** Looked at where no call is named. */
  readonly days: number | null;
  readonly limit: number;
}): RawBuilder<RecordedCall> {
  const { toolCallId, days, limit } = which;
  return sql`select t.id as "toolCallId", t.run_id as "runId", t.name, t.server, t.tool, t.effect,
      t.definition_hash as "definitionHash", t.arguments as "argumentsJson", t.state,
      signalbox.unix_ms(t.proposed_at) as "proposedAtMs", r.actor::json as actor, r.snapshot_hash as "snapshotHash"
    from signalbox.tool_call t join signalbox.run r on r.id = t.run_id
    where t.server is not null and t.tool is not null and t.replay_of is null
      and case when ${toolCallId}::text is null
          then t.proposed_at >= signalbox.clock() - make_interval(days => ${days}::integer) else t.id = ${toolCallId} end
    order by t.proposed_at desc, t.ordinal desc
    limit ${limit}`;
}
