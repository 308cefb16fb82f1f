import { expect, it } from "vitest";
import type { RecordBench } from "./bench.ts";
import {
  bind,
  codeOf,
  command,
  conclusion,
  entry,
  finalization,
  finish,
  newId,
  openModel,
  openTool,
  propose,
  proposal,
  settlement,
  start,
  startIn,
  toolOutcome,
  load,
} from "./story.ts";

export function gatesSuite(bench: () => RecordBench): void {
  it("a slot says what it is bound to, and nothing once its owner is gone", async () => {
    const process = await bench().shared();
    const { place, runId, ownership, tokenHash } = await start(bench(), process);
    const view = await process.gates.slot(tokenHash);
    expect(view).toMatchObject({
      conversationId: place.conversationId,
      run: { runId, generation: ownership.claim.generation },
    });
    expect(view.snapshot).toEqual(ownership.claim.snapshot);
    await finish(ownership);
    expect((await process.gates.slot(tokenHash)).run).toBeNull();
    expect(await codeOf(openModel(process, tokenHash))).toBe("slot_unknown");
    expect(await codeOf(process.gates.slot("f".repeat(64)))).toBe("slot_unknown");
  });

  it("authorises nothing under a stale generation, after a cancel, or for a gate that has left", async () => {
    const process = await bench().shared();
    const { place, runId, ownership, tokenHash } = await start(bench(), process);
    const gone = await bench().process();
    await gone.processes.unregister(gone.incarnation);
    expect(await codeOf(openModel(gone, tokenHash))).not.toBe("accepted");
    await openModel(process, tokenHash);
    await process.admission.requestCancel({ tenantId: place.tenantId, runId, actor: command(place).actor });
    expect(await codeOf(openModel(process, tokenHash))).toBe("run_cancelled");
    const next = await ownership.changeWorker({ attemptLimit: 5 });
    expect(["stale_generation", "slot_unknown"]).toContain(await codeOf(openModel(process, tokenHash)));
    expect(["stale_generation", "slot_unknown"]).toContain(
      await codeOf(process.gates.appendTranscript(tokenHash, [entry("late")])),
    );
    const bound = await bind(place, next);
    expect(await codeOf(openModel(process, bound.tokenHash))).toBe("run_cancelled");
  });

  it("settles a model call once, tells its usage, and answers a second settlement as the first", async () => {
    const process = await bench().shared();
    const { place, tokenHash } = await start(bench(), process);
    const modelCallId = await openModel(process, tokenHash);
    const call = proposal();
    expect(await process.gates.settleModelCall(settlement(modelCallId, [call]))).toEqual({ proposalsAccepted: true });
    const before = await bench().events(place);
    expect(before.at(-1)).toMatchObject({
      type: "usage.recorded",
      itemId: modelCallId,
      costMicros: 5,
      estimated: false,
    });
    expect(await process.gates.settleModelCall(settlement(modelCallId, [call]))).toEqual({ proposalsAccepted: true });
    expect(await bench().events(place)).toEqual(before);
    // A call whose intent was never recorded is nobody's.
    const never = settlement(newId("modelCall"));
    expect(await process.gates.settleModelCall(never)).toEqual({ proposalsAccepted: false });
  });

  it("executes only what was proposed, once, and answers again from the ledger", async () => {
    const process = await bench().shared();
    const { place, tokenHash } = await start(bench(), process);
    const call = proposal();
    expect(await codeOf(openTool(process, tokenHash, call))).toBe("tool_not_proposed");
    expect(await propose(process, tokenHash, [call])).toBe(true);
    const grant = await openTool(process, tokenHash, call);
    expect(grant).toMatchObject({ kind: "execute", toolCallId: call.toolCallId, argumentsJson: call.argumentsJson });
    await process.gates.settleToolCall(toolOutcome(call));
    await process.gates.settleToolCall(toolOutcome(call, "failed"));
    expect(await openTool(process, tokenHash, call)).toMatchObject({
      kind: "replay",
      state: "succeeded",
      resultJson: '"succeeded"',
    });
    const other = { ...call, argumentsDigest: "e".repeat(64) };
    expect(await codeOf(openTool(process, tokenHash, other))).toBe("tool_not_proposed");
    const told = (await bench().events(place)).filter((event) => event.type.startsWith("tool."));
    expect(told.map(({ type }) => type)).toEqual(["tool.started", "tool.finished"]);
  });

  it("a call that outlives its run is closed for readers with the run, and tells its outcome as a newer revision", async () => {
    const process = await bench().shared();
    const { place, runId, ownership, tokenHash } = await start(bench(), process);
    const call = proposal({ effect: "irreversible" });
    await propose(process, tokenHash, [call]);
    await openTool(process, tokenHash, call);
    expect(await process.gates.cancelledRuns([runId])).toEqual([]);
    await process.admission.requestCancel({ tenantId: place.tenantId, runId, actor: command(place).actor });
    expect(await process.gates.cancelledRuns([runId, newId("run")])).toEqual([runId]);
    await finish(ownership, { outcome: "cancelled", reason: "user_cancel", answer: null });
    expect(await process.gates.cancelledRuns([runId])).toEqual([runId]);
    const told = async () =>
      (await bench().events(place)).flatMap((event) =>
        event.type === "tool.finished" ? [event.state] : event.type === "run.finished" ? ["run"] : [],
      );
    expect(await told()).toEqual(["unknown", "run"]);
    await process.gates.settleToolCall(toolOutcome(call));
    expect(await told()).toEqual(["unknown", "run", "succeeded"]);
    const revisions = (await bench().events(place)).flatMap((event) =>
      event.itemId === call.toolCallId ? [event.revision] : [],
    );
    expect(revisions).toEqual(revisions.toSorted((left, right) => left - right));
    expect(new Set(revisions).size).toBe(3);
  });

  it("an engine that sends no id is matched by tool and arguments", async () => {
    const process = await bench().shared();
    const { tokenHash } = await start(bench(), process);
    const [one, two] = [proposal(), proposal()];
    await propose(process, tokenHash, [one, two]);
    const open = () =>
      process.gates.openToolCall({
        ...one,
        tokenHash,
        process: process.incarnation,
        toolUseId: null,
        policyVersion: null,
      });
    const grants = [await open(), await open()];
    expect(grants.map(({ toolCallId }) => toolCallId)).toEqual([one.toolCallId, two.toolCallId]);
    expect(await codeOf(open())).not.toBe("accepted");
  });

  it("tells a gate which calls it has begun for an intent, and no other gate", async () => {
    const process = await bench().shared();
    const other = await bench().process();
    const { runId, tokenHash } = await start(bench(), process);
    const [one, two] = [proposal(), proposal()];
    await propose(process, tokenHash, [one, two]);
    const begun = ({ incarnation }: { readonly incarnation: number }, toolUseId: string | null) => {
      const { name, argumentsDigest } = one;
      return process.gates.begunToolCalls({ runId, process: incarnation, toolUseId, name, argumentsDigest });
    };
    expect(await begun(process, one.toolUseId)).toEqual([]);
    await openTool(process, tokenHash, one);
    expect(await begun(process, one.toolUseId)).toEqual([one.toolCallId]);
    expect(await begun(process, two.toolUseId)).toEqual([]);
    expect(await begun(process, null)).toEqual([one.toolCallId]);
    expect(await begun(other, null)).toEqual([]);
    await process.gates.settleToolCall(toolOutcome(one));
    expect(await begun(process, one.toolUseId)).toEqual([]);
  });

  it("denies what the agent does not have, and tells it", async () => {
    const process = await bench().shared();
    const { place, tokenHash } = await start(bench(), process);
    const call = proposal({ name: "rm__all", server: null, tool: null, definitionHash: null, effect: "irreversible" });
    await propose(process, tokenHash, [call]);
    expect(await codeOf(openTool(process, tokenHash, call))).toBe("tool_not_allowed");
    const denied = (await bench().events(place)).find((event) => event.type === "tool.finished");
    expect(denied).toMatchObject({ toolCallId: call.toolCallId, state: "denied" });
  });

  it("a gate's own denial closes the proposal", async () => {
    const process = await bench().shared();
    const { place, tokenHash } = await start(bench(), process);
    const call = proposal();
    await propose(process, tokenHash, [call]);
    const { toolUseId, name, argumentsDigest } = call;
    const denial = { tokenHash, process: process.incarnation, toolUseId, name, argumentsDigest };
    await process.gates.denyToolCall({ ...denial, code: "tool_drifted", reason: "It changed." });
    const denied = (await bench().events(place)).find((event) => event.type === "tool.finished");
    expect(denied).toMatchObject({ toolCallId: call.toolCallId, state: "denied", denial: "It changed." });
    expect(await openTool(process, tokenHash, call)).toMatchObject({ kind: "replay", state: "denied" });
  });

  it("refuses a message whole that gives a known id other arguments", async () => {
    const process = await bench().shared();
    const { tokenHash } = await start(bench(), process);
    const call = proposal();
    await propose(process, tokenHash, [call]);
    const forged = { ...proposal({ argumentsJson: '{"path":"b"}' }), toolUseId: call.toolUseId };
    const innocent = proposal();
    expect(await propose(process, tokenHash, [innocent, forged])).toBe(false);
    expect(await codeOf(openTool(process, tokenHash, innocent))).toBe("tool_not_proposed");
  });

  it("an effect is not repeated when its turn runs again under a new call id", async () => {
    const process = await bench().shared();
    const { place, ownership, tokenHash } = await start(bench(), process);
    const paid = proposal({ effect: "irreversible" });
    await propose(process, tokenHash, [paid]);
    await openTool(process, tokenHash, paid);
    await process.gates.settleToolCall(toolOutcome(paid));
    const next = await bind(place, await ownership.changeWorker({ attemptLimit: 5 }));
    expect(next.ownership.claim.outcomeUnknown).toBe(false);
    const [again, another] = [proposal({ effect: "irreversible" }), proposal({ effect: "irreversible" })];
    await propose(process, next.tokenHash, [again, another]);
    expect(await openTool(process, next.tokenHash, again)).toMatchObject({ kind: "replay", resultJson: '"succeeded"' });
    expect(await openTool(process, next.tokenHash, another)).toMatchObject({ kind: "execute" });
  });

  it("a settlement belongs to its call, also after the run has ended", async () => {
    const process = await bench().shared();
    const { place, ownership, tokenHash } = await start(bench(), process);
    const modelCallId = await openModel(process, tokenHash);
    await finish(ownership, { outcome: "failed", reason: "internal", answer: null });
    expect(await process.gates.settleModelCall(settlement(modelCallId, [proposal()]))).toEqual({
      proposalsAccepted: false,
    });
    const events = await bench().events(place);
    expect(events.at(-1)).toMatchObject({ type: "usage.recorded", itemId: modelCallId });
    expect(events.filter((event) => event.type === "run.finished")).toHaveLength(1);
  });

  it("the transcript moves, is kept or is broken as the finalization says", async () => {
    const process = await bench().shared();
    const first = await start(bench(), process);
    const { place } = first;
    expect(await process.gates.appendTranscript(first.tokenHash, [entry("a"), entry("b")])).toEqual({ leaf: "b" });
    expect(await process.gates.appendTranscript(first.tokenHash, [entry("b", "not again")])).toEqual({ leaf: "b" });
    await first.ownership.seal(conclusion(first.ownership));
    const elsewhere = finalization({ continuity: "moved", leaf: "a", digest: "0".repeat(64) });
    expect(await codeOf(first.ownership.finish(elsewhere))).not.toBe("accepted");
    await finish(first.ownership);
    const second = await startIn(place, process);
    expect(second.ownership.claim.leaf).toBe("b");
    await process.gates.appendTranscript(second.tokenHash, [entry("c")]);
    expect(await load(process, second.tokenHash)).toEqual(["a", "b", "c"]);
    await finish(second.ownership, {
      continuity: "kept",
      leaf: null,
      digest: null,
      outcome: "failed",
      reason: "internal",
      answer: null,
    });
    const third = await startIn(place, process);
    expect(await load(process, third.tokenHash)).toEqual(["a", "b"]);
    await finish(third.ownership, { continuity: "broken", leaf: null, digest: null });
    const fourth = await startIn(place, process);
    expect([fourth.ownership.claim.leaf, await load(process, fourth.tokenHash)]).toEqual([null, []]);
  });

  it("a takeover sees what was finalized and not what the lost turn wrote", async () => {
    const process = await bench().shared();
    const first = await start(bench(), process);
    await process.gates.appendTranscript(first.tokenHash, [entry("a")]);
    await finish(first.ownership);
    const second = await startIn(first.place, process);
    await process.gates.appendTranscript(second.tokenHash, [entry("lost")]);
    const next = await bind(first.place, await second.ownership.changeWorker({ attemptLimit: 5 }));
    expect(await load(process, next.tokenHash)).toEqual(["a"]);
    await process.gates.appendTranscript(next.tokenHash, [entry("b")]);
    await finish(next.ownership);
    const third = await startIn(first.place, process);
    expect(await load(process, third.tokenHash)).toEqual(["a", "b"]);
  });

  it("a turn that was rebuilt leaves only its own entries behind", async () => {
    const process = await bench().shared();
    const first = await start(bench(), process);
    await process.gates.appendTranscript(first.tokenHash, [entry("a")]);
    await finish(first.ownership);
    const second = await startIn(first.place, process);
    await process.gates.appendTranscript(second.tokenHash, [entry("anew")]);
    await finish(second.ownership, { rung: "rebuilt" });
    const third = await startIn(first.place, process);
    expect([third.ownership.claim.leaf, await load(process, third.tokenHash)]).toEqual(["anew", ["anew"]]);
  });

  it("a transcript that does not agree with its digest is not read", async () => {
    const process = await bench().shared();
    const first = await start(bench(), process);
    await process.gates.appendTranscript(first.tokenHash, [entry("a")]);
    await finish(first.ownership);
    await bench().corruptTranscript(first.place, "a");
    const second = await startIn(first.place, process);
    expect(await codeOf(load(process, second.tokenHash))).toBe("transcript_corrupt");
  });
}
