/** Locks are taken in one order, so that whatever meets on the same conversations waits, and nothing is torn away. */
import { randomInt } from "node:crypto";
import { expect, it } from "vitest";
import { createSeeded } from "../../../packages/testkit/src/simulation/seeded.ts";
import { until } from "../../setup/until.ts";
import { acts, type Choose } from "./lock-acts.ts";
import { ACTOR, codeOf, newId, startedRun, textEvent, TURN, type ConversationPlace } from "./record-parts.ts";
import { RecordWorld } from "./record-world.ts";

const TENANT = "default";
const ROUNDS = 300;
const AT_ONCE = 12;

/** What a refusal may say; anything else, and above all a deadlock, is none. */
const EXPECTED: ReadonlySet<string> = new Set([
  "accepted",
  "not_found",
  "conversation_deleting",
  "conversation_busy",
  "queue_full",
  "operator_stopped",
  "hold_closed",
  "stale_generation",
  "slot_unknown",
  "run_cancelled",
  "run_stopped",
  "run_suspended",
  "command_refused",
]);

it(
  "many at once on the same conversations wait for each other, and no two for one another",
  { timeout: 120_000 },
  async () => {
    await using own = await RecordWorld.open();
    await own.keyOf(ACTOR.keyId);
    const processes = [await own.process(), await own.process(), await own.process()];
    const places: ConversationPlace[] = [];
    while (places.length < 4) places.push(await own.conversation());
    // Which acts meet where can be had again; in which order the server lets them through cannot.
    const seed = Number(process.env.SEED ?? randomInt(2 ** 31));
    const seeded = createSeeded(seed);
    const choose: Choose = (count) => seeded.between(0, count - 1);
    const all = acts(choose);
    const codes = new Set<string>();
    let left = ROUNDS;
    const one = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        const at = choose(places.length);
        const code = await codeOf(all[left % all.length]!(processes[choose(processes.length)]!, places[at]!));
        codes.add(code);
        if (code === "not_found" || code === "conversation_deleting") places[at] = await own.conversation();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
    expect(
      [...codes].filter((code) => !EXPECTED.has(code)),
      `SEED=${seed}`,
    ).toEqual([]);
    await until("the server has told what happened", async () => {
      await own.rows("select pg_stat_clear_snapshot()");
      return (
        await own.one<{ told: boolean }>(
          "select xact_commit > 100 as told from pg_stat_database where datname = current_database()",
        )
      ).told;
    });
    const { deadlocks } = await own.one<{ deadlocks: number }>(
      "select deadlocks::integer as deadlocks from pg_stat_database where datname = current_database()",
    );
    expect(deadlocks, `SEED=${seed}`).toBe(0);
  },
);

it("an era that opens while others write waits for them, and nobody is torn away", { timeout: 60_000 }, async () => {
  await using own = await RecordWorld.open();
  const process = await own.process();
  const owned = [];
  while (owned.length < 6) owned.push((await startedRun(process, await own.conversation())).ownership);
  const writer = await own.session();
  const ids = owned.map(({ claim }) => claim.conversationId).toSorted();
  // The last one is held first, by whoever goes on with the first one afterwards.
  await writer.query("begin");
  await writer.query("select from signalbox.ownership where conversation_id = $1 for share", [ids.at(-1)]);
  const opener = await own.session();
  const opening = opener.query("select signalbox.open_era('operator', null)");
  await own.untilBlockedBy(writer);
  await writer.query("select from signalbox.ownership where conversation_id = $1 for share", [ids[0]]);
  await writer.query("commit");
  await opening;
  for (const ownership of owned) {
    expect(await codeOf(ownership.append([textEvent("x")], TURN))).toBe("stale_generation");
  }
});

it("a stop that is put in place while a message is being admitted stops its next intent", async () => {
  await using own = await RecordWorld.open();
  const process = await own.process();
  const place = await own.conversation();
  const admitting = await own.session("signalbox_app");
  await startedRun(process, place);
  // A message behind it, whose admission has looked for stops and is not committed yet.
  await admitting.query("begin");
  await admitting.query("select set_config('signalbox.tenant', 'default', true)");
  await admitting.query(
    `insert into signalbox.run
     select (jsonb_populate_record(r, jsonb_build_object('id', 'run_late', 'message_id', 'msg_late', 'state', 'queued',
       'position', r.position + 1, 'owner', null, 'generation', null))).*
     from signalbox.run r where r.conversation_id = $1`,
    [place.conversationId],
  );
  const stop = { kind: "stop", scope: "agent", subject: place.agentId, reason: null } as const;
  await process.operators.createStop({ tenantId: TENANT, actor: ACTOR, stopId: newId("stop"), ...stop });
  await admitting.query("commit");
  await process.operators.carryOut(20);
  const late = await own.one("select state, reason from signalbox.run where id = 'run_late'");
  expect(late, "what came in beside the stop is ended by the sweep that carries it out").toEqual({
    state: "cancelled",
    reason: "operator_stop",
  });
});
