import { expect, it } from "vitest";
import { BoundSlots } from "./bound-slots.ts";

function boundTo(snapshotHash: string, generation = 1) {
  const limits = { modelCallCount: 1, toolCallCount: 1, wallClockMs: 1 };
  const agent = {
    agentId: "agt_1",
    agentName: "a",
    revision: 1,
    runtime: "langgraph",
    instructions: "",
    model: "sim/x",
  };
  return {
    conversationId: "cnv_1",
    generation,
    snapshotHash,
    snapshot: { ...agent, maxOutputTokens: 1, tools: [], limits },
  };
}

it("knows under which generation a slot was bound last", () => {
  const slots = new BoundSlots();
  slots.note("slot", boundTo("h", 3));
  expect(slots.has("slot", { conversationId: "cnv_1", generation: 3 })).toBe(true);
  expect(slots.has("slot", { conversationId: "cnv_1", generation: 4 })).toBe(false);
  expect(slots.has("slot", { conversationId: "cnv_2", generation: 3 })).toBe(false);
  expect(slots.has("other", { conversationId: "cnv_1", generation: 3 })).toBe(false);
  slots.note("slot", boundTo("h", 5));
  expect(slots.has("slot", { conversationId: "cnv_1", generation: 3 })).toBe(false);
});

it("knows the newest snapshot of each slot, and forgets the slot that was bound the longest ago", () => {
  const slots = new BoundSlots();
  slots.note("kept", boundTo("old"));
  slots.note("first", boundTo("first"));
  for (let count = 0; count < 1_998; count += 1) {
    slots.note(`slot ${count}`, boundTo("other"));
  }
  slots.note("kept", boundTo("new"));
  expect(slots.find("first")?.snapshotHash).toBe("first");
  slots.note("one more", boundTo("other"));
  expect(slots.find("first")).toBeUndefined();
  expect(slots.find("kept")?.snapshotHash).toBe("new");
  expect(slots.find("unknown")).toBeUndefined();
});
