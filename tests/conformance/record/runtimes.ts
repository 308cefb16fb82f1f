/** A transcript is its runtime's: when an agent gets another one, the next turn starts over from the history. */
import { expect, it } from "vitest";
import type { BenchProcess, RecordBench, Started } from "./bench.ts";
import { bind, entry, finish, load, start, startIn } from "./story.ts";

/** A turn of this conversation with another runtime than its first one. */
async function elsewhere(before: Started, process: BenchProcess, runtime = "another"): Promise<Started> {
  return await startIn({ ...before.place, runtime }, process);
}

async function answered(bench: RecordBench, process: BenchProcess): Promise<Started> {
  const first = await start(bench, process);
  await process.gates.appendTranscript(first.tokenHash, [entry("a")]);
  await finish(first.ownership);
  return first;
}

export function runtimesSuite(bench: () => RecordBench): void {
  it("another runtime finds no leaf, but a history; what it writes is a transcript of its own", async () => {
    const process = await bench().shared();
    const first = await answered(bench(), process);
    const second = await elsewhere(first, process);
    expect(second.ownership.claim).toMatchObject({ leaf: null, hasHistory: true });
    expect(await load(process, second.tokenHash)).toEqual([]);
    await process.gates.appendTranscript(second.tokenHash, [entry("b")]);
    expect(await load(process, second.tokenHash)).toEqual(["b"]);
    await finish(second.ownership, { rung: "rebuilt" });
    const third = await elsewhere(first, process);
    expect([third.ownership.claim.leaf, await load(process, third.tokenHash)]).toEqual(["b", ["b"]]);
    await finish(third.ownership, { rung: "native" });
    const back = await startIn(first.place, process);
    expect(back.ownership.claim).toMatchObject({ leaf: null, hasHistory: true });
    expect(await load(process, back.tokenHash)).toEqual([]);
  });

  it("a turn of another runtime that fails leaves the transcript to the one that wrote it", async () => {
    const process = await bench().shared();
    const first = await answered(bench(), process);
    const second = await elsewhere(first, process);
    await process.gates.appendTranscript(second.tokenHash, [entry("b")]);
    const failure = { outcome: "failed", reason: "internal", answer: null } as const;
    await finish(second.ownership, { ...failure, rung: "rebuilt", continuity: "kept", leaf: null, digest: null });
    const back = await startIn(first.place, process);
    expect([back.ownership.claim.leaf, await load(process, back.tokenHash)]).toEqual(["a", ["a"]]);
  });

  it("a turn of another runtime that is gone on with leaves only its own entries behind", async () => {
    const process = await bench().shared();
    const first = await answered(bench(), process);
    const second = await elsewhere(first, process);
    await process.gates.appendTranscript(second.tokenHash, [entry("b")]);
    const next = await bind(second.place, await second.ownership.changeWorker({ attemptLimit: 5 }));
    expect(await next.ownership.takeOver({ adopt: true })).toMatchObject({ leaf: "b" });
    expect(await load(process, next.tokenHash)).toEqual(["b"]);
    await process.gates.appendTranscript(next.tokenHash, [entry("c")]);
    await finish(next.ownership, { rung: "repaired" });
    const third = await elsewhere(first, process);
    expect([third.ownership.claim.leaf, await load(process, third.tokenHash)]).toEqual(["c", ["b", "c"]]);
  });

  it("a transcript without any answer is a history as well", async () => {
    const process = await bench().shared();
    const first = await start(bench(), process);
    await process.gates.appendTranscript(first.tokenHash, [entry("a")]);
    await finish(first.ownership, { outcome: "cancelled", reason: "user_cancel", answer: null });
    const second = await elsewhere(first, process);
    expect(second.ownership.claim).toMatchObject({ leaf: null, hasHistory: true });
  });
}
