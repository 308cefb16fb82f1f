import { expect, it } from "vitest";
import type { RecordBench } from "./bench.ts";
import { claimOne, codeOf, command, finish, start, startIn } from "./story.ts";

export function admissionSuite(bench: () => RecordBench): void {
  it("tells one life in order: what is recorded, what is told, what is audited", async () => {
    const process = await bench().shared();
    const { place, runId, ownership } = await start(bench(), process);
    expect(await bench().run(runId)).toEqual({
      state: "running",
      reason: null,
      generation: 1,
      owner: process.incarnation,
    });
    await finish(ownership);
    expect(await bench().run(runId)).toMatchObject({ state: "completed", reason: "answered" });
    const events = await bench().events(place);
    expect(events.map(({ sequence, type }) => `${sequence} ${type}`)).toEqual([
      "1 run.admitted",
      "2 run.started",
      "3 run.finished",
    ]);
    expect(await bench().messages(place)).toEqual([
      { role: "user", text: "hello", partial: false },
      { role: "assistant", text: "an answer", partial: false },
    ]);
    expect(await bench().auditActions(place)).toEqual(
      expect.arrayContaining(["message_completed", "message_received", "run_admitted", "run_started"]),
    );
  });

  it("says where a reader starts, and how many are before it", async () => {
    const process = await bench().shared();
    const { place } = await start(bench(), process);
    const second = await process.admission.admit(command(place));
    const third = await process.admission.admit(command(place));
    expect([second.accepted, second.position, third.position]).toEqual(["queued", 1, 2]);
    expect(second.claim).toBeNull();
    const events = await bench().events(place);
    const firstOfSecond = events.find((event) => event.runId === second.runId);
    expect(second.cursor).toBe((firstOfSecond?.sequence ?? 0) - 1);
  });

  it("answers the same key with the same run, also much later, and refuses another body", async () => {
    const process = await bench().shared();
    const place = await bench().conversation();
    const idempotency = { key: "k1", bodyHash: "a".repeat(64) };
    const first = await process.admission.admit(command(place, { idempotency }));
    const again = await process.admission.admit(command(place, { idempotency }));
    expect(first.events.map(({ type }) => type)).toEqual(["run.admitted"]);
    expect(again).toEqual({ ...first, kind: "replayed", claim: null, events: [] });
    await finish(await claimOne(process, place));
    expect((await process.admission.admit(command(place, { idempotency }))).runId).toBe(first.runId);
    const other = command(place, { idempotency: { key: "k1", bodyHash: "b".repeat(64) } });
    expect(await codeOf(process.admission.admit(other))).toBe("idempotency_key_reused");
  });

  it("of ten at once with one key, one is admitted", async () => {
    const process = await bench().shared();
    const place = await bench().conversation();
    const idempotency = { key: "k10", bodyHash: "c".repeat(64) };
    const all = await Promise.all(
      Array.from({ length: 10 }, () => process.admission.admit(command(place, { idempotency }))),
    );
    expect(new Set(all.map(({ runId }) => runId)).size).toBe(1);
    expect(all.filter(({ kind }) => kind === "admitted")).toHaveLength(1);
  });

  it("refuses when it is busy and was told to, when the queue is full, and what does not exist", async () => {
    const process = await bench().shared();
    const { place, runId } = await start(bench(), process);
    await expect(process.admission.admit(command(place, { whenBusy: "reject" }))).rejects.toMatchObject({
      code: "conversation_busy",
      extra: { activeRunId: runId },
    });
    await process.admission.admit(command(place, { queueLimit: 1 }));
    expect(await codeOf(process.admission.admit(command(place, { queueLimit: 1 })))).toBe("queue_full");
    const stranger = { ...place, tenantId: "somebody-else" };
    expect(await codeOf(process.admission.admit(command(stranger)))).toBe("not_found");
    const before = await bench().events(place);
    expect(before.filter((event) => event.type === "run.admitted")).toHaveLength(1);
  });

  it("ends a run that nobody owns at once, and lets the next one in", async () => {
    const process = await bench().shared();
    const place = await bench().conversation();
    const first = await process.admission.admit(command(place));
    const second = await process.admission.admit(command(place));
    const { tenantId } = place;
    const { actor } = command(place);
    expect(await process.admission.requestCancel({ tenantId, runId: first.runId, actor })).toEqual({
      kind: "ended",
      state: "cancelled",
    });
    expect(await bench().run(first.runId)).toMatchObject({ state: "cancelled", reason: "user_cancel" });
    expect((await claimOne(process, place)).claim.runId).toBe(second.runId);
    expect(await process.admission.requestCancel({ tenantId, runId: first.runId, actor })).toMatchObject({
      kind: "already_ended",
    });
    expect(await codeOf(process.admission.requestCancel({ tenantId: "x", runId: first.runId, actor }))).toBe(
      "not_found",
    );
  });

  it("a cancel of an owned run is heard by its owner and stops every intent; after the seal it changes nothing", async () => {
    const process = await bench().shared();
    const { place, runId, ownership } = await start(bench(), process);
    const { actor } = command(place);
    const cancel = () => process.admission.requestCancel({ tenantId: place.tenantId, runId, actor });
    expect(await process.owners.cancelled(process.incarnation)).toEqual([]);
    expect(await cancel()).toEqual({ kind: "requested", state: "running" });
    const { conversationId } = place;
    const { generation } = ownership.claim;
    expect(await process.owners.cancelled(process.incarnation)).toEqual([{ conversationId, generation }]);
    await finish(ownership, { outcome: "cancelled", reason: "user_cancel", answer: null });
    expect(await cancel()).toEqual({ kind: "already_ended", state: "cancelled" });
    expect(await process.owners.cancelled(process.incarnation)).toEqual([]);
  });

  it("hands over in the order of acknowledgement, and tells who moves up", async () => {
    const process = await bench().shared();
    const first = await start(bench(), process);
    const { place } = first;
    const waiting = [];
    for (let count = 0; count < 3; count += 1) waiting.push((await process.admission.admit(command(place))).runId);
    const answered = [await finish(first.ownership)];
    for (let count = 0; count < 3; count += 1) answered.push(await finish(await claimOne(process, place)));
    expect(answered).toEqual([...waiting, null]);
    const moved = (await bench().events(place)).filter((event) => event.type === "queue.moved");
    expect(moved.length).toBeGreaterThanOrEqual(3);
    // Nobody is left behind: the next message begins at once.
    expect((await startIn(place, process)).ownership.claim.hasHistory).toBe(true);
  });

  it("does not claim for a process that has left", async () => {
    const process = await bench().shared();
    const gone = await bench().process();
    await gone.processes.unregister(gone.incarnation);
    const place = await bench().conversation();
    const admission = await process.admission.admit(command(place, { claimFor: gone.incarnation }));
    expect([admission.accepted, admission.claim]).toEqual(["started", null]);
    expect((await claimOne(process, place)).claim.cause).toBe("ready");
  });
}
