import type { Proposal } from "@signalbox/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { proves } from "../../setup/proves.ts";
import {
  codeOf,
  finishRun,
  modelSettlement,
  newId,
  proposalOf,
  sha256,
  snapshotOf,
  startedRun,
} from "./record-parts.ts";
import { RecordWorld, type Bound, type RecordProcess } from "./record-world.ts";

let world: RecordWorld;
let process: RecordProcess;

beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function boundRun(limits: Parameters<typeof snapshotOf>[1] = {}): Promise<Bound> {
  const place = await world.conversation();
  const { ownership } = await startedRun(process, place, { snapshot: snapshotOf(place, limits) });
  return process.bind(ownership);
}

async function execute(bound: Bound, proposal: Proposal, result = '{"content":[]}') {
  const grant = await process.openTool(bound, proposal);
  expect(grant.kind).toBe("execute");
  await process.gates.settleToolCall({
    toolCallId: grant.toolCallId,
    state: "succeeded",
    resultJson: result,
    resultSummary: "done",
    errorCode: null,
  });
  return grant;
}

async function typesOf(bound: Bound, itemId: string) {
  const rows = await world.rows<{ type: string; data: string }>(
    "select type, data from signalbox.event where conversation_id = $1 and item_id = $2 order by sequence",
    [bound.ownership.claim.conversationId, itemId],
  );
  return rows.map((row) => [row.type, JSON.parse(row.data).state ?? null]);
}

it("a slot shows the run it is bound to, with the snapshot", async () => {
  const bound = await boundRun();
  const { claim } = bound.ownership;
  expect(await process.gates.slot(bound.tokenHash)).toEqual({
    tenantId: claim.tenantId,
    conversationId: claim.conversationId,
    snapshot: claim.snapshot,
    snapshotHash: claim.snapshotHash,
    actor: claim.actor,
    run: {
      runId: claim.runId,
      messageId: claim.messageId,
      generation: claim.generation,
      traceId: claim.traceId,
    },
  });
});

it("a model call is counted, limited and settled with its usage", async () => {
  const bound = await boundRun({ modelCallCount: 1 });
  const modelCallId = await process.openModel(bound.tokenHash);
  expect(await codeOf(process.openModel(bound.tokenHash))).toBe("run_timeout");
  await process.gates.settleModelCall(modelSettlement(modelCallId));
  const event = await world.one<{ data: string }>("select data from signalbox.event where item_id = $1", [modelCallId]);
  expect(JSON.parse(event.data)).toEqual({
    modelCallId,
    requestedModel: "sim/echo",
    servedModel: "echo",
    usage: { inputTokens: 10, outputTokens: 5, cacheReadTokens: 2, cacheWriteTokens: 1 },
    costMicros: 7,
    priceVersion: "v1",
    estimated: false,
  });
});

it("refuses a model call after the run's wall clock", async () => {
  const bound = await boundRun({ wallClockMs: 1 });
  await world.rows("update signalbox.run set started_at = started_at - interval '1 minute' where id = $1", [
    bound.ownership.claim.runId,
  ]);
  expect(await codeOf(process.openModel(bound.tokenHash))).toBe("run_timeout");
});

proves("INV-13", {
  title: "a call is closed exactly once, by whoever is first, and its usage is booked once",
  sabotages: ["settles_again"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "settles_again") {
      await own.sabotage("settle_model_call", "and state = 'executing'", "");
      await own.sabotage("settle_tool_call", "and state = 'executing'", "");
    }
    const gate = await own.process();
    const place = await own.conversation();
    const { ownership } = await startedRun(gate, place);
    const bound = await gate.bind(ownership);
    const proposal = proposalOf();
    const modelCallId = await gate.openModel(bound.tokenHash);
    const settlement = modelSettlement(modelCallId, [proposal]);
    const answers = await Promise.all([1, 2, 3].map(() => gate.gates.settleModelCall(settlement)));
    expect(answers).toEqual([1, 2, 3].map(() => ({ proposalsAccepted: true })));
    const grant = await gate.openTool(bound, proposal);
    const settle = (resultSummary: string) =>
      gate.gates.settleToolCall({
        toolCallId: grant.toolCallId,
        state: "succeeded",
        resultJson: "{}",
        resultSummary,
        errorCode: null,
      });
    await settle("first");
    await settle("second");
    const run = await own.one("select input_tokens, cost_micros from signalbox.run where id = $1", [
      ownership.claim.runId,
    ]);
    expect(run, "INV-13: booked once").toEqual({ input_tokens: 10, cost_micros: 7 });
    const closed = await own.rows<{ item_id: string }>(
      "select item_id from signalbox.event where type in ('usage.recorded', 'tool.finished')",
    );
    expect(closed.map((row) => row.item_id).toSorted(), "INV-13: one outcome per call").toEqual(
      [modelCallId, grant.toolCallId].toSorted(),
    );
    const call = await own.one("select result_summary from signalbox.tool_call where id = $1", [grant.toolCallId]);
    expect(call, "INV-13: the first outcome stays").toEqual({ result_summary: "first" });
  },
});

