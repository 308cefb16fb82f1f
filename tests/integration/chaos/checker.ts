/** Reads everything afterwards and says which promises were broken, and where. */
import { readCallFile } from "@signalbox/testkit";
import { until } from "../../setup/until.ts";
import type { Cast } from "./cast.ts";
import type { Conversation } from "./people.ts";

export interface Breach {
  readonly promise: string;
  readonly where: string;
}

export const SETTLED_MS = 90_000;
/**
 * An outcome belongs to its call, also after its run has ended. A gate that was killed last is known to be dead after its
 * lease of 10 s, judged by presence no sooner than one lease after the database came back, and swept within 2 s; one that
 * lives repeats a settlement every 2 s. The rest is for a busy machine.
 */
const CLOSED_MS = 40_000;
const TERMINAL = "('completed', 'cancelled', 'failed', 'rolled_back')";

/** INV-02: waits until every acknowledged message has ended, and says of each that has not what it waits for. */
export async function untilSettled(cast: Cast, boundMs: number): Promise<readonly Breach[]> {
  const open = (): Promise<readonly { readonly run: string }[]> => cast.query<{ run: string }>(OPEN_RUNS);
  try {
    await until("the end of every run", async () => (await open()).length === 0, boundMs);
    return [];
  } catch {
    return (await open()).map(({ run }) => ({ promise: "INV-02", where: run }));
  }
}

const OPEN_RUNS = `
  select r.id || ' is still ' || r.state || ', accepted at ' || r.accepted_at || ', attempt ' || r.attempt
      || case when r.cancel_requested_at is null then '' else ', cancelled at ' || r.cancel_requested_at end
      || ', generation ' || w.generation || ', owner '
      || coalesce(w.owner || case when p.dead_at is null then ' (alive, leased until ' || p.lease_until || ')'
                                  else ' (dead since ' || p.dead_at || ')' end, 'nobody')
      || ', ready at ' || coalesce(w.ready_at::text, 'no time') || '; its last events: '
      || coalesce((select string_agg(e.type || ' of ' || e.generation || ' at ' || e.at, ', ' order by e.sequence)
                   from (select * from signalbox.event o where o.conversation_id = r.conversation_id and o.run_id = r.id
                         order by o.sequence desc limit 6) e), 'none')
      || '; now ' || clock_timestamp() as run
  from signalbox.run r
  join signalbox.ownership w on w.conversation_id = r.conversation_id
  left join signalbox.process p on p.incarnation = w.owner
  where r.state not in ${TERMINAL}
  order by r.accepted_at`;

/** INV-13: waits until every call is closed, and says of each that is not what it is and whose. */
export async function untilClosed(cast: Cast): Promise<readonly Breach[]> {
  const open = (): Promise<readonly { readonly call: string }[]> => cast.query<{ call: string }>(OPEN_CALLS);
  try {
    await until("the outcome of every call", async () => (await open()).length === 0, CLOSED_MS);
    return [];
  } catch {
    return (await open()).map(({ call }) => ({ promise: "INV-13", where: call }));
  }
}

const OPEN_CALLS = `
  select o.kind || ' ' || o.id || ' (' || o.what || ') is ' || o.state || ' for '
      || round(extract(epoch from clock_timestamp() - o.started_at)) || ' s; gate ' || o.process || ' is '
      || case when p.incarnation is null then 'not known'
              when p.dead_at is null then 'alive, leased until ' || p.lease_until
              else 'dead since ' || p.dead_at end
      || '; ' || r.id || ' is ' || r.state || ' (' || coalesce(r.reason, 'no reason') || '), generation '
      || o.generation || ' of ' || w.generation || '; now ' || clock_timestamp() as call
  from (select 'tool call' as kind, id, name || ' ' || tool_use_id as what, state, process, run_id, generation, started_at
        from signalbox.tool_call where state = 'executing'
        union all
        select 'model call', id, requested_model, state, process, run_id, generation, started_at
        from signalbox.model_call where state = 'executing') o
  join signalbox.run r on r.id = o.run_id
  join signalbox.ownership w on w.conversation_id = r.conversation_id
  left join signalbox.process p on p.incarnation = o.process
  order by o.started_at`;

export async function check(cast: Cast, conversations: readonly Conversation[]): Promise<readonly Breach[]> {
  const breaches: Breach[] = [];
  for (const conversation of conversations) {
    const log = await wholeLog(cast, conversation.id);
    breaches.push(...sequences(conversation, log), ...endings(conversation, log), ...reading(conversation, log));
    breaches.push(...oneAtATime(conversation, log));
  }
  return [...breaches, ...(await effects(cast)), ...(await rows(cast))];
}

