/**
 * A message with several calls that people are asked about: each decision lands on its own call, nothing runs before the
 * last one, and then everything runs once, whatever has died meanwhile.
 */
import { afterEach, describe, expect, test } from "vitest";
import { askFor, approvalsOf, decide, logOf, RUNTIMES, setScene, SHAPES, untilSuspended } from "./scene.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

describe.each(RUNTIMES)("%s", (runtime) => {
  test("three calls are decided one by one while the engine waits, and run once all are decided", async () => {
    const scene = await setScene(stack, runtime);
    const run = await scene.conversation.send(askFor(runtime, SHAPES));
    const asked = await approvalsOf(scene, run, 3);
    await decide(scene, asked.get("triangle"), { decision: "approve" });
    await decide(scene, asked.get("circle"), { decision: "approve" });
    expect(scene.made()).toEqual({ circle: 0, square: 0, triangle: 0 });
    await decide(scene, asked.get("square"), { decision: "reject", response: { reason: "no squares today" } });
    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(scene.made()).toEqual({ circle: 1, square: 0, triangle: 1 });
    const told = JSON.stringify(scene.stage.sim.modelRequests().at(-1)?.body);
    for (const said of ["circle drawn", "triangle drawn", "no squares today"]) expect(told).toContain(said);
  }, 240_000);

  test("one is changed, one is answered in place of the tool, and the model reads both", async () => {
    const scene = await setScene(stack, runtime);
    const run = await scene.conversation.send(askFor(runtime, ["circle", "square"]));
    const asked = await approvalsOf(scene, run, 2);
    await decide(scene, asked.get("circle"), { decision: "edit", response: { arguments: { size: 99 } } });
    await decide(scene, asked.get("square"), { decision: "respond", response: "It hangs on the wall already." });
    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(scene.made()).toEqual({ circle: 1, square: 0, triangle: 0 });
    expect(scene.shelf.calls.map(({ input }) => input)).toEqual([{ size: 99 }]);
    const told = JSON.stringify(scene.stage.sim.modelRequests().at(-1)?.body);
    for (const said of ["circle drawn", "A person changed the arguments", "It hangs on the wall already."]) {
      expect(told).toContain(said);
    }
  }, 240_000);

  test("three calls are decided after everything has died, and run once", async () => {
    const scene = await setScene(stack, runtime);
    const run = await scene.conversation.send(askFor(runtime, SHAPES));
    const asked = await approvalsOf(scene, run, 3);
    await untilSuspended(scene, run);
    await Promise.all([scene.worker.kill("SIGKILL"), scene.stage.served.process.kill("SIGKILL")]);
    await scene.stage.restart();
    scene.stage.worker(runtime);
    await decide(scene, asked.get("triangle"), { decision: "approve" });
    await decide(scene, asked.get("circle"), { decision: "approve" });
    await decide(scene, asked.get("square"), { decision: "reject", response: { reason: "no squares today" } });
    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(scene.made()).toEqual({ circle: 1, square: 0, triangle: 1 });
    const told = JSON.stringify(scene.stage.sim.modelRequests().at(-1)?.body);
    for (const said of ["circle drawn", "triangle drawn", "no squares today"]) expect(told).toContain(said);
    const log = await logOf(scene.conversation);
    const types = log.map(({ type }) => type);
    expect(types.filter((type) => type === "hold.opened")).toHaveLength(3);
    expect(types.filter((type) => type === "tool.started")).toHaveLength(2);
    expect(types.filter((type) => type === "run.suspended")).toHaveLength(1);
  }, 240_000);
});