it("a settlement of a call that was never opened changes nothing", async () => {
  expect(await process.gates.settleModelCall(modelSettlement(newId("modelCall")))).toEqual({
    proposalsAccepted: false,
  });
  await process.gates.settleToolCall({
    toolCallId: newId("toolCall"),
    state: "succeeded",
    resultJson: "{}",
    resultSummary: "",
    errorCode: null,
  });
});

it("a settlement after the run has ended still closes the call, and its proposals come to nothing", async () => {
  const bound = await boundRun();
  const modelCallId = await process.openModel(bound.tokenHash);
  await finishRun(bound.ownership);
  const settlement = modelSettlement(modelCallId, [proposalOf()]);
  expect(await process.gates.settleModelCall(settlement)).toEqual({ proposalsAccepted: false });
  expect(await world.rows("select from signalbox.tool_call where run_id = $1", [bound.ownership.claim.runId])).toEqual(
    [],
  );
});

it("executes only what was proposed, with the arguments that were proposed", async () => {
  const bound = await boundRun();
  const proposal = proposalOf();
  expect(await process.propose(bound, [proposal])).toBe(true);
  expect(await codeOf(process.openTool(bound, proposalOf()))).toBe("tool_not_proposed");
  expect(await codeOf(process.openTool(bound, { ...proposal, argumentsDigest: sha256("other") }))).toBe(
    "tool_not_proposed",
  );
  expect(await codeOf(process.openTool(bound, { ...proposal, name: "files__write" }))).toBe("tool_not_proposed");
  const grant = await process.openTool(bound, { ...proposal, name: "mcp__signalbox__files__read" });
  expect(grant).toEqual({
    kind: "execute",
    toolCallId: proposal.toolCallId,
    runId: bound.ownership.claim.runId,
    server: "files",
    tool: "read",
    effect: "read",
    argumentsJson: proposal.argumentsJson,
    isEdited: false,
    callDigest: null,
    conditions: null,
    idempotencyKey: proposal.toolCallId,
  });
  expect(await codeOf(process.openTool(bound, proposal)), "it is being executed").toBe("tool_outcome_unknown");
  expect(await typesOf(bound, proposal.toolCallId)).toEqual([["tool.started", null]]);
});

it("answers a repeated call from the ledger", async () => {
  const bound = await boundRun();
  const proposal = proposalOf();
  await process.propose(bound, [proposal]);
  await execute(bound, proposal, '{"content":["once"]}');
  expect(await process.openTool(bound, proposal)).toEqual({
    kind: "replay",
    toolCallId: proposal.toolCallId,
    state: "succeeded",
    resultJson: '{"content":["once"]}',
  });
});

it("an engine that sends no id is matched by tool and arguments, in the order of proposals", async () => {
  const bound = await boundRun();
  const [first, second] = [proposalOf(), proposalOf()];
  await process.propose(bound, [first, second]);
  const open = () =>
    process.gates.openToolCall({
      tokenHash: bound.tokenHash,
      process: process.incarnation,
      toolUseId: null,
      name: first.name,
      argumentsDigest: first.argumentsDigest,
      policyVersion: null,
    });
  expect([(await open()).toolCallId, (await open()).toolCallId]).toEqual([first.toolCallId, second.toolCallId]);
});

it("a tool the agent does not have is denied when it is proposed", async () => {
  const bound = await boundRun();
  const proposal = proposalOf({ name: "nothing__here", server: null, tool: null, definitionHash: null });
  expect(await process.propose(bound, [proposal])).toBe(true);
  await expect(process.openTool(bound, proposal)).rejects.toMatchObject({
    code: "tool_not_allowed",
    detail: "This agent has no tool of that name.",
  });
  expect(await typesOf(bound, proposal.toolCallId)).toEqual([["tool.finished", "denied"]]);
});

it("the gate's own denial closes a proposal, and is only audited for anything else", async () => {
  const bound = await boundRun();
  const proposal = proposalOf();
  await process.propose(bound, [proposal]);
  const { toolUseId, name, argumentsDigest } = proposal;
  const denial = {
    tokenHash: bound.tokenHash,
    process: process.incarnation,
    toolUseId,
    name,
    argumentsDigest,
    code: "tool_drifted",
    reason: "The tool changed.",
  } as const;
  await process.gates.denyToolCall(denial);
  await process.gates.denyToolCall({ ...denial, toolUseId: "toolu_unknown" });
  expect(await typesOf(bound, proposal.toolCallId)).toEqual([["tool.finished", "denied"]]);
  expect(await process.openTool(bound, proposal)).toMatchObject({ kind: "replay", state: "denied" });
  const audited = await world.rows("select from signalbox.audit_pending where run_id = $1 and action = 'tool_denied'", [
    bound.ownership.claim.runId,
  ]);
  expect(audited).toHaveLength(2);
});

