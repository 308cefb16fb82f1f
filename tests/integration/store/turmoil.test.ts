import type { Proposal } from "@signalbox/core";
import { expect, it } from "vitest";
import {
  ACTOR,
  codeOf,
  commandFor,
  conclusionOf,
  finalizationOf,
  modelSettlement,
  newId,
  proposalOf,
  textEvent,
  TURN,
  type ConversationPlace,
} from "./record-parts.ts";
import { RecordWorld, type Bound, type RecordProcess } from "./record-world.ts";

const CONVERSATIONS = 3;
const ACTORS = 8;
const ACTIONS_EACH = 40;

/** What somebody may meet who comes too late; anything else is a defect. */
const EXPECTED = new Set([
  "accepted",
  "stale_generation",
  "slot_unknown",
  "run_cancelled",
  "queue_full",
  "conversation_busy",
  "not_found",
  "retries_exhausted",
  "tool_not_proposed",
  "tool_outcome_unknown",
  "transcript_not_durable",
]);

/** Mulberry32: the same seed gives the same choices, though not the same interleaving. */
function choices(seed: number): (count: number) => number {
  let state = seed;
  return (count) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % count;
  };
}

/** Everybody knows every ownership there ever was, and uses whichever comes to hand. */
class Turmoil {
  readonly held: { readonly process: RecordProcess; readonly bound: Bound }[] = [];
  readonly proposed: Proposal[] = [];
  readonly runs: {
    readonly tenantId: string;
    readonly runId: Parameters<RecordProcess["admission"]["requestCancel"]>[0]["runId"];
  }[] = [];
  readonly met = new Map<string, number>();

  readonly processes: readonly RecordProcess[];
  readonly places: readonly ConversationPlace[];

  constructor(processes: readonly RecordProcess[], places: readonly ConversationPlace[]) {
    this.processes = processes;
    this.places = places;
  }

  async act(choose: (count: number) => number): Promise<void> {
    const process = this.processes[choose(this.processes.length)]!;
    const place = this.places[choose(this.places.length)]!;
    const action = choose(12);
    const code = await codeOf(
      action < 3 ? this.admit(process, place, action === 0) : this.drive(action, process, choose),
    );
    this.met.set(code, (this.met.get(code) ?? 0) + 1);
  }

  async admit(process: RecordProcess, place: ConversationPlace, claims: boolean): Promise<void> {
    const claimFor = claims ? process.incarnation : null;
    const admission = await process.admission.admit(commandFor(place, { claimFor, queueLimit: 4 }));
    this.runs.push({ tenantId: place.tenantId, runId: admission.runId });
    if (admission.claim !== null) {
      await this.hold(process, process.owners.adopt(admission.claim));
    }
  }

  async hold(process: RecordProcess, ownership: Bound["ownership"]): Promise<void> {
    this.held.push({ process, bound: { ownership, tokenHash: "unbound" } });
    this.held.push({ process, bound: await process.bind(ownership) });
  }

  async drive(action: number, process: RecordProcess, choose: (count: number) => number): Promise<void> {
    if (action === 3) {
      for (const ownership of await process.claim()) {
        await this.hold(process, ownership);
      }
      return;
    }
    if (action === 4 && this.runs.length > 0) {
      await process.admission.requestCancel({ ...this.runs[choose(this.runs.length)]!, actor: ACTOR });
      return;
    }
    const recent = Math.min(this.held.length, 6);
    const held = recent === 0 ? undefined : this.held[this.held.length - 1 - choose(recent)];
    if (held === undefined) {
      return;
    }
    const { ownership, tokenHash } = held.bound;
    switch (action) {
      case 5:
        await ownership.append([textEvent("said"), textEvent("more")], TURN);
        return;
      case 6:
      case 7: {
        const proposals = [proposalOf(), proposalOf({ effect: "write", name: "files__write", tool: "write" })];
        const modelCallId = await held.process.openModel(tokenHash);
        this.proposed.push(...proposals);
        await held.process.gates.settleModelCall(modelSettlement(modelCallId, proposals));
        return;
      }
      case 8: {
        const proposal =
          this.proposed[this.proposed.length - 1 - choose(Math.max(1, Math.min(4, this.proposed.length)))];
        if (proposal !== undefined) {
          const grant = await held.process.openTool(held.bound, proposal);
          const outcome = { state: "succeeded", resultJson: "{}", resultSummary: "", errorCode: null } as const;
          await held.process.gates.settleToolCall({ toolCallId: grant.toolCallId, ...outcome });
        }
        return;
      }
      case 9:
        await held.process.gates.appendTranscript(tokenHash, [
          { kind: "item", entryId: newId("item"), stream: "", body: Buffer.from("x") },
        ]);
        return;
      case 10:
        await this.end(held.bound);
        return;
      default:
        await (choose(2) === 0
          ? ownership.release()
          : ownership.changeWorker({ attemptLimit: 9 }).then((next) => this.hold(held.process, next)));
    }
  }

