/** What the record tells whoever judges the calls of a run. */
import type { HoldId, ToolCallId } from "@signalbox/contract";
import { callVerdict, type FactsRequest, type KeptFacts, type Proposal } from "@signalbox/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createPolicyRecord } from "../../../packages/server/src/channels/truth/policy-record.ts";
import { ACTOR, codeOf, newId, proposalOf, sha256, startedRun } from "./record-parts.ts";
import { RecordWorld, type Bound, type RecordProcess } from "./record-world.ts";

let world: RecordWorld;
let process: RecordProcess;

beforeAll(async () => {
  world = await RecordWorld.open();
  await world.keyOf(ACTOR.keyId);
  process = await world.process();
});
afterAll(async () => world[Symbol.asyncDispose]());

const ALL: Pick<FactsRequest, "besides" | "needs" | "asOf"> = {
  besides: [],
  needs: { sources: true, history: true },
  asOf: null,
};

function factsOf({ ownership }: Bound, changes: Partial<FactsRequest> = {}): Promise<KeptFacts> {
  return createPolicyRecord(process.pools.run).facts({ runId: ownership.claim.runId, ...ALL, ...changes });
}

async function boundRun(): Promise<Bound> {
  return process.bind((await startedRun(process, await world.conversation(), { text: "Pay Ann 50." })).ownership);
}

async function answered(bound: Bound, call: Proposal, resultJson: string): Promise<void> {
  const grant = await process.openTool(bound, call);
  if (!("toolCallId" in grant)) throw new Error("the call was not granted");
  const { toolCallId } = grant as { readonly toolCallId: ToolCallId };
  await process.gates.settleToolCall({
    toolCallId,
    state: "succeeded",
    errorCode: null,
    resultJson,
    resultSummary: "",
  });
}

describe("what is known of a run whose calls are judged", () => {
  it("is what people wrote, what tools answered, and the calls of the run in their order", async () => {
    const bound = await boundRun();
    const [read, write] = [
      proposalOf(),
      proposalOf({ name: "bank__pay", server: "bank", tool: "pay", effect: "write" }),
    ];
    await process.propose(bound, [read, write]);
    await answered(bound, read, '{"content":[]}');
    const { texts, areTextsCut, history } = await factsOf(bound);
    expect(texts).toEqual([
      { kind: "user", server: null, tool: null, effect: null, text: "Pay Ann 50." },
      { kind: "tool", server: "files", tool: "read", effect: "read", text: '{"content":[]}' },
    ]);
    expect(areTextsCut).toBe(false);
    expect(history.map(({ name, state }) => [name, state])).toEqual([
      ["files__read", "succeeded"],
      ["bank__pay", "proposed"],
    ]);
  });

  it("is no more than what was asked for", async () => {
    const bound = await boundRun();
    const call = proposalOf();
    await process.propose(bound, [call]);
    const nothing = await factsOf(bound, { needs: { sources: false, history: false } });
    expect(nothing).toMatchObject({ texts: [], history: [], areTextsCut: false });
    expect((await factsOf(bound, { besides: [call.toolCallId] })).history).toEqual([]);
    expect(await codeOf(createPolicyRecord(process.pools.run).facts({ runId: newId("run"), ...ALL }))).toBe(
      "not_found",
    );
  });

  it("says of the past what had been proposed and answered by then", async () => {
    const bound = await boundRun();
    const [first, second] = [proposalOf(), proposalOf()];
    await process.propose(bound, [first]);
    await process.propose(bound, [second]);
    await answered(bound, first, '{"content":[]}');
    const before = await factsOf(bound, { asOf: second.toolCallId });
    expect(before.texts.map(({ kind }) => kind)).toEqual(["user"]);
    expect(before.history).toHaveLength(1);
  });

  it("says that there was more than it tells", async () => {
    const bound = await boundRun();
    const call = proposalOf();
    await process.propose(bound, [call]);
    await answered(bound, call, JSON.stringify("x".repeat(70_000)));
    const { texts, areTextsCut } = await factsOf(bound);
    expect(areTextsCut).toBe(true);
    expect(texts.at(-1)!.text).toHaveLength(64 * 1024);
  });

  it("counts what a person had a call made with, and not what the model had proposed", async () => {
    const bound = await boundRun();
    const argumentsJson = '{"amount":50,"to":"Ann"}';
    const callDigest = sha256(argumentsJson);
    const verdict = callVerdict({ verdict: "ask", reason: "A payment." });
    const call = proposalOf({
      name: "bank__pay",
      server: "bank",
      tool: "pay",
      effect: "irreversible",
      argumentsJson,
      callDigest,
      judged: { ...verdict, callDigest, policyVersion: "p" },
    });
    await process.propose(bound, [call]);
    expect(await codeOf(process.openTool(bound, call))).toBe("run_suspended");
    const held = "select id from signalbox.hold where run_id = $1";
    const { id } = await world.one<{ id: HoldId }>(held, [bound.ownership.claim.runId]);
    const edited = { amount: 180, to: "Ann" };
    await process.operators.decide({
      tenantId: "default",
      actor: ACTOR,
      holdId: id,
      decision: "edit",
      response: { arguments: edited, argumentsJson: JSON.stringify(edited), digest: sha256("edited") },
      digest: callDigest,
    });
    expect((await factsOf(bound)).history).toMatchObject([{ name: "bank__pay", arguments: edited }]);
  });
});
