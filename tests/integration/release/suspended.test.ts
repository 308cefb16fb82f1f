/** A run that waits belongs to nobody: every process that knew it may be gone. */
import { expect } from "vitest";
import { proves } from "../../setup/proves.ts";
import { ACTOR, finishRun, newId, startedRun } from "../store/record-parts.ts";
import { RecordWorld } from "../store/record-world.ts";

proves("INV-23", {
  title: "a suspended run outlives every process that knew it, and whoever comes after them goes on with it",
  sabotages: ["decided_in_vain"],
  async holds(sabotage) {
    await using world = await RecordWorld.open();
    const before = await world.process();
    const { ownership, admission } = await startedRun(before, await world.conversation());
    const { tokenHash } = await before.bind(ownership);
    const holdId = newId("hold");
    const asked = { kind: "input", subject: {}, digest: null, expiresInMs: null } as const;
    await before.gates.openHold({ tokenHash, process: before.incarnation, holdId, ...asked });
    expect(await ownership.suspend()).toBe("suspended");
    await before.processes.unregister(before.incarnation);
    const { owner, state } = await world.one<{ owner: number | null; state: string }>(
      "select owner, state from signalbox.run where id = $1",
      [admission.runId],
    );
    expect({ owner, state }).toEqual({ owner: null, state: "suspended" });

    if (sabotage !== null) await world.sabotage("wake_run", "if signalbox.has_open_hold(p_run) then", "if true then");
    const after = await world.process();
    const decision = { decision: "respond", response: { count: 3 }, digest: null } as const;
    await after.operators.decide({ tenantId: "default", actor: ACTOR, holdId, ...decision });
    const [next] = await after.claim();
    expect(next?.claim.runId, "INV-23: the run is claimed once its hold is decided").toBe(admission.runId);
    await finishRun(next!);
    const ended = await world.one<{ state: string }>("select state from signalbox.run where id = $1", [
      admission.runId,
    ]);
    expect(ended.state, "INV-23: the run ends").toBe("completed");
  },
});
