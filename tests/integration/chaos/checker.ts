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
const TERMINAL = "('completed', 'cancelled', 'failed', 'rolled_back')";

/** INV-02: waits until every acknowledged message has ended, and says which have not. */
export async function untilSettled(cast: Cast, boundMs: number): Promise<readonly Breach[]> {
  const open = () =>
    cast.query<{ id: string; state: string }>(`select id, state from signalbox.run where state not in ${TERMINAL}`);
  try {
    await until("the end of every run", async () => (await open()).length === 0, boundMs);
    return [];
  } catch {
    return (await open()).map(({ id, state }) => ({ promise: "INV-02", where: `${id} is still ${state}` }));
  }
}

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
  ["INV-13", "select id from signalbox.tool_call where state = 'executing'"],
  ["INV-13", "select id from signalbox.model_call where state = 'executing'"],
];
