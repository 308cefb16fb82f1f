/**
 * What messages are answered with, remembered for a moment: an agent in use is asked for with every message, and an agent
 * changes seldom. Whose agent a conversation has never changes. Nothing is granted by what is remembered here: admission
 * looks at the conversation itself, and gates compare what runs with the pins as they are.
 */
import type { AnsweringQueries, AnsweringRow } from "./answering-queries.ts";
import type { Viewer } from "./viewer.ts";

/** A change of an agent or of its tools' pins is heard of at most this much later. */
const REMEMBER_MS = 1_000;
const CONVERSATIONS_MAX = 10_000;
const AGENTS_MAX = 1_000;

/** An agent at its current revision, and the tools of it that are pinned. */
export type Answering = Omit<AnsweringRow, "participant">;

/** What never changes about a conversation. */
export interface ConversationOwner {
  readonly tenantId: string;
  readonly participant: string | null;
  readonly agentId: string;
}

export class AnsweringCache {
  readonly #queries: Pick<AnsweringQueries, "find">;
  readonly #monotonicMs: () => number;
  readonly #conversations = new Map<string, ConversationOwner>();
  readonly #agents = new Map<string, { readonly answering: Answering; readonly untilMs: number }>();

  constructor(queries: Pick<AnsweringQueries, "find">, monotonicMs: () => number) {
    this.#queries = queries;
    this.#monotonicMs = monotonicMs;
  }

  /** A conversation that was made in this process, so that its first message need not ask. */
  note(conversationId: string, owner: ConversationOwner): void {
    this.#conversations.delete(conversationId);
    this.#conversations.set(conversationId, owner);
    bound(this.#conversations, CONVERSATIONS_MAX);
  }

  /** An agent that was changed in this process is answered with as it is from its next message on. */
  forgetAgent(agentId: string): void {
    this.#agents.delete(agentId);
  }

  /** `null` when the viewer may not see the conversation. */
  async find(viewer: Viewer, conversationId: string): Promise<Answering | null> {
    const owner = this.#conversations.get(conversationId);
    const isSeen = owner?.tenantId === viewer.tenantId && (viewer.user === null || viewer.user === owner.participant);
    const known = isSeen ? this.#agents.get(owner.agentId) : undefined;
    if (known !== undefined && known.untilMs > this.#monotonicMs()) return known.answering;
    const readAtMs = this.#monotonicMs();
    const row = await this.#queries.find(viewer, conversationId);
    if (row === null) return null;
    const { participant, ...answering } = row;
    const { agentId } = answering;
    this.note(conversationId, { tenantId: viewer.tenantId, participant, agentId });
    this.#agents.delete(agentId);
    this.#agents.set(agentId, { answering, untilMs: readAtMs + REMEMBER_MS });
    bound(this.#agents, AGENTS_MAX);
    return answering;
  }
}

/** What was remembered the longest ago goes first. */
function bound(map: Map<string, unknown>, limit: number): void {
  if (map.size > limit) {
    const [oldest] = map.keys();
    map.delete(oldest ?? "");
  }
}
