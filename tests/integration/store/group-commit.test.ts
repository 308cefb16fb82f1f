import type { OwnerEvent } from "@signalbox/contract";
import type { Ownership } from "@signalbox/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { GroupCommit } from "../../../packages/server/src/channels/truth/group-commit.ts";
import { EventQueries } from "../../../packages/server/src/store/queries/event-queries.ts";
import { proves } from "../../setup/proves.ts";
import { codeOf, finishRun, proposalOf, startedRun, textEvent, TURN, type ConversationPlace } from "./record-parts.ts";
import { RecordWorld, silentLog } from "./record-world.ts";

let world: RecordWorld;

beforeAll(async () => {
  world = await RecordWorld.open();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function logOf(own: RecordWorld, place: ConversationPlace) {
  return own.rows<{ sequence: number; type: string; data: string; tenant_id: string; turn_id: string | null }>(
    "select sequence, type, data, tenant_id, turn_id from signalbox.event where conversation_id = $1 order by sequence",
    [place.conversationId],
  );
}

it("writes two tenants and a stale owner in one batch, each as it deserves", async () => {
  const process = await world.process();
  const places = [
    await world.conversation({ tenantId: "one" }),
    await world.conversation({ tenantId: "two" }),
    await world.conversation({ tenantId: "three" }),
  ];
  const owners: Ownership[] = [];
  for (const place of places) {
    owners.push((await startedRun(process, place)).ownership);
  }
  await owners[2]!.changeWorker({ attemptLimit: 5 });
  const before = await world.one<{ commits: number }>("select count(distinct at) as commits from signalbox.event");
  const codes = await Promise.all(owners.map((owner, index) => codeOf(owner.append([textEvent(`t${index}`)], TURN))));
  expect(codes).toEqual(["accepted", "accepted", "stale_generation"]);
  expect(before.commits).toBeGreaterThan(0);
  for (const [index, tenantId] of ["one", "two"].entries()) {
    const last = (await logOf(world, places[index]!)).at(-1)!;
    expect(last).toMatchObject({ tenant_id: tenantId, type: "text.completed", turn_id: TURN });
    expect(JSON.parse(last.data)).toEqual({ text: `t${index}` });
  }
  expect((await logOf(world, places[2]!)).map((row) => row.type)).not.toContain("text.completed");
});

proves("INV-09", {
  title: "owner, gates and admission write at once: sequences are 1..n, and every cursor ends with the same events",
  sabotages: ["events_out_of_order", "sequence_with_holes"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "events_out_of_order") {
      await own.sabotage(
        "append_events",
        "p_data[counted.offset_before + n.n]",
        "p_data[counted.offset_before + counted.count + 1 - n.n]",
      );
    } else if (sabotage === "sequence_with_holes") {
      await own.sabotage("write_event", "last_sequence + 1", "last_sequence + 2");
    }
    const process = await own.process();
    const place = await own.conversation();
    const { ownership } = await startedRun(process, place);
    const bound = await process.bind(ownership);
    const items = Array.from({ length: 40 }, (_, index) => textEvent(`part ${index}`, index + 1, "itm_1"));
    await Promise.all([
      ...items.map((event) => ownership.append([event], TURN)),
      ...Array.from({ length: 5 }, () => process.propose(bound, [proposalOf()])),
    ]);
    await finishRun(ownership);
    const log = await logOf(own, place);
    expect(
      log.map((row) => row.sequence),
      "INV-09: 1..n",
    ).toEqual(log.map((_, index) => index + 1));
    const said = log.filter((row) => row.type === "text.completed").map((row) => JSON.parse(row.data).text);
    expect(said, "INV-09: an owner's events in its order").toEqual(items.map((event) => textOf(event)));
    const queries = new EventQueries(process.pools.app);
    const viewer = { tenantId: place.tenantId, user: null };
    for (const afterSequence of [0, 1, 7, log.length - 1, log.length]) {
      const read = await queries.after(viewer, place.conversationId, { afterSequence, limit: 1_000 });
      expect(read.map((event) => event.sequence)).toEqual(log.slice(afterSequence).map((row) => row.sequence));
    }
  },
});

function textOf(event: OwnerEvent): string {
  return "text" in event.data ? event.data.text : "";
}

it("a sequence is never visible before an earlier one is", async () => {
  const process = await world.process();
  const place = await world.conversation();
  const { ownership } = await startedRun(process, place);
  const { tokenHash } = await process.bind(ownership);
  const modelCallId = await process.openModel(tokenHash);
  const slow = await world.session();
  await slow.query("begin");
  await slow.query(
    "select signalbox.settle_model_call($1, 'succeeded', 'm', 1, 1, 0, 0, null, null, 'end_turn', null, '[]')",
    [modelCallId],
  );
  const later = ownership.append([textEvent("later")], TURN);
  await world.untilBlockedBy(slow);
  const seen = (await logOf(world, place)).map((row) => row.type);
  expect(seen).toEqual(["run.admitted", "run.started"]);
  await slow.query("commit");
  await later;
  expect((await logOf(world, place)).map((row) => row.type).slice(2)).toEqual(["usage.recorded", "text.completed"]);
});

it("one conversation that cannot be stored does not fail the others of its batch", async () => {
  const process = await world.process();
  const places = [await world.conversation(), await world.conversation()];
  const owners: Ownership[] = [];
  for (const place of places) {
    owners.push((await startedRun(process, place)).ownership);
  }
  // A constraint that only this text violates stands for whatever the database may refuse.
  await world.superuser.query("alter table signalbox.event add constraint refuses check (data not like '%poison%')");
  const codes = await Promise.all([
    codeOf(owners[0]!.append([textEvent("poison")], TURN)),
    codeOf(owners[1]!.append([textEvent("fine")], TURN)),
  ]);
  await world.superuser.query("alter table signalbox.event drop constraint refuses");
  expect(codes).toEqual(["internal", "accepted"]);
  await owners[0]!.append([textEvent("well again")], TURN);
});

it("finish waits for what was appended and not awaited", async () => {
  const process = await world.process();
  const place = await world.conversation();
  const { ownership } = await startedRun(process, place);
  const appended = [1, 2, 3].map((n) => ownership.append([textEvent(`${n}`)], TURN));
  await ownership.seal({
    generation: ownership.claim.generation,
    ending: "done",
    answer: "x",
    stopReason: "end_turn",
    leaf: null,
    servedModel: null,
    rung: null,
    error: null,
  });
  appended.push(ownership.append([textEvent("4")], TURN));
  await finishRun(ownership);
  await Promise.all(appended);
  expect((await logOf(world, place)).map((row) => row.type)).toEqual([
    "run.admitted",
    "run.started",
    ...Array.from({ length: 4 }, () => "text.completed"),
    "run.finished",
  ]);
});

it("holds to its cap, to its windows and to one batch per conversation", async () => {
  const process = await world.process({ registered: false });
  const batches: { readonly conversations: readonly string[]; readonly events: number }[] = [];
  const gates: PromiseWithResolvers<void>[] = [];
  const events = new GroupCommit({
    database: {
      async query<Row>({ values }: { values: unknown[] }) {
        const conversations = values[0] as string[];
        const counts = values[3] as number[];
        batches.push({ conversations, events: counts.reduce((sum, count) => sum + count, 0) });
        const gate = Promise.withResolvers<void>();
        gates.push(gate);
        await gate.promise;
        const rows = conversations.map((conversationId) => ({ conversationId, sequence: 1 }));
        // Answers like the statement it stands for.
        return { rows: rows as Row[] };
      },
    },
    live: process.bus,
    log: silentLog,
    batchEvents: 10,
  });
  const append = (conversationId: string, count: number) =>
    events.append(
      { conversationId, runId: "run", generation: 1 },
      Array.from({ length: count }, () => textEvent("x")),
      null,
    );
  const written = [append("a", 3), append("a", 3), append("b", 3)];
  const release = async (index: number) => {
    await expect.poll(() => gates.length, { interval: 1 }).toBeGreaterThan(index);
    gates[index]!.resolve();
  };
  await expect.poll(() => batches.length, { interval: 1 }).toBe(1);
  expect(batches[0]).toEqual({ conversations: ["a", "b"], events: 9 });
  // `a` and `b` are on their way: only `c` may start, and not more than two batches at once.
  written.push(append("a", 1), append("c", 12), append("d", 1));
  await expect.poll(() => batches.length, { interval: 1 }).toBe(2);
  expect(batches[1]).toEqual({ conversations: ["c"], events: 12 });
  await release(1);
  await expect.poll(() => batches.length, { interval: 1 }).toBe(3);
  expect(batches[2]).toEqual({ conversations: ["d"], events: 1 });
  await release(2);
  await release(0);
  await release(3);
  expect(batches[3]).toEqual({ conversations: ["a"], events: 1 });
  await Promise.all(written);
  await events[Symbol.asyncDispose]();
  expect(await codeOf(append("a", 1))).toBe("shutting_down");
});

it("a refusal that is still being audited holds up no batch", async () => {
  const process = await world.process({ registered: false });
  const audited = Promise.withResolvers<void>();
  const events = new GroupCommit({
    database: {
      async query<Row>({ name, values }: { name: string; values: unknown[] }) {
        if (name === "note_stale") {
          await audited.promise;
          return { rows: [] };
        }
        const rows = (values[0] as string[]).map((conversationId) => ({
          conversationId,
          sequence: conversationId === "stale" ? null : 1,
        }));
        // Answers like the statement it stands for.
        return { rows: rows as Row[] };
      },
    },
    live: process.bus,
    log: silentLog,
    batchesInFlight: 1,
  });
  const append = (conversationId: string) =>
    codeOf(events.append({ conversationId, runId: "run", generation: 1 }, [textEvent("x")], null));
  expect(await append("stale")).toBe("stale_generation");
  expect(await Promise.all([append("a"), append("stale"), append("b")])).toEqual([
    "accepted",
    "stale_generation",
    "accepted",
  ]);
  expect(await append("c")).toBe("accepted");
  audited.resolve();
  await events[Symbol.asyncDispose]();
});
