/** What a dead generation leaves, what becomes of it, and whose transcript a turn may continue. */
import { expect, it } from "vitest";
import type { BenchProcess, RecordBench, Started } from "./bench.ts";
import {
  bind,
  codeOf,
  entry,
  finish,
  load,
  newId,
  openModel,
  openTool,
  proposal,
  propose,
  settlement,
  start,
  startIn,
  text,
  toolOutcome,
  TURN,
} from "./story.ts";

interface Scene {
  readonly process: BenchProcess;
  readonly dead: Started;
}

/** One turn that ended behind `a`; the next one has written `b` and `c`. */
async function unfinished(bench: RecordBench): Promise<Scene> {
  const process = await bench.shared();
  const first = await start(bench, process);
  await process.gates.appendTranscript(first.tokenHash, [entry("a")]);
  await finish(first.ownership);
  const dead = await startIn(first.place, process);
  await process.gates.appendTranscript(dead.tokenHash, [entry("b"), entry("c")]);
  return { process, dead };
}

async function succeed({ dead }: Scene): Promise<Started> {
  return await bind(dead.place, await dead.ownership.changeWorker({ attemptLimit: 9 }));
}

export function inheritanceSuite(bench: () => RecordBench): void {
  it("a tail is adopted once, stays its adopter's, and is sealed as if it had written it", async () => {
    const scene = await unfinished(bench());
    const { process } = scene;
    const next = await succeed(scene);
    const adopted = await next.ownership.takeOver({ adopt: true });
    expect(adopted).toEqual({ openCallCount: 0, outcomeUnknown: false, leaf: "c", closedItems: [] });
    expect(await next.ownership.takeOver({ adopt: true })).toEqual(adopted);
    const late = process.gates.appendTranscript(scene.dead.tokenHash, [entry("late")]);
    expect(["stale_generation", "slot_unknown"]).toContain(await codeOf(late));
    expect(await codeOf(scene.dead.ownership.takeOver({ adopt: true }))).toBe("stale_generation");
    expect(await load(process, next.tokenHash)).toEqual(["a", "b", "c"]);
    await process.gates.appendTranscript(next.tokenHash, [entry("d")]);
    await finish(next.ownership, { rung: "repaired" });
    const after = await startIn(next.place, process);
    expect([after.ownership.claim.leaf, await load(process, after.tokenHash)]).toEqual(["d", ["a", "b", "c", "d"]]);
    const audited = await bench().auditActions(next.place);
    expect(audited.filter((action) => action === "transcript_adopted")).toHaveLength(1);
  });

  it("who does not mean to go on adopts nothing", async () => {
    const scene = await unfinished(bench());
    const next = await succeed(scene);
    expect(await next.ownership.takeOver({ adopt: false })).toMatchObject({ leaf: null });
    expect(await load(scene.process, next.tokenHash)).toEqual(["a"]);
  });

  it("only the newest of several tails is adopted", async () => {
    const scene = await unfinished(bench());
    const { process } = scene;
    const second = await succeed(scene);
    await process.gates.appendTranscript(second.tokenHash, [entry("b2")]);
    const third = await succeed({ process, dead: second });
    expect(await third.ownership.takeOver({ adopt: true })).toMatchObject({ leaf: "b2" });
    expect(await load(process, third.tokenHash)).toEqual(["a", "b2"]);
  });

  it("nothing is adopted while a call is open at a live gate", async () => {
    const scene = await unfinished(bench());
    const { process, dead } = scene;
    const call = proposal({ effect: "irreversible" });
    await propose(process, dead.tokenHash, [call]);
    await openTool(process, dead.tokenHash, call);
    const modelCallId = await openModel(process, dead.tokenHash);
    const next = await succeed(scene);
    const ask = () => next.ownership.takeOver({ adopt: true });
    expect(await ask()).toMatchObject({ openCallCount: 2, outcomeUnknown: true, leaf: null });
    await process.gates.settleModelCall(settlement(modelCallId));
    await process.gates.settleToolCall(toolOutcome(call));
    expect(await ask()).toMatchObject({ openCallCount: 0, outcomeUnknown: false, leaf: "c" });
  });

  it("tells which items were said to their end and still stand", async () => {
    const scene = await unfinished(bench());
    const [itemId, gone, open] = [newId("item"), newId("item"), newId("item")];
    await scene.dead.ownership.append(
      [
        text("whole", { itemId }),
        text("gone", { itemId: gone }),
        { type: "text.retracted", itemId: gone, revision: 2, data: { cause: "retry" } },
        { type: "text.delta", itemId: open, revision: 1, data: { offset: 0, text: "o" } },
      ],
      TURN,
    );
    const next = await succeed(scene);
    const { closedItems } = await next.ownership.takeOver({ adopt: true });
    expect(closedItems).toEqual([{ itemId, kind: "text", text: "whole" }]);
  });

  it("a tail that is dropped is gone, and its ids are free for the turn that runs again", async () => {
    const scene = await unfinished(bench());
    const { process } = scene;
    const next = await succeed(scene);
    await next.ownership.takeOver({ adopt: true });
    await next.ownership.dropTail();
    expect(await codeOf(scene.dead.ownership.dropTail())).toBe("stale_generation");
    expect(await load(process, next.tokenHash)).toEqual(["a"]);
    expect(await process.gates.appendTranscript(next.tokenHash, [entry("b", "anew")])).toEqual({ leaf: "b" });
    expect(await load(process, next.tokenHash)).toEqual(["a", "b"]);
    await finish(next.ownership);
    const after = await startIn(next.place, process);
    expect([after.ownership.claim.leaf, await load(process, after.tokenHash)]).toEqual(["b", ["a", "b"]]);
  });

  it("what is appended behind an entry takes the place of what stood there", async () => {
    const scene = await unfinished(bench());
    const { process } = scene;
    const next = await succeed(scene);
    await next.ownership.takeOver({ adopt: true });
    const put = (...[rows, behind]: readonly [rows: readonly string[], behind: string]) =>
      process.gates.appendTranscript(
        next.tokenHash,
        rows.map((id) => entry(id)),
        { cutBehind: behind },
      );
    expect(await put(["c", "d"], "b")).toEqual({ leaf: "d" });
    expect(await load(process, next.tokenHash)).toEqual(["a", "b", "c", "d"]);
    expect(await put([], "c")).toEqual({ leaf: "c" });
    expect(await codeOf(put(["e"], "d"))).toBe("transcript_corrupt");
    expect(await put(["b"], "a")).toEqual({ leaf: "b" });
    expect(await load(process, next.tokenHash)).toEqual(["a", "b"]);
    const late = process.gates.appendTranscript(scene.dead.tokenHash, [entry("late")], { cutBehind: "a" });
    expect(["stale_generation", "slot_unknown"]).toContain(await codeOf(late));
    await finish(next.ownership, { rung: "repaired" });
    const after = await startIn(next.place, process);
    expect(await load(process, after.tokenHash)).toEqual(["a", "b"]);
    // What is finalized is nobody's to cut.
    const beneath = process.gates.appendTranscript(after.tokenHash, [entry("e")], { cutBehind: "a" });
    expect(await codeOf(beneath)).toBe("transcript_corrupt");
  });

  it("a turn in which the engine began anew leaves behind what it reads no more, once it is true", async () => {
    const scene = await unfinished(bench());
    const { process, dead } = scene;
    await finish(dead.ownership);
    const compacted = await startIn(dead.place, process);
    const { gates } = process;
    await gates.appendTranscript(compacted.tokenHash, [entry("question")]);
    const compaction = { entryId: "anew", keptEntryIds: ["c", "question"] };
    const elsewhere = { entryId: "a", keptEntryIds: [] };
    const refused = gates.appendTranscript(compacted.tokenHash, [entry("lost")], { compaction: elsewhere });
    expect(await codeOf(refused)).toBe("transcript_corrupt");
    const rows = [entry("anew"), entry("answer")];
    expect(await gates.appendTranscript(compacted.tokenHash, rows, { compaction })).toEqual({ leaf: "answer" });
    const whole = ["a", "b", "c", "question", "anew", "answer"];
    expect(await load(process, compacted.tokenHash)).toEqual(whole);
    // Whoever goes on with the turn inherits that, too.
    const next = await succeed({ process, dead: compacted });
    expect(await next.ownership.takeOver({ adopt: true })).toMatchObject({ leaf: "answer" });
    expect(await load(process, next.tokenHash)).toEqual(whole);
    await finish(next.ownership, { rung: "repaired" });
    const after = await startIn(next.place, process);
    expect(after.ownership.claim.leaf).toBe("answer");
    expect(await load(process, after.tokenHash)).toEqual(["c", "question", "anew", "answer"]);
    await gates.appendTranscript(after.tokenHash, [entry("d")]);
    await finish(after.ownership);
    const last = await startIn(next.place, process);
    expect(await load(process, last.tokenHash)).toEqual(["c", "question", "anew", "answer", "d"]);
  });

  it("a compaction of a turn that did not become true leaves nothing behind", async () => {
    const scene = await unfinished(bench());
    const { process } = scene;
    await process.gates.appendTranscript(scene.dead.tokenHash, [entry("anew")], {
      compaction: { entryId: "anew", keptEntryIds: [] },
    });
    const next = await succeed(scene);
    await next.ownership.takeOver({ adopt: true });
    await next.ownership.dropTail();
    await process.gates.appendTranscript(next.tokenHash, [entry("d")]);
    await finish(next.ownership);
    const after = await startIn(next.place, process);
    expect(await load(process, after.tokenHash)).toEqual(["a", "d"]);
  });

  it("a look that was lost with its gate is taken again as the same call; anything else stays unknown", async () => {
    const scene = await unfinished(bench());
    const { process, dead } = scene;
    const gate = await bench().process();
    const [look, pay] = [proposal(), proposal({ effect: "irreversible" })];
    await propose(process, dead.tokenHash, [look, pay]);
    for (const call of [look, pay]) await openTool(gate, dead.tokenHash, call);
    await gate.die();
    await process.processes.sweep(process.incarnation);
    expect(await codeOf(openTool(process, dead.tokenHash, look))).toBe("tool_outcome_unknown");
    const next = await succeed(scene);
    const left = await next.ownership.takeOver({ adopt: true });
    expect(left).toMatchObject({ openCallCount: 0, outcomeUnknown: true, leaf: "c" });
    const paying = codeOf(openTool(process, next.tokenHash, pay));
    expect(["tool_outcome_unknown", "tool_not_proposed"]).toContain(await paying);
    const again = await openTool(process, next.tokenHash, look);
    expect(again).toMatchObject({ kind: "execute", toolCallId: look.toolCallId });
    await process.gates.settleToolCall(toolOutcome(look));
    expect(await openTool(process, next.tokenHash, look)).toMatchObject({ kind: "replay", state: "succeeded" });
    const told = (await bench().events(next.place)).filter((event) => event.itemId === look.toolCallId);
    expect(told.map((event) => (event.type === "tool.finished" ? event.state : event.type))).toEqual([
      "tool.started",
      "unknown",
      "tool.started",
      "succeeded",
    ]);
    const revisions = told.map((event) => event.revision ?? 0);
    expect(revisions).toEqual([...new Set(revisions)].sort((one, other) => one - other));
    const actions = await bench().auditActions(next.place);
    expect(actions.filter((action) => action === "tool_called")).toHaveLength(3);
  });

  it("tells what became of calls of its own run, and of no others", async () => {
    const scene = await unfinished(bench());
    const { process, dead } = scene;
    const [done, waiting] = [proposal(), proposal()];
    await propose(process, dead.tokenHash, [done, waiting]);
    await openTool(process, dead.tokenHash, done);
    await process.gates.settleToolCall(toolOutcome(done));
    const next = await succeed(scene);
    const ids = [done.toolUseId, waiting.toolUseId, "toolu_never"];
    expect(await process.gates.callOutcomes(next.tokenHash, ids)).toEqual([
      { toolUseId: done.toolUseId, state: "succeeded", resultJson: '"succeeded"' },
      { toolUseId: waiting.toolUseId, state: "proposed", resultJson: null },
    ]);
    const elsewhere = await start(bench(), process);
    expect(await process.gates.callOutcomes(elsewhere.tokenHash, ids)).toEqual([]);
    expect(["stale_generation", "slot_unknown"]).toContain(
      await codeOf(process.gates.callOutcomes(dead.tokenHash, ids)),
    );
  });
}
