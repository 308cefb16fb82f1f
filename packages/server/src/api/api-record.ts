/** What the API reads and writes, apart from admission: one method, one tenant-scoped transaction. Wiring joins it to the store. */
import { PlatformError } from "@signalbox/contract";
import type {
  Actor,
  Agent,
  AgentId,
  AgentRevision,
  Conversation,
  ConversationId,
  ConversationQuery,
  CreateAgent,
  CreateConversation,
  EventType,
  Message,
  PageQuery,
  PlatformEvent,
  Run,
  SnapshotTool,
  UpdateAgent,
  UpdateConversation,
} from "@signalbox/contract";

/** Rows as the outside sees them, without the addresses that only the API knows. */
export type StoredAgent = Omit<Agent, "id" | "plan" | "warnings"> & { readonly id: AgentId };
export type StoredConversation = Omit<Conversation, "eventsUrl">;
export type StoredRun = Omit<Run, "eventsUrl"> & { readonly cursor: number };

export interface StoredEvent {
  readonly sequence: number;
  readonly type: EventType;
  readonly runId: string | null;
  /** The event as JSON, ready to be sent. */
  readonly json: string;
}

/** An event of the log as it is sent. */
export function storedEvent(event: PlatformEvent): StoredEvent {
  const { sequence, type, runId } = event;
  if (sequence === null) throw new PlatformError("internal", "The log holds an event without a sequence.");
  return { sequence, type, runId, json: JSON.stringify(event) };
}

export interface LogPlace {
  /** Sequence of the newest event; 0 when there is none yet. */
  readonly lastSequence: number;
  /** The oldest cursor that still works; 0 while every event is kept. */
  readonly keptSequence: number;
  /** Whether the store has been put back or replaced since the conversation began. */
  readonly replaced: boolean;
}

export interface FeedPage {
  readonly rows: readonly (StoredEvent & { readonly cursor: string })[];
  /** Where to go on; `null` while there has never been anything. */
  readonly nextCursor: string | null;
  readonly more: boolean;
}

/** Whose things a caller sees: the tenant's, narrowed to one end user when the caller speaks for one. */
export interface Scope {
  readonly tenantId: string;
  readonly user: string | null;
}

export interface Page<T> {
  readonly data: readonly T[];
  readonly nextCursor: string | null;
}

export interface ApiKey {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  readonly rights: readonly string[];
}

/** A POST that is answered once per key: key, effect and answer are one transaction. */
export interface Once<T> extends PostKey {
  /** What is answered now and on every replay. */
  answer(value: T): { readonly status: number; readonly body: string };
}

export type Recorded<T> =
  | { readonly kind: "created"; readonly value: T }
  | { readonly kind: "replayed"; readonly status: number; readonly body: string };

export interface PostKey {
  readonly key: string;
  /** Keeps the same key apart on different addresses. */
  readonly route: string;
  readonly bodyHash: string;
}

