import type { AgentId } from "@signalbox/contract";
import { beforeEach, expect, it } from "vitest";
import { AnsweringCache } from "./answering-cache.ts";
import type { AnsweringRow } from "./answering-queries.ts";

const ROW: AnsweringRow = {
  // Never looked at as an id here.
  agentId: "agt_1" as AgentId,
  name: "support",
  revision: 1,
  runtime: "langgraph",
  definition: {},
  createdAtMs: 0,
  participant: "ada",
  pins: [],
};
const { participant: _, ...ANSWERING } = ROW;

let nowMs = 0;
let asked: string[] = [];
let answer: AnsweringRow | null = ROW;
let cache: AnsweringCache;

beforeEach(() => {
  nowMs = 0;
  asked = [];
  answer = ROW;
  const find = async (_viewer: object, conversationId: string) => {
    asked.push(conversationId);
    return answer;
  };
  cache = new AnsweringCache({ find }, () => nowMs);
});

const seenBy = (user: string | null, conversationId = "cnv_1", tenantId = "one") =>
  cache.find({ tenantId, user }, conversationId);

it("asks once in a second for an agent, in whichever of its conversations", async () => {
  expect(await seenBy(null)).toEqual(ANSWERING);
  cache.note("cnv_2", { tenantId: "one", participant: null, agentId: "agt_1" });
  nowMs = 999;
  expect(await seenBy(null)).toEqual(ANSWERING);
  expect(await seenBy("ada")).toEqual(ANSWERING);
  expect(await seenBy(null, "cnv_2")).toEqual(ANSWERING);
  expect(asked).toEqual(["cnv_1"]);
  nowMs = 1_000;
  answer = { ...ROW, revision: 2 };
  expect(await seenBy(null)).toMatchObject({ revision: 2 });
  expect(asked).toEqual(["cnv_1", "cnv_1"]);
});

it("leaves to the record whatever a viewer might not see", async () => {
  await seenBy(null);
  answer = null;
  expect(await seenBy("eve")).toBeNull();
  expect(await seenBy(null, "cnv_1", "two")).toBeNull();
  expect(await seenBy(null, "cnv_unknown")).toBeNull();
  cache.note("cnv_3", { tenantId: "one", participant: null, agentId: "agt_1" });
  expect(await seenBy("ada", "cnv_3")).toBeNull();
  expect(asked).toEqual(["cnv_1", "cnv_1", "cnv_1", "cnv_unknown", "cnv_3"]);
  expect(await seenBy("ada")).toEqual(ANSWERING);
});

it("forgets the conversation that was noted the longest ago", async () => {
  await seenBy(null);
  for (let count = 0; count < 10_000; count += 1) {
    cache.note(`cnv_new_${count}`, { tenantId: "one", participant: null, agentId: "agt_1" });
  }
  await seenBy(null, "cnv_new_9999");
  expect(asked).toHaveLength(1);
  await seenBy(null);
  expect(asked).toHaveLength(2);
});
