/** Statements of the policy that is in place. */
import type { Actor, EffectClass, ToolCallState } from "@signalbox/contract";
import type { PastToolCall } from "@signalbox/core";
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

/** A call of a client of the gateway, and what the client called within this time before it, oldest first. */
export interface ClientCall extends Omit<RecordedCall, "runId" | "snapshotHash"> {
  readonly history: readonly Omit<PastToolCall, "name">[];
}

export function clientCall(which: {
  readonly gatewayCallId: string;
  readonly windowMs: number;
  readonly limit: number;
}): RawBuilder<ClientCall> {
  const { gatewayCallId, windowMs, limit } = which;
  return sql`select g.id as "toolCallId", g.server || '__' || g.tool as name, g.server, g.tool, g.effect,
      g.definition_hash as "definitionHash", g.arguments as "argumentsJson", g.state,
      signalbox.unix_ms(g.started_at) as "proposedAtMs", g.actor::json as actor,
      (select coalesce(json_agg(json_build_object('server', c.server, 'tool', c.tool, 'effect', c.effect,
                'state', c.state, 'arguments', coalesce(c.edited_arguments, c.arguments)::json,
                'atMs', signalbox.unix_ms(c.started_at)) order by c.started_at), '[]')
       from (select * from signalbox.gateway_call b
             where b.principal = g.principal and b.started_at < g.started_at
               and b.started_at > g.started_at - make_interval(secs => ${windowMs} / 1000.0)
             order by b.started_at desc limit ${limit}) c) as history
    from signalbox.gateway_call g where g.id = ${gatewayCallId}`;
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