  async end({ ownership }: Bound): Promise<void> {
    const { leaf, digest } = await ownership.seal(conclusionOf(ownership));
    await ownership.finish(finalizationOf({ continuity: leaf === null ? "kept" : "moved", leaf, digest }));
  }
}

async function checkEverything(own: RecordWorld): Promise<void> {
  const counts = await own.one(
    `select
       (select count(*)::integer from signalbox.conversation c where c.last_sequence <>
          (select count(*) from signalbox.event e where e.conversation_id = c.id)
          or c.last_sequence <> (select coalesce(max(e.sequence), 0) from signalbox.event e
                                 where e.conversation_id = c.id)) as gaps,
       (select count(*)::integer from (select from signalbox.run r
          where r.state in ('admitted', 'running', 'suspended', 'finalizing')
          group by r.conversation_id having count(*) > 1) doubles) as doubles,
       (select count(*)::integer from signalbox.run r where (r.state in ('completed', 'cancelled', 'failed')) <>
          exists (select from signalbox.event e where e.run_id = r.id and e.type = 'run.finished')) as endings,
       (select count(*)::integer from signalbox.ownership o where o.owner is not null and not exists
          (select from signalbox.run r where r.conversation_id = o.conversation_id and r.owner = o.owner
             and r.generation = o.generation and r.state in ('running', 'finalizing'))) as idle_owners,
       (select count(*)::integer from signalbox.ownership o where o.ready_at is null and o.owner is null and exists
          (select from signalbox.run r where r.conversation_id = o.conversation_id
             and r.state in ('queued', 'admitted'))) as stranded,
       (select count(*)::integer from signalbox.tool_call t where t.effect = 'write' and t.state = 'succeeded'
          and not exists (select from signalbox.event e where e.item_id = t.id and e.type = 'tool.finished')) as silent`,
  );
  expect(counts).toEqual({ gaps: 0, doubles: 0, endings: 0, idle_owners: 0, stranded: 0, silent: 0 });
  const { deadlocks } = await own.one<{ deadlocks: number }>(
    "select deadlocks from pg_stat_database where datname = current_database()",
  );
  expect(deadlocks, "nobody waits in a circle").toBe(0);
}

it.for([1, 2, 3])("many owners, gates and callers at once leave the record whole (seed %i)", async (seed) => {
  await using own = await RecordWorld.open();
  const processes = [await own.process(), await own.process(), await own.process()];
  const places: ConversationPlace[] = [];
  for (let index = 0; index < CONVERSATIONS; index += 1) {
    places.push(await own.conversation({ tenantId: `t${index % 2}` }));
  }
  const turmoil = new Turmoil(processes, places);
  await Promise.all(
    Array.from({ length: ACTORS }, async (_, index) => {
      const choose = choices(seed * 100 + index);
      for (let count = 0; count < ACTIONS_EACH; count += 1) {
        await turmoil.act(choose);
      }
    }),
  );
  const unexpected = [...turmoil.met].filter(([code]) => !EXPECTED.has(code));
  expect(unexpected).toEqual([]);
  expect(turmoil.met.get("accepted") ?? 0).toBeGreaterThan(ACTORS * 5);
  await checkEverything(own);
});
