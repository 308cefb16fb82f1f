/**
 * The record in memory: one store, one transaction at a time, so every history is serializable. It keeps the promises
 * of the database adapters, no more and no less; the same conformance suite runs against both. `sabotage` breaks one
 * promise on purpose, to see whether the tests notice.
 */
import type { PlatformEvent } from "@signalbox/contract";
import type {
  AuditRow,
  ConversationRow,
  EntryRow,
  EraRow,
  HoldRow,
  IdempotencyRow,
  MessageRow,
  ModelCallRow,
  OwnershipRow,
  ProcessRow,
  RunRow,
  SlotRow,
  SnapshotRow,
  ToolCallRow,
} from "./rows.ts";
import type { Sabotage } from "./sabotage.ts";
import { Journal, Table, type Change } from "./table.ts";

/**
 * The clock and the lease of the record, and which of its promises it breaks. Leases are 10 s and none is broken by
 * default.
 */
export interface MemoryDatabaseOptions {
  /** The database's clock: the only one that judges leases. */
  readonly nowMs: () => number;
  readonly leaseMs?: number;
  readonly sabotage?: Sabotage | null;
}

/** One committed transaction: who asked for what, under which generation, and what changed. */
export interface Commit {
  readonly call: string;
  readonly atMs: number;
  /** Generation that a fenced call presented; `null` for calls without a fence. */
  readonly presented: { readonly conversationId: string; readonly generation: number } | null;
  readonly intent: boolean;
  readonly changes: readonly Change[];
}

/**
 * What a transaction says about itself for those who watch: the fence it presents, and whether it authorises a call.
 */
export interface CallFacts {
  readonly presented?: Commit["presented"];
  readonly intent?: boolean;
}

const DEFAULT_LEASE_MS = 10_000;

/**
 * The tables, and the transactions that change them. The `memory…Record` functions make the ports of `core` from it.
 */
export class MemoryDatabase {
  readonly nowMs: () => number;
  readonly leaseMs: number;
  readonly sabotage: Sabotage | null;
  readonly #journal = new Journal();
  readonly #watchers: ((commit: Commit) => void)[] = [];

  readonly processes = this.#table<ProcessRow>("process");
  readonly conversations = this.#table<ConversationRow>("conversation");
  readonly ownerships = this.#table<OwnershipRow>("ownership");
  readonly messages = this.#table<MessageRow>("message");
  readonly runs = this.#table<RunRow>("run");
  readonly idempotency = this.#table<IdempotencyRow>("idempotency");
  readonly snapshots = this.#table<SnapshotRow>("snapshot");
  readonly slots = this.#table<SlotRow>("slot");
  readonly holds = this.#table<HoldRow>("hold");
  readonly eras = this.#table<EraRow>("era");
  readonly modelCalls = this.#table<ModelCallRow>("model_call");
  readonly toolCalls = this.#table<ToolCallRow>("tool_call");
  readonly entries = this.#table<EntryRow>("transcript_entry");
  readonly events = this.#table<PlatformEvent>("event");
  readonly audit = this.#table<AuditRow>("audit_pending");

  constructor(options: MemoryDatabaseOptions) {
    this.nowMs = options.nowMs;
    this.leaseMs = options.leaseMs ?? DEFAULT_LEASE_MS;
    this.sabotage = options.sabotage ?? null;
  }

  /** Runs `work` as one transaction: everything it changes, or nothing. */
  transaction<T>(call: string, facts: CallFacts, work: () => T): T {
    this.#journal.begin();
    let result: T;
    try {
      result = work();
    } catch (thrown) {
      this.#journal.rollback();
      throw thrown;
    }
    const changes = this.#journal.commit();
    const commit: Commit = {
      call,
      atMs: this.nowMs(),
      presented: facts.presented ?? null,
      intent: facts.intent ?? false,
      changes,
    };
    for (const watch of this.#watchers) watch(commit);
    return result;
  }

  /** Called after each commit, with the tables as they are then. */
  watch(watcher: (commit: Commit) => void): void {
    this.#watchers.push(watcher);
  }

  /** A conversation as the API would have created it. */
  createConversation(conversation: { readonly id: string; readonly tenantId: string }): void {
    this.transaction("create_conversation", {}, () => {
      this.conversations.set(conversation.id, {
        ...conversation,
        lastSequence: 0,
        lastPosition: 0,
        leaf: null,
        leafPosition: 0,
        leafDigest: null,
        leafRuntime: null,
        leafTurn: -1,
      });
      this.ownerships.set(conversation.id, {
        conversationId: conversation.id,
        tenantId: conversation.tenantId,
        generation: 0,
        owner: null,
        cancelAtMs: null,
        readyAtMs: null,
        runtime: null,
        pacedUntilMs: 0,
      });
    });
  }

  /** The connection that carries a process's presence is gone: whoever sweeps next will see it. */
  dropSession(incarnation: number): void {
    this.transaction("session_lost", {}, () => {
      if (this.processes.get(String(incarnation)) !== undefined) {
        this.processes.update(String(incarnation), { sessionHeld: false });
      }
    });
  }

  eventsOf(conversationId: string): readonly PlatformEvent[] {
    return this.events.where((event) => event.conversationId === conversationId);
  }

  runsOf(conversationId: string): readonly RunRow[] {
    return this.runs.where((run) => run.conversationId === conversationId);
  }

  #table<Row>(name: string): Table<Row> {
    return new Table<Row>(name, this.#journal);
  }
}
