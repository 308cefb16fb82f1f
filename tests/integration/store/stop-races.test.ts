/** A stop of an operator against an intent that is not committed yet. */
import type { StopId } from "@signalbox/contract";
import { createOperators } from "@signalbox/core";
import { proves } from "../../setup/proves.ts";
import { expect } from "vitest";
import { ACTOR, codeOf, newId, startedRun } from "./record-parts.ts";
import { RecordWorld, until } from "./record-world.ts";

proves("INV-20", {
  title: "once a stop is acknowledged no intent commits, and an intent in flight holds the acknowledgement up",
  sabotages: ["stop_is_not_looked_at", "marks_are_ignored", "stop_does_not_wait"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    const gate = await own.process();
    const { ownership } = await startedRun(gate, await own.conversation());
    const { tokenHash } = await gate.bind(ownership);
    if (sabotage === "stop_is_not_looked_at") await own.sabotage("enter_gate", "v_stop.kind = 'stop'", "false");
    if (sabotage === "marks_are_ignored") await own.sabotage("enter_gate", "v_cancel_at is not null", "false");
    // What the stop ends is left to the sweeps, and with it the lock that an intent in flight holds.
    const record = sabotage === "stop_does_not_wait" ? { ...gate.operators, carryOut: async () => 0 } : gate.operators;
    const operators = createOperators({ record, live: gate.bus });
    const inFlight = await own.session();
    await inFlight.query("begin");
    await inFlight.query("select signalbox.begin_model_call($1, $2, $3, 'anthropic', 'sim/echo', 10, '{}')", [
      tokenHash,
      newId("modelCall"),
      gate.incarnation,
    ]);
    let acknowledged = false;
    const stop = { kind: "stop", scope: "tenant", subject: null, reason: null } as const;
    const stopping = operators
      .stop({ tenantId: "default", actor: ACTOR, stopId: newId("stop"), ...stop })
      .then(() => void (acknowledged = true));
    await Promise.race([stopping, own.untilBlockedBy(inFlight)]);
    expect(acknowledged, "INV-20: acknowledged beside an intent that is not committed").toBe(false);
    // What comes meanwhile sees the stop itself, and afterwards the mark it left.
    const meanwhile = await Promise.race([codeOf(gate.openModel(tokenHash)), twoWait(own).then(() => "waits")]);
    expect(meanwhile, "INV-20: an intent beside a stop that stands").toBe("run_stopped");
    await inFlight.query("commit");
    await stopping;
    await gate.operators.liftStop({ tenantId: "default", actor: ACTOR, stopId: await theStop(own) });
    expect(await codeOf(gate.openModel(tokenHash)), "INV-20: an intent after the acknowledgement").toBe(
      "run_cancelled",
    );
    expect((await own.one<{ n: number }>("select count(*)::integer as n from signalbox.model_call")).n).toBe(1);
    expect(await gate.owners.cancelled(gate.incarnation)).toMatchObject([
      { conversationId: ownership.claim.conversationId, generation: ownership.claim.generation },
    ]);
  },
});

/** The stop waits for the intent in flight, and so does the next intent. */
async function twoWait(own: RecordWorld): Promise<void> {
  const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
  await until("two wait for a lock", async () => (await own.rows(waiting)).length > 1);
}

async function theStop(own: RecordWorld): Promise<StopId> {
  return (await own.one<{ id: StopId }>("select id from signalbox.stop")).id;
}
