/** Statements of operators: holds, pauses and stops, and what the record owes. */
import { sql, type RawBuilder, type SqlBool } from "kysely";
import type { ExplainedFacts } from "@signalbox/core";
import type { HoldId, LedgerCall, Obligations, Wait } from "@signalbox/contract";
import { call } from "./record-statements.ts";

export const SUSPEND = call("suspend", 2);
export const OPEN_HOLD = call("open_hold", 7);
export const HOLD_OVER = call("hold_over", 2);
export const DECIDE_HOLD = call("decide_hold", 7);
export const CREATE_STOP = call("create_stop", 8);
export const LIFT_STOP = call("lift_stop", 3);
export const FAIL_RUN = call("fail_run", 5);
export const RECONCILE = call("reconcile_tool_call", 7);
export const RELEASE_RUN = call("release_run", 4);

export const STOP_RUN = call("stop_run", 1);
export const RESUME_HOLD = call("resume_hold", 1);
export const EXPIRE_HOLD = call("expire_hold", 1);

/**
 * What stands and is not carried out: runs under a stop, those that wait before those they wait for, so that the end of
 * one does not let the next begin, and without those that end with another; holds of lifted pauses; holds that are overdue.
 */
export const LEFT_TO_DO = {
  name: "left_to_do",
  text: `(select 'stop' as kind, r.id
      from signalbox.run r
      where r.tenant_id in (select s.tenant_id from signalbox.stop s where s.kind = 'stop' and s.lifted_at is null)
        and r.finished_at is null and r.cancel_requested_at is null and r.consumed_at is null
        and r.state in ('queued', 'admitted', 'running', 'suspended')
        and exists (select from signalbox.stops_over(r.tenant_id, r.agent_id, r.conversation_id, r.id) o
                    where o.kind = 'stop')
      order by r.state <> 'queued', r.position desc limit $1)
    union all
    (select 'resume', h.id from signalbox.hold h join signalbox.stop s on s.id = h.subject ->> 'stopId'
      where h.state = 'open' and h.kind = 'operator' and s.lifted_at is not null limit $1)
    union all
    (select 'expire', h.id from signalbox.hold h
      where h.state = 'open' and h.expires_at is not null and h.expires_at <= signalbox.clock()
      order by h.expires_at limit $1)`,
} as const;

/** The hold of a call that a client carries out, for whoever may see its conversation. */
export function clientHoldOf(
  toolCallId: string,
  viewer: { readonly tenantId: string; readonly user: string | null },
): RawBuilder<{ readonly id: HoldId | null }> {
  return sql<{ readonly id: HoldId | null }>`
    select signalbox.client_hold(${viewer.tenantId}, ${viewer.user}, ${toolCallId}) as id`;
}

/** Whether `signalbox.hold as hold` is about a conversation of this end user, joined to it, or about a call of theirs. */
export function reachedHold(user: string): RawBuilder<SqlBool> {
  return sql<SqlBool>`(conversation.participant = ${user} or exists (
    select from signalbox.gateway_call g
    where g.id = hold.gateway_call_id and g.actor::json ->> 'user' = ${user}))`;
}

/** Whether `signalbox.stop as stop` is about a conversation of this end user, or about a run in one. */
export function reachedStop(user: string): RawBuilder<SqlBool> {
  return sql<SqlBool>`exists (
    select from signalbox.conversation c
    where c.participant = ${user} and c.id = case stop.scope
      when 'conversation' then stop.subject
      when 'run' then (select r.conversation_id from signalbox.run r where r.id = stop.subject) end)`;
}

/** What the run with this id waits for. */
export function waitingFor(run: "run.id" | "active.id"): RawBuilder<readonly Wait[]> {
  return sql<readonly Wait[]>`signalbox.waiting_for(${sql.ref(run)})`;
}

/** What the active run of `signalbox.conversation as conversation` waits for. */
export function activeRunWaitsFor(): RawBuilder<readonly Wait[]> {
  return sql<readonly Wait[]>`coalesce((
    select ${waitingFor("active.id")} from signalbox.run as active
    where active.conversation_id = conversation.id
      and active.state in ('admitted', 'running', 'suspended', 'finalizing')), '[]'::json)`;
}

/** Everything that says why a run does not move. */
export function runFacts(runId: string, user: string | null): RawBuilder<{ readonly facts: ExplainedFacts }> {
  return sql`select json_build_object(
    'runId', r.id, 'conversationId', r.conversation_id, 'state', r.state, 'generation', coalesce(r.generation, 0),
    'attempt', r.attempt, 'runtime', r.runtime,
    'since', signalbox.rfc3339(case r.state
      when 'queued' then r.accepted_at when 'admitted' then coalesce(o.ready_at, r.accepted_at)
      when 'running' then r.started_at when 'suspended' then r.suspended_at
      when 'finalizing' then coalesce(r.sealed_at, c.updated_at) else r.finished_at end),
    'owner', (select json_build_object(
        'process', p.incarnation,
        'leaseAgeMs', signalbox.unix_ms(signalbox.clock()) - signalbox.unix_ms(p.heartbeat_at),
        'leaseHeld', p.lease_until > signalbox.clock(),
        'present', exists (select from pg_locks l where l.locktype = 'advisory' and l.granted
                             and l.classid = signalbox.presence_space()::oid and l.objid = p.incarnation::oid),
        'dead', p.dead_at is not null)
      from signalbox.process p where p.incarnation = r.owner and r.finished_at is null),
    'cancelRequestedAt', signalbox.rfc3339(r.cancel_requested_at),
    'waitingFor', signalbox.waiting_for(r.id),
    'openCalls', coalesce((
      select json_agg(json_build_object('id', call.id, 'kind', call.kind, 'name', call.name,
                                        'since', signalbox.rfc3339(call.started_at), 'gate', call.process,
                                        'gateDead', not signalbox.process_lives(call.process)) order by call.started_at)
      from (select m.id, 'model' as kind, m.requested_model as name, m.started_at, m.process
            from signalbox.model_call m where m.run_id = r.id and m.state = 'executing'
            union all
            select t.id, 'tool', t.name, t.started_at, t.process
            from signalbox.tool_call t where t.run_id = r.id and t.state = 'executing') as call), '[]'),
    'queuePlace', case when r.state = 'queued' and r.consumed_at is null then (
      select count(*) from signalbox.run b
      where b.conversation_id = r.conversation_id and b.finished_at is null and b.consumed_at is null
        and b.position < r.position) end,
    'stops', coalesce((
      select json_agg(json_build_object('id', s.id, 'kind', s.kind, 'scope', s.scope) order by s.id)
      from signalbox.stops_over(r.tenant_id, r.agent_id, r.conversation_id, r.id) s), '[]')) as facts
    from signalbox.run r
    join signalbox.conversation c on c.id = r.conversation_id
    join signalbox.ownership o on o.conversation_id = r.conversation_id
    where r.id = ${runId} and (${user}::text is null or c.participant = ${user})`;
}

