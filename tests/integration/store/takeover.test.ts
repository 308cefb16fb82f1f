import { afterAll, beforeAll, expect, it } from "vitest";
import { proves } from "../../setup/proves.ts";
import {
  codeOf,
  commandFor,
  conclusionOf,
  finalizationOf,
  finishRun,
  proposalOf,
  startedRun,
  textEvent,
  TURN,
} from "./record-parts.ts";
import { RecordWorld, until } from "./record-world.ts";

/** Long enough for a loaded machine, short enough to wait for. */
const SHORT_LEASE_MS = 1_500;

let world: RecordWorld;

beforeAll(async () => {
  world = await RecordWorld.open();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

/** Waits until sweeps judge: for one lease after the server came up they do not. */
async function untilJudging(own: RecordWorld, leaseMs: number): Promise<void> {
  await own.rows("insert into signalbox.database_start default values on conflict do nothing");
  await own.rows("update signalbox.database_start set at = pg_postmaster_start_time()");
  await until("the server has been up for a lease", async () => {
    const { up } = await own.one<{ up: boolean }>(
      "select clock_timestamp() > pg_postmaster_start_time() + make_interval(secs => $1) as up",
      [leaseMs / 1_000],
    );
    return up;
  });
}

proves("INV-07", {
  title: "a run whose owner lost its session is taken over, with what its gates left open closed first",
  sabotages: ["nobody_is_judged", "calls_stay_open"],
  timeoutMs: 60_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "nobody_is_judged") {
      await own.sabotage("bury_processes", "where p.dead_at is null and", "where false and");
    } else if (sabotage === "calls_stay_open") {
      await own.sabotage("close_lost_calls", "m.state = 'executing'", "false");
      await own.sabotage("close_lost_calls", "t.state = 'executing'", "false");
    }
    const place = await own.conversation();
    const [first, second] = [
      await own.process({ leaseMs: SHORT_LEASE_MS }),
      await own.process({ leaseMs: SHORT_LEASE_MS }),
    ];
    const { ownership } = await startedRun(first, place);
    const bound = await first.bind(ownership);
    const [read, write] = [proposalOf(), proposalOf({ name: "files__write", tool: "write", effect: "write" })];
    await first.propose(bound, [read, write]);
    await first.openTool(bound, read);
    await first.openTool(bound, write);
    const modelCallId = await first.openModel(bound.tokenHash);
    await ownership.append([textEvent("half", 1, "itm_half")], TURN);
    // Killed: its sessions end and it never comes back.
    await first.processes[Symbol.asyncDispose]();
    await untilJudging(own, SHORT_LEASE_MS);

    const buried: number[] = [];
    await until("somebody was buried, or nobody will be", async () => {
      await second.processes.heartbeat(second.incarnation);
      const { lost } = await own.one<{ lost: number }>(
        "select count(*) as lost from signalbox.process where dead_at is null and lease_until < signalbox.clock()",
      );
      buried.push(
        (
          await own.rows<{ n: number }>("select signalbox.bury_processes($1, $2) as n", [
            second.incarnation,
            SHORT_LEASE_MS,
          ])
        )[0]!.n,
      );
      return buried.some((count) => count > 0) || lost > 0;
    });
    const [taken] = await second.claim();
    expect(taken, "INV-07: the dead owner is replaced").toBeDefined();
    expect(taken!.claim).toMatchObject({
      generation: ownership.claim.generation + 1,
      attempt: 2,
      cause: "owner_lost",
      visibleItems: [{ itemId: "itm_half", kind: "text" }],
      outcomeUnknown: true,
    });
    const calls = await own.rows("select state from signalbox.tool_call where run_id = $1 order by ordinal", [
      taken!.claim.runId,
    ]);
    expect(calls, "INV-07: no call of a dead gate stays open").toEqual([{ state: "unknown" }, { state: "unknown" }]);
    const spent = await own.one("select state, input_tokens from signalbox.model_call where id = $1", [modelCallId]);
    expect(spent).toEqual({ state: "estimated", input_tokens: 100 });
  },
});

