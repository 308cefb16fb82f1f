import { revisionOf } from "@signalbox/contract";
import { expect, it } from "vitest";
import type { RecordBench } from "./bench.ts";
import {
  bind,
  claimOne,
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
  start,
  text,
  toolOutcome,
  TURN,
} from "./story.ts";

export function ownershipSuite(bench: () => RecordBench): void {
  it("a stale owner changes nothing, whatever it tries", async () => {
    const process = await bench().shared();
    const { place, ownership } = await start(bench(), process);
    const next = await ownership.changeWorker({ attemptLimit: 5 });
    expect(next.claim.generation).toBeGreaterThan(ownership.claim.generation);
    const before = await bench().events(place);
    const tries = [
      ownership.append([text("late")], TURN),
      ownership.bindSlot({ tokenHash: "a".repeat(64), workerId: "w" }),
      ownership.changeWorker({ attemptLimit: 5 }),
      ownership.seal(conclusion(ownership)),
      ownership.finish(finalization()),
      ownership.release(),
    ];
    expect(await Promise.all(tries.map(codeOf))).toEqual(tries.map(() => "stale_generation"));
    expect(await bench().events(place)).toEqual(before);
  });

  it("events carry the turn, the generation and the next sequences, in the order they were given", async () => {
    const process = await bench().shared();
    const { place, runId, ownership } = await start(bench(), process);
    const itemId = newId("item");
    await ownership.append([{ type: "text.delta", itemId, revision: 1, data: { offset: 0, text: "a" } }], TURN);
    await ownership.append([text("ab", { itemId, revision: 2 }), text("second")], TURN);
    const events = (await bench().events(place)).slice(2);
    expect(events.map(({ type, sequence }) => `${sequence} ${type}`)).toEqual([
      "3 text.delta",
      "4 text.completed",
      "5 text.completed",
    ]);
    const { generation, traceId } = ownership.claim;
    for (const event of events) expect(event).toMatchObject({ runId, turnId: TURN, generation, traceId });
    expect(events[0]).toMatchObject({ itemId, revision: 1, offset: 0, text: "a" });
  });

  it("a change of worker tells it, counts it, and shows what readers still see", async () => {
    const process = await bench().shared();
    const { place, ownership } = await start(bench(), process);
    const [shown, taken, thought] = [newId("item"), newId("item"), newId("item")];
    await ownership.append(
      [
        { type: "text.delta", itemId: shown, revision: 1, data: { offset: 0, text: "a" } },
        text("gone", { itemId: taken }),
        { type: "thinking.completed", itemId: thought, revision: 1, data: { text: "hm" } },
        { type: "text.retracted", itemId: taken, revision: 2, data: { cause: "retry" } },
      ],
      TURN,
    );
    const next = await ownership.changeWorker({ attemptLimit: 2 });
    expect(next.claim).toMatchObject({ cause: "worker_lost", attempt: 2, runId: ownership.claim.runId });
    const visible = next.claim.visibleItems.toSorted((left, right) => (left.itemId < right.itemId ? -1 : 1));
    expect(visible).toEqual(
      [
        { itemId: shown, kind: "text" },
        { itemId: thought, kind: "thinking" },
      ].toSorted((left, right) => (left.itemId < right.itemId ? -1 : 1)),
    );
    const told = (await bench().events(place)).at(-1);
    expect(told).toMatchObject({
      type: "run.recovered",
      cause: "worker_lost",
      attempt: 2,
      generation: next.claim.generation,
    });
    expect(await codeOf(next.changeWorker({ attemptLimit: 2 }))).toBe("retries_exhausted");
    // The refusal left the ownership as it was.
    await next.append([text("still here")], TURN);
  });

  it("a released run keeps its attempt and its place, and no number is valid twice", async () => {
    const process = await bench().shared();
    const { place, ownership } = await start(bench(), process);
    await ownership.release();
    expect(await codeOf(ownership.append([text("late")], TURN))).toBe("stale_generation");
    expect(await codeOf(ownership.release())).toBe("stale_generation");
    const again = await claimOne(process, place);
    expect(again.claim).toMatchObject({ cause: "ready", attempt: 1, cancelRequested: false });
    expect(again.claim.generation).toBeGreaterThan(ownership.claim.generation + 1);
    expect(again.claim.startedAtMs).toBe(ownership.claim.startedAtMs);
  });

  it("claims within the room it has, and nothing that somebody drives", async () => {
    const process = await bench().shared();
    const places = [await bench().conversation(), await bench().conversation(), await bench().conversation()];
    for (const place of places) await process.admission.admit(command(place));
    const claim = (room: number, limit: number) =>
      process.owners.claim({ process: process.incarnation, room: { [places[0]!.runtime]: room, other: 9 }, limit });
    expect(await claim(0, 9)).toHaveLength(0);
    expect(await claim(1, 9)).toHaveLength(1);
    expect(await claim(9, 1)).toHaveLength(1);
    expect((await claim(9, 9)).length).toBe(1);
    expect(await claim(9, 9)).toHaveLength(0);
  });

  it("takes again what it owns without knowing, and leaves alone what it drives", async () => {
    const process = await bench().shared();
    const driven = await start(bench(), process);
    const forgotten = await start(bench(), process);
    const { conversationId, generation } = driven.ownership.claim;
    const again = await process.owners.reclaim(process.incarnation, [{ conversationId, generation }]);
    const mine = again.filter(({ claim }) => [driven.runId, forgotten.runId].includes(claim.runId));
    expect(mine.map(({ claim }) => [claim.runId, claim.cause, claim.attempt])).toEqual([
      [forgotten.runId, "owner_lost", 2],
    ]);
    expect(await codeOf(forgotten.ownership.append([text("late")], TURN))).toBe("stale_generation");
    await driven.ownership.append([text("on time")], TURN);
  });

  it("the seal closes the gates, may be repeated, and keeps the first conclusion", async () => {
    const process = await bench().process();
    const { place, ownership, tokenHash } = await start(bench(), process);
    const open = await openModel(process, tokenHash);
    expect(await ownership.seal(conclusion(ownership))).toMatchObject({
      openModelCallCount: 1,
      cancelCause: null,
    });
    expect(await codeOf(openModel(process, tokenHash))).not.toBe("accepted");
    expect(await codeOf(process.gates.appendTranscript(tokenHash, [entry("late")]))).not.toBe("accepted");
    await process.gates.settleModelCall({ ...settled, modelCallId: open });
    expect(await ownership.seal(conclusion(ownership, { answer: "another" }))).toMatchObject({ openModelCallCount: 0 });
    await process.die();
    const other = await bench().process();
    await other.processes.sweep(other.incarnation);
    const taken = await claimOne(other, place);
    expect(taken.claim).toMatchObject({
      cause: "owner_lost",
      sealed: { answer: "an answer", generation: ownership.claim.generation },
    });
    expect(await bench().run(taken.claim.runId)).toMatchObject({ state: "finalizing" });
    await finish(taken);
    expect(await bench().run(taken.claim.runId)).toMatchObject({ state: "completed" });
  });

  it("a sealed transcript is finished by whoever takes over, under the generation that wrote it", async () => {
    const process = await bench().process();
    const { place, ownership, tokenHash } = await start(bench(), process);
    await process.gates.appendTranscript(tokenHash, [entry("a"), entry("b")]);
    const sealed = await ownership.seal(conclusion(ownership, { leaf: "b" }));
    expect(sealed.leaf).toBe("b");
    await process.die();
    const other = await bench().process();
    await other.processes.sweep(other.incarnation);
    const taken = await claimOne(other, place);
    const again = await taken.seal(taken.claim.sealed!);
    expect([again.leaf, again.digest]).toEqual([sealed.leaf, sealed.digest]);
    await taken.finish(finalization({ continuity: "moved", leaf: again.leaf, digest: again.digest }));
    await other.admission.admit(command(place));
    expect((await claimOne(other, place)).claim.leaf).toBe("b");
  });

  it("an ended run stays as it ended", async () => {
    const process = await bench().shared();
    const { place, runId, ownership } = await start(bench(), process);
    await finish(ownership);
    const before = await bench().events(place);
    expect(await codeOf(ownership.finish(finalization({ outcome: "failed", reason: "internal" })))).toBe(
      "stale_generation",
    );
    expect(await codeOf(ownership.seal(conclusion(ownership)))).toBe("stale_generation");
    expect(await bench().run(runId)).toMatchObject({ state: "completed", reason: "answered" });
    expect(await bench().events(place)).toEqual(before);
  });

  it("a takeover closes what a dead gate left open, and says whether the turn may run again", async () => {
    const dying = await bench().process();
    const { place, tokenHash } = await start(bench(), dying);
    const [read, paid] = [proposal(), proposal({ effect: "irreversible" })];
    await propose(dying, tokenHash, [read, paid]);
    await openTool(dying, tokenHash, read);
    await dying.gates.settleToolCall(toolOutcome(read));
    await openTool(dying, tokenHash, paid);
    await openModel(dying, tokenHash);
    await dying.die();
    const other = await bench().process();
    await other.processes.sweep(other.incarnation);
    const { claim } = await claimOne(other, place);
    expect(claim).toMatchObject({ cause: "owner_lost", attempt: 2, outcomeUnknown: true });
    const events = await bench().events(place);
    const lost = events.find((event) => event.type === "tool.finished" && event.toolCallId === paid.toolCallId);
    expect(lost).toMatchObject({ state: "unknown" });
    expect(events.find((event) => event.type === "usage.recorded" && event.estimated)).toBeDefined();
    expect(claim.generation).toBeGreaterThan(0);
    expect(lost?.revision).toBeLessThan(revisionOf(claim.generation + 1, 0));
  });

  it("tells the new owner of a conversation what was said before", async () => {
    const process = await bench().shared();
    const first = await start(bench(), process);
    const { place } = first;
    await process.admission.admit(command(place, { text: "and then?" }));
    await finish(first.ownership);
    const second = await claimOne(process, place);
    expect(second.claim).toMatchObject({ text: "and then?", lastUserSnippet: "hello", hasHistory: true, leaf: null });
    expect(second.claim.lastUserMessageAgeMs).toBeGreaterThanOrEqual(0);
    expect(await second.history(10)).toEqual([
      { role: "user", text: "hello", calls: [] },
      { role: "assistant", text: "an answer", calls: [] },
    ]);
    expect(await second.history(1)).toEqual([{ role: "assistant", text: "an answer", calls: [] }]);
    await bind(place, second);
  });
}

const settled = {
  state: "succeeded" as const,
  servedModel: "echo",
  usage: { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0 },
  costMicros: null,
  priceVersion: null,
  stopReason: "end_turn",
  errorCode: null,
  proposals: [],
};
