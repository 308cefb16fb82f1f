/** While a person is asked the world goes on: what was looked at before is looked at again before the call is made. */
import { afterEach, describe, expect, test } from "vitest";
import { until } from "../../setup/until.ts";
import { approvalsOf, askFor, decide, RUNTIMES, setScene, type Scene } from "./scene.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

async function post(scene: Scene, path: string, body: object): Promise<{ readonly id: string }> {
  const { served, apiKey } = scene.stage;
  const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
  const response = await fetch(`${served.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  return (await response.json()) as { readonly id: string };
}

/** Nothing may be called any more, and the gate knows it: a call of another run is refused instead of being asked about. */
async function forbidEverything(scene: Scene): Promise<void> {
  const { client } = scene.stage;
  const rules = [{ id: "nothing", verdict: "forbid", reason: "Nothing is drawn today." }];
  const { id } = await post(scene, "/v1/policies", { document: { version: 1, rules } });
  await post(scene, `/v1/policies/${id}/activate`, {});
  const agent = (await scene.conversation.get()).agent.id;
  await until(
    "the policy counts",
    async () => {
      const run = await (await client.conversations.create({ agent })).send(askFor(scene.runtime, ["square"]));
      return await until("asked or refused", async () => {
        const { status } = await client.runs.get(run.id);
        if (status === "completed") return "refused";
        const asked = (await client.holds.list({ run: run.id, state: "open" })).data.length > 0;
        if (asked) await run.cancel();
        return asked ? "asked" : null;
      }).then((how) => how === "refused");
    },
    60_000,
  );
}

describe.each(RUNTIMES)("%s", (runtime) => {
  test("a call that was approved is not made under a policy that forbids it meanwhile", async () => {
    const scene = await setScene(stack, runtime);
    const run = await scene.conversation.send(askFor(runtime, ["circle"]));
    const asked = await approvalsOf(scene, run, 1);
    await forbidEverything(scene);
    await decide(scene, asked.get("circle"), { decision: "approve" });
    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(scene.made().circle).toBe(0);
    expect(JSON.stringify(scene.stage.sim.modelRequests().at(-1)?.body)).toContain("Nothing is drawn today.");
  }, 240_000);

  test("a call that was approved is not made when its tool became another one meanwhile", async () => {
    const scene = await setScene(stack, runtime);
    const run = await scene.conversation.send(askFor(runtime, ["circle"]));
    const asked = await approvalsOf(scene, run, 1);
    scene.shelf.setTools({ circle: { description: "Draws a circle, and tells everybody.", result: "told" } });
    await decide(scene, asked.get("circle"), { decision: "approve" });
    expect(await run.result()).toMatchObject({ outcome: "completed" });
    expect(scene.made().circle).toBe(0);
    expect(JSON.stringify(scene.stage.sim.modelRequests().at(-1)?.body)).toContain("tool_drifted");
  }, 240_000);
});
