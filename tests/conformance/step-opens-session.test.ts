/** A step that brings its session along: one call opens it and performs the step. */
import { StepResult_Outcome } from "@signalbox/contract/worker-protocol";
import { playMessage } from "@signalbox/testkit";
import { describe, expect, it } from "vitest";
import { executeStep, readStep, type SessionOrder, type Transports } from "./support/worker-client.ts";
import { codeOf, CONVERSATION, platform, scene, type Scene } from "./support/worker-scene.ts";

function stepOpening(made: Scene, text: string, session: Partial<SessionOrder> = {}) {
  const { client, slotToken } = made;
  const place = { conversationId: CONVERSATION, generation: 1 };
  const order = { ...place, slotToken, gates: { recordUrl: platform().url }, ...session };
  const { generation } = order;
  return readStep(executeStep(client, { ...place, generation, text, session: order }));
}

describe.each<Transports>(["h2c", "in memory"])("a step that brings its session along, %s", (over) => {
  it("says first how the session was opened, then what the step says", async () => {
    const made = await scene(over);
    const { events, results } = await stepOpening(made, playMessage([{ say: "Hello there" }]));
    expect(events[0]).toMatchObject({ case: "opened", value: { rebound: false, leaf: "" } });
    expect(events.filter((event) => event.case === "opened")).toHaveLength(1);
    expect(results).toMatchObject([{ outcome: StepResult_Outcome.DONE, answer: "Hello there" }]);
    const again = await made.step(playMessage([{ sayRemembered: true }]));
    expect([again.events[0]?.case, again.result.answer]).toEqual(["textDelta", "2"]);
  });

  it("rebinds a warm session as opening it would", async () => {
    const made = await scene(over);
    const { leaf } = (await stepOpening(made, "first")).result;
    const next = await stepOpening(made, playMessage([{ sayRemembered: true }]), {
      generation: 2,
      rung: "native",
      leaf,
    });
    expect(next.events[0]).toMatchObject({ case: "opened", value: { rebound: true, leaf } });
    expect(next.result.answer).toBe("2");
  });

  it("is refused as opening would be, and says nothing", async () => {
    const made = await scene(over);
    const refused = (session: Partial<SessionOrder>) => codeOf(stepOpening(made, "hi", session));
    await expect(refused({ rung: "native", leaf: "nowhere" })).resolves.toBe("transcript_corrupt");
    await expect(refused({ snapshotHash: "another" })).resolves.toBe("snapshot_mismatch");
    await stepOpening(made, "hi", { generation: 5 });
    await expect(refused({ generation: 4 })).resolves.toBe("stale_generation");
  });

  it("brings its own session and no other", async () => {
    const made = await scene(over);
    const place = { conversationId: CONVERSATION, generation: 1, slotToken: made.slotToken };
    const foreign = { ...place, conversationId: "cnv_00000000000070008000000000000002" };
    const step = executeStep(made.client, { ...place, text: "hi", session: foreign });
    await expect(codeOf(readStep(step))).resolves.toBe("invalid_request");
    const late = executeStep(made.client, { ...place, text: "hi", session: { ...place, generation: 2 } });
    await expect(codeOf(readStep(late))).resolves.toBe("invalid_request");
  });
});