it("refuses a message whole that gives a known id other arguments, or one id twice", async () => {
  const bound = await boundRun();
  const proposal = proposalOf();
  await process.propose(bound, [proposal]);
  const changed = proposalOf({ toolUseId: proposal.toolUseId, argumentsJson: '{"path":"b.txt"}' });
  const twin = proposalOf();
  expect(await process.propose(bound, [proposalOf(), changed])).toBe(false);
  expect(await process.propose(bound, [twin, { ...twin, toolCallId: newId("toolCall") }])).toBe(false);
  const calls = await world.rows("select id from signalbox.tool_call where run_id = $1", [bound.ownership.claim.runId]);
  expect(calls).toEqual([{ id: proposal.toolCallId }]);
});

it("a turn that runs again starts over what came to nothing and keeps what has an outcome", async () => {
  const bound = await boundRun();
  const [done, failed, open, lost] = [proposalOf(), proposalOf(), proposalOf(), proposalOf()];
  await process.propose(bound, [done, failed, open, lost]);
  await execute(bound, done, '"kept"');
  for (const [proposal, state] of [
    [failed, "failed"],
    [lost, "unknown"],
  ] as const) {
    const { toolCallId } = await process.openTool(bound, proposal);
    await process.gates.settleToolCall({ toolCallId, state, resultJson: "{}", resultSummary: "", errorCode: null });
  }
  const again = await process.bind(await bound.ownership.changeWorker({ attemptLimit: 5 }));
  expect(await process.propose(again, [done, failed, open, lost])).toBe(true);
  expect(await process.openTool(again, done)).toMatchObject({ kind: "replay", resultJson: '"kept"' });
  for (const proposal of [failed, open, lost]) {
    const grant = await process.openTool(again, proposal);
    expect(grant).toMatchObject({ kind: "execute", toolCallId: proposal.toolCallId });
  }
});

proves("INV-11", {
  title: "an effect of an earlier generation is not repeated under a new call id, and a lost one is never repeated",
  sabotages: ["forgets_effects", "repeats_what_was_lost"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "forgets_effects") {
      await own.sabotage("same_effect", "t.arguments_digest = p_call.arguments_digest", "false");
    } else if (sabotage === "repeats_what_was_lost") {
      await own.sabotage("start_tool_call", "v_before.state = 'unknown'", "false");
      await own.sabotage("same_effect", "t.state in ('succeeded', 'unknown')", "t.state = 'succeeded'");
    }
    const gate = await own.process();
    const place = await own.conversation();
    const { ownership } = await startedRun(gate, place);
    const bound = await gate.bind(ownership);
    const pay = (argumentsJson: string) =>
      proposalOf({ name: "bank__pay", server: "bank", tool: "pay", effect: "write", argumentsJson });
    const [one, two, lost] = [pay('{"n":1}'), pay('{"n":1}'), pay('{"n":2}')];
    await gate.propose(bound, [one, two, lost]);
    let executed = 0;
    for (const [proposal, state] of [
      [one, "succeeded"],
      [two, "succeeded"],
      [lost, "unknown"],
    ] as const) {
      const { toolCallId } = await gate.openTool(bound, proposal);
      executed += 1;
      await gate.gates.settleToolCall({
        toolCallId,
        state,
        resultJson: `"${executed}"`,
        resultSummary: "",
        errorCode: null,
      });
    }
    const next = await ownership.changeWorker({ attemptLimit: 5 });
    expect(next.claim.outcomeUnknown).toBe(true);
    const again = await gate.bind(next);
    const renewed = [pay('{"n":1}'), pay('{"n":1}'), pay('{"n":1}'), pay('{"n":2}')];
    await gate.propose(again, renewed);
    const outcomes = [];
    for (const proposal of renewed) {
      outcomes.push(
        await gate.openTool(again, proposal).then(
          (grant) => (grant.kind === "replay" ? grant.resultJson : grant.kind),
          (thrown: { code: string }) => thrown.code,
        ),
      );
    }
    // Two were paid and are answered one to one; the third is new; the lost one is not tried again.
    expect(outcomes, "INV-11").toEqual(['"1"', '"2"', "execute", "tool_outcome_unknown"]);
  },
});

it("a gate that was declared dead, or lost its presence, authorises nothing", async () => {
  const bound = await boundRun();
  const proposal = proposalOf();
  await process.propose(bound, [proposal]);
  const other = await world.process();
  await world.rows("update signalbox.process set dead_at = signalbox.clock() where incarnation = $1", [
    other.incarnation,
  ]);
  expect(await codeOf(other.openTool(bound, proposal))).toBe("stale_generation");
  expect(await codeOf(other.openModel(bound.tokenHash))).toBe("stale_generation");
  const gone = await world.process();
  await gone.processes[Symbol.asyncDispose]();
  expect(await codeOf(gone.openTool(bound, proposal))).toBe("database_unavailable");
});
