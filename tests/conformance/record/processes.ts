import { expect, it } from "vitest";
import type { RecordBench } from "./bench.ts";
import { claimOne, codeOf, start } from "./story.ts";

export function processesSuite(bench: () => RecordBench): void {
  it("gives every registration its own number, and leaves the living alone", async () => {
    const [first, second] = [await bench().process(), await bench().process()];
    expect(second.incarnation).not.toBe(first.incarnation);
    await first.processes.heartbeat(first.incarnation);
    await second.processes.heartbeat(second.incarnation);
    expect(await first.processes.sweep(first.incarnation)).toBe(0);
    await second.processes.heartbeat(second.incarnation);
    // A heartbeat is worth one lease, and nobody sends the next one: left alone, they would die in the test after this.
    for (const { processes, incarnation } of [first, second]) await processes.unregister(incarnation);
  });

  it("buries who lost its presence, once, and lets others take over", async () => {
    const [dying, living] = [await bench().process(), await bench().process()];
    const { place, runId } = await start(bench(), dying);
    await dying.die();
    expect(await living.processes.sweep(living.incarnation)).toBe(1);
    expect(await living.processes.sweep(living.incarnation)).toBe(0);
    const taken = await claimOne(living, place);
    expect(taken.claim).toMatchObject({ runId, cause: "owner_lost", attempt: 2 });
    expect(await bench().run(runId)).toMatchObject({ state: "running", owner: living.incarnation });
  });

  it("who leaves in order leaves its runs to others at once, and is nobody afterwards", async () => {
    const [leaving, staying] = [await bench().process(), await bench().process()];
    const { place } = await start(bench(), leaving);
    await leaving.processes.unregister(leaving.incarnation);
    expect((await claimOne(staying, place)).claim.cause).toBe("owner_lost");
    expect(await codeOf(leaving.processes.heartbeat(leaving.incarnation))).toBe("stale_generation");
  });
}
