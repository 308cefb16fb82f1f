/** The end of a run whose owner is dead, as the table of states has it, and of turns that cannot be struck. */
import type { OwnerEvent } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ACTOR, commandFor, conclusionOf, newId, proposalOf, startedRun, textEvent, TURN } from "./record-parts.ts";
import { RecordWorld, type RecordProcess } from "./record-world.ts";

let world: RecordWorld;
let process: RecordProcess;
beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
  await world.rows(`create table public.seen (run_id text, before text, after text, at bigserial)`);
  await world.rows(`create function public.see() returns trigger language plpgsql security definer as $$
    begin insert into public.seen values (new.id, old.state, new.state); return null; end $$`);
  await world.rows(`create trigger see after update of state on signalbox.run for each row
    when (old.state is distinct from new.state) execute function public.see()`);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function leftByTheDead() {
  const owner = await world.process();
  const place = await world.conversation();
  const { admission, ownership } = await startedRun(owner, place);
  const bound = await owner.bind(ownership);
  const proposal = proposalOf({ effect: "write" });
  await owner.propose(bound, [proposal]);
  await owner.openTool(bound, proposal);
  await ownership.append([textEvent("half an answer")], TURN);
  await owner.processes.unregister(owner.incarnation);
  return { place, runId: admission.runId };
}

const eventsOf = async (conversationId: string) =>
  (
    await world.rows<{ type: string }>(
      "select type from signalbox.event where conversation_id = $1 order by sequence",
      [conversationId],
    )
  ).map(({ type }) => type);

describe("a run whose owner is dead", () => {
  it.each(["cancel", "interrupt"] as const)("is sealed, and then ended, at a %s", async (how) => {
    const { place, runId } = await leftByTheDead();
    if (how === "cancel") {
      const outcome = await process.admission.requestCancel({ tenantId: "default", runId, actor: ACTOR });
      expect(outcome).toEqual({ kind: "ended", state: "cancelled" });
    } else {
      await process.admission.admit(commandFor(place, { whenBusy: "interrupt" }));
    }
    const seen = await world.rows<{ before: string; after: string }>(
      "select before, after from public.seen where run_id = $1 order by at",
      [runId],
    );
    expect(seen.slice(-2)).toEqual([
      { before: "running", after: "finalizing" },
      { before: "finalizing", after: "cancelled" },
    ]);
    expect(await world.rows("select state from signalbox.tool_call where run_id = $1", [runId])).toEqual([
      { state: "unknown" },
    ]);
    const types = await eventsOf(place.conversationId);
    expect(types.filter((type) => type === "run.finished")).toHaveLength(1);
    expect(types.indexOf("tool.finished"), "closed before the end is told").toBeGreaterThan(-1);
    expect(types.indexOf("tool.finished")).toBeLessThan(types.indexOf("run.finished"));
    expect(
      await world.rows("select text, partial from signalbox.message where run_id = $1 and role = 'assistant'", [runId]),
    ).toEqual([{ text: "half an answer", partial: true }]);
  });
});

describe("a turn that compacted", () => {
  const compacting = (revision: number): OwnerEvent => ({
    type: "run.phase",
    itemId: newId("item"),
    revision,
    data: { phase: "compacting" },
  });

  it("is not struck by a rollback: it is interrupted, and says so", async () => {
    const place = await world.conversation();
    const { ownership, admission } = await startedRun(process, place);
    await ownership.append([compacting(1)], TURN);
    await process.admission.admit(commandFor(place, { whenBusy: "rollback" }));
    expect(await ownership.seal(conclusionOf(ownership))).toMatchObject({ strikes: false, cancelCause: "superseded" });
    expect(admission.kind).toBe("admitted");
  });

  it("is not struck either when nobody drives it", async () => {
    const owner = await world.process();
    const place = await world.conversation();
    const { ownership, admission } = await startedRun(owner, place);
    await ownership.append([compacting(1)], TURN);
    await owner.processes.unregister(owner.incarnation);
    await process.admission.admit(commandFor(place, { whenBusy: "rollback" }));
    const { data } = await world.one<{ data: string }>(
      "select data from signalbox.event where run_id = $1 and type = 'run.finished'",
      [admission.runId],
    );
    expect(JSON.parse(data)).toMatchObject({ outcome: "cancelled", rollback: "interrupted" });
  });
});
