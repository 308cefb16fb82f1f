/** A turn that is rolled back stays in the history, struck, and no engine reads it again. */
import { afterEach, describe, expect, test } from "vitest";
import { conversationWith } from "../platform/stage.ts";
import { logOf, setDesk, speaks } from "./desk.ts";
import { told } from "./told-model.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

describe.each(["langgraph", "claude_sdk"])("%s", (runtime) => {
  test("the next turn is made without the struck one, and with what was before it", async () => {
    const { stage } = await setDesk(stack);
    stage.worker(runtime);
    const conversation = await conversationWith(stage.client, runtime);
    expect(await (await conversation.send(told("before"))).result()).toMatchObject({ outcome: "completed" });
    const a = await conversation.send(told("A", "long"));
    await speaks(a);
    const b = await conversation.send(told("B"), { whenBusy: "rollback" });
    expect(await a.result()).toMatchObject({ outcome: "rolled_back", reason: "superseded" });
    expect(await b.result()).toMatchObject({ outcome: "completed", text: "to B" });
    const asked = JSON.stringify(stage.sim.modelRequests().at(-1)?.body);
    expect(asked).toContain(told("before"));
    expect(asked).toContain("to before");
    expect(asked).not.toContain("«A");
    expect(asked).not.toContain("to A");
    const shown: unknown[] = [];
    for await (const { content, struck } of conversation.messages()) shown.push([content.slice(0, 9), struck]);
    expect(shown).toEqual([
      [told("before").slice(0, 9), false],
      ["to before", false],
      [told("A", "long").slice(0, 9), true],
      // As far as it had come: `speaks` waits for its first token.
      [expect.stringMatching(/^to( A|\s*$)/), true],
      [told("B"), false],
      ["to B", false],
    ]);
    expect(await (await conversation.send(told("C"))).result()).toMatchObject({ text: "to C" });
    expect(JSON.stringify(stage.sim.modelRequests().at(-1)?.body)).not.toContain("«A");
  });
});

test("a turn that changed something outside cannot be undone: it ends as an interrupt and says so", async () => {
  const { stage, server, open } = await setDesk(stack, "write");
  stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph", ["desk/wait"]);
  const a = await conversation.send(told("A", "wait", "long"));
  await server.waitFor((calls) => calls.length === 1, 20_000);
  open();
  await speaks(a);
  const b = await conversation.send(told("B"), { whenBusy: "rollback" });
  expect(await a.result()).toMatchObject({ outcome: "cancelled", reason: "superseded" });
  expect(await b.result()).toMatchObject({ outcome: "completed", text: "to B" });
  const ended = (await logOf(conversation)).find((event) => event.type === "run.finished" && event.runId === a.id);
  expect(ended).toMatchObject({ outcome: "cancelled", rollback: "interrupted" });
  for await (const { struck } of conversation.messages()) expect(struck).toBe(false);
  expect(JSON.stringify(stage.sim.modelRequests().at(-1)?.body)).toContain(told("A", "wait", "long"));
});
