/**
 * What a record must bring to be held to the promises of its ports: the ports as one or more processes reach them, and
 * a look at what is recorded. The same suite runs against the memory record and against the database.
 */
import type { AgentId, ConversationId, EndReason, PlatformEvent, RunId, RunState } from "@signalbox/contract";
import type {
  AdmissionRecord,
  DecideCommand,
  GateRecord,
  HoldChange,
  HoldRecord,
  Ownership,
  OwnershipRecord,
  ProcessRecord,
} from "@signalbox/core";

export interface BenchConversation {
  readonly tenantId: string;
  readonly conversationId: ConversationId;
  readonly agentId: AgentId;
  readonly runtime: string;
}

export interface BenchProcess {
  readonly incarnation: number;
  readonly admission: AdmissionRecord;
  readonly owners: OwnershipRecord;
  readonly gates: GateRecord & HoldRecord;
  decide(command: DecideCommand): Promise<HoldChange>;
  readonly processes: ProcessRecord;
  /** Ends as a crash would: its presence is gone, nothing is said. */
  die(): Promise<void>;
}

export interface RecordedRun {
  readonly state: RunState;
  readonly reason: EndReason | null;
  readonly generation: number | null;
  readonly owner: number | null;
}

export interface RecordedMessage {
  readonly role: "user" | "assistant";
  readonly text: string;
  readonly partial: boolean;
}

export interface RecordBench extends AsyncDisposable {
  /** A registered process of its own, which may die. */
  process(): Promise<BenchProcess>;
  /** A registered process that nobody lets die. */
  shared(): Promise<BenchProcess>;
  conversation(): Promise<BenchConversation>;
  events(place: BenchConversation): Promise<readonly PlatformEvent[]>;
  run(runId: RunId): Promise<RecordedRun>;
  messages(place: BenchConversation): Promise<readonly RecordedMessage[]>;
  /** Audit actions of the conversation, sorted. */
  auditActions(place: BenchConversation): Promise<readonly string[]>;
  /** Changes stored transcript bytes behind the record's back. */
  corruptTranscript(place: BenchConversation, entryId: string): Promise<void>;
}

export type OpenBench = () => Promise<RecordBench>;

/** A run that this process owns, with a slot bound to it. */
export interface Started {
  readonly place: BenchConversation;
  readonly runId: RunId;
  readonly ownership: Ownership;
  readonly tokenHash: string;
}