proves("INV-07", {
  title: "no run can be running or finalizing without owner and generation in its own row",
  sabotages: ["nothing_demands_it"],
  timeoutMs: 30_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "nothing_demands_it") {
      await own.rows("alter table signalbox.run drop constraint run_owned");
    }
    const process = await own.process();
    const { ownership } = await startedRun(process, await own.conversation());
    const disown = async (): Promise<void> => {
      for (const column of ["owner", "generation"]) {
        const change = own.rows(`update signalbox.run set ${column} = null where id = $1`, [ownership.claim.runId]);
        await expect(change, `INV-07: the run keeps its ${column}`).rejects.toMatchObject({ constraint: "run_owned" });
      }
    };
    await disown();
    await ownership.seal(conclusionOf(ownership));
    await disown();
  },
});

it("buries a process whose lease ran out although its session lives", async () => {
  const [hung, sweeper] = [
    await world.process({ leaseMs: SHORT_LEASE_MS }),
    await world.process({ leaseMs: SHORT_LEASE_MS }),
  ];
  await untilJudging(world, SHORT_LEASE_MS);
  await until("the lease ran out", async () => {
    await sweeper.processes.heartbeat(sweeper.incarnation);
    await sweeper.processes.sweep(sweeper.incarnation);
    const row = await world.one<{ dead: boolean }>(
      "select dead_at is not null as dead from signalbox.process where incarnation = $1",
      [hung.incarnation],
    );
    return row.dead;
  });
  expect(await codeOf(hung.processes.heartbeat(hung.incarnation))).toBe("stale_generation");
  expect(hung.processes.holds(hung.incarnation)).toBe(false);
  expect(await hung.register()).toBeGreaterThan(sweeper.incarnation);
});

it("leaves alone whoever holds presence and lease", async () => {
  const [alive, sweeper] = [await world.process(), await world.process()];
  // With leases this short the server has long been up.
  await until("a sweep judged", async () => {
    const { up } = await world.one<{ up: boolean }>(
      "select clock_timestamp() > pg_postmaster_start_time() + interval '0.2 s' as up",
    );
    return up;
  });
  await world.rows("select signalbox.bury_processes($1, 100)", [sweeper.incarnation]);
  await alive.processes.heartbeat(alive.incarnation);
  expect(alive.processes.holds(alive.incarnation)).toBe(true);
});

it("nobody is judged by presence for one lease after the server came up, but by a lease that ran out", async () => {
  const [gone, sweeper] = [await world.process(), await world.process()];
  await gone.processes[Symbol.asyncDispose]();
  const hour = 3_600_000;
  expect(await world.one("select signalbox.bury_processes($1, $2) as n", [sweeper.incarnation, hour])).toEqual({
    n: 0,
  });
  // A crash recovery or a promotion empties the unlogged table: the next sweep starts counting anew.
  await world.rows("delete from signalbox.database_start");
  expect(await world.one("select signalbox.bury_processes($1, 5000) as n", [sweeper.incarnation])).toEqual({ n: 0 });
  await world.rows(
    "update signalbox.process set lease_until = signalbox.clock() - interval '1 s' where incarnation = $1",
    [gone.incarnation],
  );
  expect(await world.one("select signalbox.bury_processes($1, 5000) as n", [sweeper.incarnation])).toEqual({ n: 1 });
});

it("a process that loses its session authorises nothing until it has its presence again", async () => {
  const process = await world.process();
  const place = await world.conversation();
  const { ownership } = await startedRun(process, place);
  const { tokenHash } = await process.bind(ownership);
  await process.dropPresence(world.superuser);
  await until(
    "the loss was noticed",
    () => !process.processes.holds(process.incarnation) || process.presenceSessions.length > 1,
  );
  await until("it has its presence again", () => process.processes.holds(process.incarnation));
  expect(process.presenceSessions.length).toBeGreaterThan(1);
  await process.openModel(tokenHash);
  await process.processes.heartbeat(process.incarnation);
});