/** What the record itself keeps of an event. */
interface LogRow {
  readonly sequence: number;
  readonly revision: string;
  readonly type: string;
  readonly runId: string | null;
}

async function wholeLog(cast: Cast, id: string): Promise<readonly LogRow[]> {
  return cast.query<LogRow>(
    `select sequence::integer, revision::text, type, run_id as "runId" from signalbox.event
     where conversation_id = $1 order by sequence`,
    [id],
  );
}

function sequences({ id }: Conversation, log: readonly LogRow[]): readonly Breach[] {
  const wrong = log.findIndex((event, index) => event.sequence !== index + 1);
  return wrong < 0 ? [] : [{ promise: "INV-09", where: `${id}: ${log[wrong]?.sequence} stands at ${wrong + 1}` }];
}

function endings({ id, acknowledged }: Conversation, log: readonly LogRow[]): readonly Breach[] {
  const count = new Map<string, number>();
  for (const event of log) {
    if (event.type === "run.finished" && event.runId !== null) {
      count.set(event.runId, (count.get(event.runId) ?? 0) + 1);
    }
  }
  const lost = acknowledged.filter(({ runId }) => !count.has(runId));
  return [
    ...lost.map(({ runId }) => ({ promise: "INV-02", where: `${id}: ${runId} was acknowledged and has no end` })),
    ...[...count].filter(([, ends]) => ends > 1).map(([run]) => ({ promise: "INV-08", where: `${run} ended twice` })),
  ];
}

/**
 * What a reader was told durably is what the log says, in order and nothing twice. Only parts of a text may be left out:
 * a client skips those whose text it has already told.
 */
function reading({ id, read }: Conversation, log: readonly LogRow[]): readonly Breach[] {
  const breach = (where: string): readonly Breach[] => [{ promise: "INV-09", where: `${id}: ${where}` }];
  let before = 0;
  for (const event of read) {
    const sequence = event.sequence ?? 0;
    if (sequence <= before) return breach(`a reader got ${sequence} after ${before}`);
    const skipped = log.slice(before, sequence - 1).find((row) => !row.type.endsWith(".delta"));
    if (skipped !== undefined) return breach(`a reader did not get ${skipped.sequence}, ${skipped.type}`);
    if (String(event.revision) !== log[sequence - 1]?.revision) return breach(`${sequence} was told otherwise`);
    before = sequence;
  }
  return [];
}

/** INV-01, as far as the log shows it: a run starts only when the one before has ended. */
function oneAtATime({ id }: Conversation, log: readonly LogRow[]): readonly Breach[] {
  let active: string | null = null;
  for (const event of log) {
    if (event.type === "run.started" || event.type === "run.recovered") {
      if (active !== null && active !== event.runId) {
        return [{ promise: "INV-01", where: `${id}: ${event.runId} started while ${active} was active` }];
      }
      active = event.runId;
    }
    if (event.type === "run.finished" && event.runId === active) active = null;
  }
  return [];
}

/** INV-11: the tool with an effect names its message in each call; no message's call may have been executed twice. */
async function effects(cast: Cast): Promise<readonly Breach[]> {
  const count = new Map<string, number>();
  for (const call of await readCallFile(cast.callsFile)) {
    const note = JSON.stringify(call.input ?? null);
    if (call.tool === "count") count.set(note, (count.get(note) ?? 0) + 1);
  }
  return [...count]
    .filter(([, times]) => times > 1)
    .map(([note, times]) => ({
      promise: "INV-11",
      where: `${note} was executed ${times} times`,
    }));
}

/** What the rows themselves must say, whoever wrote them. */
async function rows(cast: Cast): Promise<readonly Breach[]> {
  const breaches: Breach[] = [];
  for (const [promise, text] of RULES) {
    for (const { id } of await cast.query<{ id: string }>(text)) breaches.push({ promise, where: id });
  }
  return breaches;
}

const RULES: readonly (readonly [string, string])[] = [
  ["INV-02", `select id from signalbox.run where state in ${TERMINAL} and reason is null`],
  // A call that was authorised after its conversation had already moved on to a later generation.
  [
    "INV-06",
    `select m.id from signalbox.model_call m
     join signalbox.event e on e.conversation_id = m.conversation_id and e.type in ('run.recovered', 'run.started')
     where e.generation > m.generation and e.at < m.started_at`,
  ],
  [
    "INV-05",
    `select e.conversation_id || ' ' || e.sequence as id from signalbox.event e
     join signalbox.event r on r.conversation_id = e.conversation_id and r.type in ('run.recovered', 'run.started')
     where r.generation > e.generation and r.sequence < e.sequence and e.generation > 0
       and e.type in ('text.delta', 'text.completed', 'thinking.delta', 'thinking.completed', 'turn.composed', 'run.phase')`,
  ],
];
