import {
  MemoryDatabase,
  memoryAdmissionRecord,
  memoryGateRecord,
  memoryHoldRecord,
  memoryOwnershipRecord,
  memoryProcessRecord,
} from "@signalbox/testkit";
import type { BenchConversation, BenchProcess, RecordBench } from "./record/bench.ts";
import { newId } from "./record/story.ts";
import { recordConformance } from "./record/suite.ts";

class MemoryBench implements RecordBench {
  readonly #db = new MemoryDatabase({ nowMs: () => Date.now() });

  #shared: Promise<BenchProcess> | null = null;

  shared(): Promise<BenchProcess> {
    this.#shared ??= this.process();
    return this.#shared;
  }

  async process(): Promise<BenchProcess> {
    const db = this.#db;
    const processes = memoryProcessRecord(db);
    const { process: incarnation } = await processes.register(["supervisor", "gate"]);
    return {
      incarnation,
      processes,
      admission: memoryAdmissionRecord(db),
      owners: memoryOwnershipRecord(db),
      gates: { ...memoryGateRecord(db), ...memoryHoldRecord(db) },
      decide: (command) => memoryHoldRecord(db).decide(command),
      die: async () => db.dropSession(incarnation),
    };
  }

  async conversation(): Promise<BenchConversation> {
    const place = {
      tenantId: "default",
      conversationId: newId("conversation"),
      agentId: newId("agent"),
      runtime: "scripted",
    };
    this.#db.createConversation({ id: place.conversationId, tenantId: place.tenantId });
    return place;
  }

  async events({ conversationId }: BenchConversation) {
    return this.#db.eventsOf(conversationId);
  }

  async run(runId: string) {
    const { state, reason, generation, owner } = this.#db.runs.must(runId);
    return { state, reason, generation, owner };
  }

  async messages({ conversationId }: BenchConversation) {
    return this.#db.messages
      .where((message) => message.conversationId === conversationId)
      .toSorted((left, right) => left.position - right.position)
      .map(({ role, text, partial }) => ({ role, text, partial }));
  }

  async auditActions({ conversationId }: BenchConversation) {
    return this.#db.audit
      .where((entry) => entry.conversationId === conversationId)
      .map(({ action }) => action)
      .sort();
  }

  async corruptTranscript({ conversationId }: BenchConversation, entryId: string) {
    this.#db.transaction("corrupt", {}, () => {
      const entry = this.#db.entries.where(
        (each) => each.conversationId === conversationId && each.entryId === entryId,
      )[0];
      if (entry === undefined) throw new Error(`no entry ${entryId}`);
      this.#db.entries.set(`${conversationId} ${entry.position}`, { ...entry, body: new Uint8Array([1]) });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

recordConformance("in memory", async () => new MemoryBench());