it("a process that was buried while it had no session learns it and does not come back", async () => {
  const process = await world.process();
  const { incarnation } = process;
  // Somebody who takes the free lock first keeps it from coming back.
  const sweeper = await world.session();
  await process.dropPresence(world.superuser);
  await sweeper.query("select pg_advisory_lock(signalbox.presence_space(), $1)", [incarnation]);
  await world.rows("update signalbox.process set dead_at = signalbox.clock() where incarnation = $1", [incarnation]);
  await sweeper.query("select pg_advisory_unlock(signalbox.presence_space(), $1)", [incarnation]);
  await until("it knows", async () => (await codeOf(process.processes.heartbeat(incarnation))) === "stale_generation");
  expect(process.processes.holds(incarnation)).toBe(false);
});

it("leaves in order: what it owns can be claimed at once, what it had open is closed", async () => {
  const [leaving, staying] = [await world.process(), await world.process()];
  const place = await world.conversation({ runtime: "left-behind" });
  const { ownership } = await startedRun(leaving, place);
  const { tokenHash } = await leaving.bind(ownership);
  const modelCallId = await leaving.openModel(tokenHash);
  await leaving.processes.unregister(leaving.incarnation);
  expect(await world.one("select state from signalbox.model_call where id = $1", [modelCallId])).toEqual({
    state: "estimated",
  });
  expect((await staying.claimOne("left-behind")).claim.cause).toBe("owner_lost");
  expect(await codeOf(leaving.processes.heartbeat(leaving.incarnation))).toBe("stale_generation");
});

it("who takes over a sealed run repeats its finalization and nothing else", async () => {
  const [first, second] = [await world.process(), await world.process()];
  const place = await world.conversation({ runtime: "sealed" });
  const { ownership } = await startedRun(first, place);
  const bound = await first.bind(ownership);
  await first.gates.appendTranscript(bound.tokenHash, [
    { kind: "item", entryId: "e1", stream: "", body: Buffer.from("said") },
  ]);
  const conclusion = conclusionOf(ownership, { leaf: "e1" });
  const sealed = await ownership.seal(conclusion);
  await first.processes.unregister(first.incarnation);
  const taken = await second.claimOne("sealed");
  expect(taken.claim).toMatchObject({ cause: "owner_lost", sealed: conclusion });
  expect(await codeOf(second.bind(taken)), "the gates stay closed").toBe("stale_generation");
  const again = await taken.seal(conclusionOf(taken, { answer: "another" }));
  expect(again).toEqual(sealed);
  await taken.finish(finalizationOf({ continuity: "moved", leaf: again.leaf, digest: again.digest }));
  expect(
    await world.one("select leaf_entry from signalbox.conversation where id = $1", [place.conversationId]),
  ).toEqual({ leaf_entry: "e1" });
});

it("two supervisors that claim at once never get the same conversation", async () => {
  const [left, right] = [await world.process(), await world.process()];
  const runtime = "contended";
  const places = await Promise.all(Array.from({ length: 6 }, () => world.conversation({ runtime })));
  for (const place of places) {
    await left.admission.admit(commandFor(place));
  }
  const claimed = (await Promise.all([left, right, left, right].map((process) => process.claim(runtime, 3)))).flatMap(
    (ownerships) => ownerships.map(({ claim }) => claim.conversationId),
  );
  expect(new Set(claimed).size).toBe(claimed.length);
  const rest = await left.claim(runtime, 6);
  expect(new Set([...claimed, ...rest.map(({ claim }) => claim.conversationId)]).size).toBe(6);
  for (const ownership of rest) {
    await finishRun(ownership);
  }
});

it("forgets processes that are long dead and left nothing behind", async () => {
  const [old, owning, sweeper] = [await world.process(), await world.process(), await world.process()];
  await startedRun(owning, await world.conversation());
  for (const process of [old, owning]) {
    await world.rows(
      "update signalbox.process set dead_at = signalbox.clock() - interval '2 days' where incarnation = $1",
      [process.incarnation],
    );
  }
  await world.rows("select signalbox.forget_processes()");
  const left = await world.rows<{ incarnation: number }>("select incarnation from signalbox.process");
  const incarnations = left.map((row) => row.incarnation);
  expect(incarnations).toContain(owning.incarnation);
  expect(incarnations).toContain(sweeper.incarnation);
  expect(incarnations).not.toContain(old.incarnation);
});