export interface ApiRecord {
  /** The live key of this HMAC, or `null`. */
  apiKey(hmac: Buffer): Promise<ApiKey | null>;
  /** The answer this key was given before, or `null`. Errors: `idempotency_key_reused`. */
  answered(scope: Scope, key: PostKey): Promise<{ readonly status: number; readonly body: string } | null>;
  /** Errors: `agent_name_taken`, `idempotency_key_reused`. */
  createAgent(scope: Scope, agent: NewStoredAgent, once: Once<StoredAgent> | null): Promise<Recorded<StoredAgent>>;
  /** By id or name. Errors: `not_found`. */
  agent(scope: Scope, idOrName: string): Promise<StoredAgent>;
  agents(scope: Scope, page: PageQuery): Promise<Page<StoredAgent>>;
  /** The agent as it is afterwards. Errors: `not_found`, `revision_changed`. */
  changeAgent(
    scope: Scope,
    command: { readonly id: AgentId; readonly actor: Actor; readonly change: UpdateAgent },
  ): Promise<StoredAgent>;
  revisions(scope: Scope, agentId: AgentId, page: PageQuery): Promise<Page<AgentRevision>>;
  /** The agent that answers in a conversation, with its tools as they are pinned today. Errors: `not_found`. */
  answering(
    scope: Scope,
    conversationId: string,
  ): Promise<{ readonly agent: Omit<StoredAgent, "disabled">; readonly tools: readonly PinnedTool[] }>;
  /** Errors: `not_found` (the agent), `idempotency_key_reused`. */
  createConversation(
    scope: Scope,
    conversation: NewStoredConversation,
    once: Once<StoredConversation> | null,
  ): Promise<Recorded<StoredConversation>>;
  /**
   * A new conversation that begins with the history of another one. Errors: `not_found`,
   * `conversation_deleting`, `idempotency_key_reused`.
   */
  forkConversation(
    scope: Scope,
    fork: NewStoredFork,
    once: Once<StoredConversation> | null,
  ): Promise<Recorded<StoredConversation>>;
  conversation(scope: Scope, id: string): Promise<StoredConversation>;
  /** Whether the caller may still see it: less to read than the conversation itself. */
  isThere(scope: Scope, conversationId: string): Promise<boolean>;
  /** Errors: `search_too_broad`. */
  conversations(scope: Scope, query: ConversationQuery): Promise<Page<StoredConversation>>;
  /** The conversation as it is afterwards. Errors: `not_found`, `conversation_deleting`. */
  changeConversation(
    scope: Scope,
    command: { readonly id: string; readonly actor: Actor; readonly change: UpdateConversation },
  ): Promise<StoredConversation>;
  /** True once it is gone; false while something of it still runs or is outside. Errors: `not_found`. */
  deleteConversation(scope: Scope, command: { readonly id: string; readonly actor: Actor }): Promise<boolean>;
  message(scope: Scope, id: string): Promise<Message>;
  messages(scope: Scope, conversationId: string, page: PageQuery): Promise<Page<Message>>;
  run(scope: Scope, id: string): Promise<StoredRun>;
  runs(scope: Scope, page: PageQuery & { readonly conversation: string | null }): Promise<Page<StoredRun>>;
  /** Message and run of an admission, for its acknowledgement. */
  accepted(
    scope: Scope,
    admission: { readonly messageId: string; readonly runId: string },
  ): Promise<{ readonly message: Message; readonly run: StoredRun }>;
  /** Events after a sequence, oldest first, at most `limit`, and a bounded number of bytes. */
  events(
    scope: Scope,
    conversationId: string,
    range: { readonly after: number; readonly limit: number },
  ): Promise<{ readonly events: readonly StoredEvent[]; readonly more: boolean }>;
  /** Where the log of a conversation begins and ends. */
  place(scope: Scope, conversationId: string): Promise<LogPlace>;
  /** Events of all conversations after a place. Errors: `invalid_cursor`, `cursor_expired`, `cursor_lost`. */
  feed(
    scope: Scope,
    range: { readonly after: string | null; readonly agentId: string | null; readonly limit: number },
  ): Promise<FeedPage>;
  /** Pinned tools by `server/tool`; what is not pinned is absent. */
  tools(scope: Scope, references: readonly string[]): Promise<readonly PinnedTool[]>;
}

export interface NewStoredAgent {
  readonly id: AgentId;
  readonly actor: Actor;
  readonly definition: CreateAgent;
}

export interface NewStoredConversation {
  readonly id: ConversationId;
  readonly actor: Actor;
  readonly definition: CreateConversation;
}

export interface NewStoredFork {
  readonly id: ConversationId;
  readonly actor: Actor;
  readonly from: string;
  /** The last message it begins with; `null`: everything that is finished. */
  readonly messageId: string | null;
}

/** A pinned tool with the name an agent gives it, `server/tool`. */
export type PinnedTool = SnapshotTool & { readonly reference: string };
