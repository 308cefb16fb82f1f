/** What a turn did is not forgotten with its transcript: later turns are told of what the transcript lacks. */
import { expect, it } from "vitest";
import type { BenchProcess, RecordBench, Started } from "./bench.ts";
import { claimOne, command, entry, finish, openTool, proposal, propose, start, startIn, toolOutcome } from "./story.ts";

const FAILED = { outcome: "failed", reason: "provider_error", answer: null, continuity: "kept" } as const;

/** A turn that is in the transcript, and one after it that paid, looked something up, and is not. */
async function paidAndFailed(bench: RecordBench, process: BenchProcess): Promise<Started> {
  const first = await start(bench, process);
  await process.gates.appendTranscript(first.tokenHash, [entry("a")]);
  await finish(first.ownership);
  const second = await startIn(first.place, process);
  await payAndLook(process, second);
  await process.gates.appendTranscript(second.tokenHash, [entry("b")]);
  await finish(second.ownership, { ...FAILED, leaf: null, digest: null });
  return second;
}

async function payAndLook(process: BenchProcess, { tokenHash }: Started): Promise<void> {
  const pay = proposal({ effect: "irreversible" });
  const look = proposal();
  const unused = proposal();
  await propose(process, tokenHash, [pay, look, unused]);
  for (const call of [pay, look]) {
    await openTool(process, tokenHash, call);
    await process.gates.settleToolCall(toolOutcome(call));
  }
}

const PAID = { name: "pay__refund", argumentsJson: '{"path":"a.txt"}', state: "succeeded", resultSummary: "succeeded" };
const LOOKED = { ...PAID, name: "files__read" };
const MISSED = { text: "hello", outcome: "failed", reason: "provider_error", calls: [PAID, LOOKED] };

export function missedSuite(bench: () => RecordBench): void {
  it("a turn that is not in the transcript is told to the next ones, until one of them is", async () => {
    const process = await bench().shared();
    const { place } = await paidAndFailed(bench(), process);
    const third = await startIn(place, process);
    expect(third.ownership.claim).toMatchObject({ leaf: "a", missed: [MISSED] });
    await finish(third.ownership, { ...FAILED, leaf: null, digest: null });
    const fourth = await startIn(place, process);
    expect(fourth.ownership.claim.missed).toEqual([MISSED, { ...MISSED, calls: [] }]);
    await process.gates.appendTranscript(fourth.tokenHash, [entry("d")]);
    await finish(fourth.ownership);
    const fifth = await startIn(place, process);
    expect(fifth.ownership.claim).toMatchObject({ leaf: "d", missed: [] });
    await finish(fifth.ownership, { ...FAILED, leaf: null, digest: null });
  });

  it("a message that was never begun with is not told, nor one that was struck", async () => {
    const process = await bench().shared();
    const first = await start(bench(), process);
    await process.gates.appendTranscript(first.tokenHash, [entry("a")]);
    const waiting = await process.admission.admit(command(first.place));
    await process.admission.requestCancel({
      tenantId: first.place.tenantId,
      runId: waiting.runId,
      actor: first.ownership.claim.actor,
    });
    await finish(first.ownership);
    const second = await startIn(first.place, process);
    await process.admission.admit(command(first.place, { whenBusy: "rollback" }));
    await finish(second.ownership, {
      outcome: "rolled_back",
      reason: "superseded",
      answer: null,
      continuity: "kept",
      leaf: null,
      digest: null,
    });
    const third = await claimOne(process, first.place);
    expect(third.claim).toMatchObject({ leaf: "a", missed: [] });
  });

  it("without a transcript there is a history to begin with, and it tells of the calls", async () => {
    const process = await bench().shared();
    const first = await start(bench(), process);
    await payAndLook(process, first);
    await finish(first.ownership, { ...FAILED, leaf: null, digest: null });
    const second = await startIn(first.place, process);
    expect(second.ownership.claim).toMatchObject({ leaf: null, hasHistory: true, missed: [] });
    expect(await second.ownership.history(10)).toEqual([{ role: "user", text: "hello", calls: [PAID, LOOKED] }]);
    await payAndLook(process, second);
    await finish(second.ownership);
    const third = await startIn(first.place, process);
    expect(await third.ownership.history(2)).toEqual([
      // An answer speaks for what was looked up.
      { role: "user", text: "hello", calls: [PAID] },
      { role: "assistant", text: "an answer", calls: [] },
    ]);
  });
}