/** What was recorded and is not confirmed, oldest first. */
export function obligationsOlderThan(
  ageMs: number,
  who: { readonly user: string | null; readonly limit: number },
): RawBuilder<Obligations["data"][number]> {
  return sql`select o.kind, o.id, o.conversation_id as "conversationId", o.run_id as "runId",
      signalbox.rfc3339(o.since) as since, signalbox.unix_ms(signalbox.clock()) - signalbox.unix_ms(o.since) as "ageMs"
    from ${owed(ageMs, who.user)} order by o.since limit ${who.limit}`;
}

/** How many of each kind there are. */
export function countObligations(
  ageMs: number,
  user: string | null,
): RawBuilder<{ readonly kind: string; readonly count: number }> {
  return sql`select o.kind, count(*)::integer as count from ${owed(ageMs, user)} group by o.kind`;
}

/** Obligations older than this, of the tenant or of one end user, as a table `o`. */
function owed(ageMs: number, user: string | null): RawBuilder<unknown> {
  return sql`(
      select owed.* from (
        select 'model_call' as kind, m.id, m.conversation_id, m.run_id, m.started_at as since
        from signalbox.model_call m where m.state = 'executing'
        union all
        select 'tool_call', t.id, t.conversation_id, t.run_id, t.started_at
        from signalbox.tool_call t where t.state = 'executing'
        union all
        select case r.state when 'admitted' then 'admitted_run' else 'finalizing_run' end, r.id, r.conversation_id,
               r.id, case r.state when 'admitted' then coalesce(w.ready_at, r.accepted_at)
                         else coalesce(r.sealed_at, c.updated_at) end
        from signalbox.run r
        join signalbox.ownership w on w.conversation_id = r.conversation_id
        join signalbox.conversation c on c.id = r.conversation_id
        where r.finished_at is null and r.state in ('admitted', 'finalizing')
        union all
        select 'overdue_hold', h.id, h.conversation_id, h.run_id, h.expires_at
        from signalbox.hold h where h.state = 'open' and h.expires_at <= signalbox.clock()) as owed
      join signalbox.conversation c
        on c.id = owed.conversation_id and (${user}::text is null or c.participant = ${user})
      where owed.since <= signalbox.clock() - make_interval(secs => ${ageMs} / 1000.0)) as o`;
}

/** What a person said with a run. */
export function saidWith(
  runId: string,
  user: string | null,
): RawBuilder<{
  readonly conversationId: string;
  readonly text: string;
  readonly metadata: Readonly<Record<string, string>>;
}> {
  return sql`select r.conversation_id as "conversationId", m.text, m.metadata
    from signalbox.run r
    join signalbox.message m on m.tenant_id = r.tenant_id and m.id = r.message_id
    join signalbox.conversation c on c.id = r.conversation_id
    where r.id = ${runId} and (${user}::text is null or c.participant = ${user})`;
}

/** A call with everything the ledger keeps of it, as documents show it; nothing for what the viewer may not see. */
export function ledgerCall(toolCallId: string, user: string | null): RawBuilder<{ readonly call: LedgerCall }> {
  return sql`select json_build_object('id', t.id, 'conversationId', t.conversation_id, 'runId', t.run_id,
      'toolUseId', t.tool_use_id, 'name', t.name, 'title', t.title, 'server', t.server, 'tool', t.tool,
      'effect', t.effect, 'state', t.state, 'arguments', t.arguments::json,
      'editedArguments', t.edited_arguments::json, 'definitionHash', t.definition_hash, 'verdict', t.verdict,
      'policyVersion', t.policy_version, 'rules', coalesce(t.judgement -> 'rules', '[]'), 'approvalId', t.hold_id,
      'result', nullif(t.result, '')::json, 'denial', t.denial, 'errorCode', t.error_code, 'replayOf', t.replay_of,
      'attempt', t.attempt, 'proposedAt', signalbox.rfc3339(t.proposed_at), 'startedAt', signalbox.rfc3339(t.started_at),
      'finishedAt', signalbox.rfc3339(t.finished_at),
      'reconciliation', case when t.reconciled_at is not null then json_build_object(
        'by', json_build_object('keyId', t.reconciled_by::json ->> 'keyId', 'user', t.reconciled_by::json ->> 'user'),
        'at', signalbox.rfc3339(t.reconciled_at), 'note', t.reconciliation_note) end) as call
    from signalbox.tool_call t join signalbox.conversation c on c.id = t.conversation_id
    where t.id = ${toolCallId} and (${user}::text is null or c.participant = ${user})`;
}
