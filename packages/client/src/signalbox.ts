/** The client: agents, conversations and runs of one platform, as one API key and, if asserted, one end user. */
import {
  agentPageSchema,
  agentRevisionPageSchema,
  agentSchema,
  conversationPageSchema,
  conversationSchema,
  eventPageSchema,
  infoSchema,
  platformEventSchema,
  runPageSchema,
  runtimeListSchema,
  type ActorClaim,
  type Agent,
  type AgentRevision,
  type Conversation,
  type CreateAgent,
  type EventPage,
  type Info,
  type Run,
  type RuntimeInfo,
  type UpdateAgent,
} from "@signalbox/contract";
import { ConversationHandle } from "./conversation-handle.ts";
import { queryOf, type ConversationFilter, type ListOptions, type Page } from "./list.ts";
import { Holds, OperatedRuns, StopList } from "./operators.ts";
import { cancelRun, cursorOf, getRun, RunHandle } from "./run-handle.ts";
import { Transport, type TransportOptions } from "./transport.ts";
import { Approvals, ToolCalls } from "./approvals.ts";
import { Tools } from "./tools.ts";
import { Webhooks } from "./webhooks.ts";

/** Which platform, and as whom. */
export interface SignalboxOptions {
  /** Address of the API, for example `http://127.0.0.1:4620`. */
  readonly url: string;
  /** A key of the form `sbx_…`. */
  readonly apiKey: string;
  /** Default: the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** How long one attempt of a request may take, streams excepted. Default 60 000. */
  readonly timeoutMs?: number;
}

/** Which part of the feed. */
export interface FeedOptions {
  /** `nextCursor` of the page before. Default: the oldest event that is kept. */
  readonly after?: string;
  /** Only of this agent's conversations, by id or name. Default: of all. */
  readonly agent?: string;
  /** 1 to 200. Default 200. */
  readonly limit?: number;
}

/** What a new agent is; fields with a default may be left out. */
export type NewAgent = Pick<CreateAgent, "name" | "model"> & Partial<CreateAgent>;

/**
 * The client of one platform. Requests that cannot do anything twice are tried again; creating and sending are safe to
 * repeat because each carries an idempotency key. Every failure is a `SignalboxError`; beside the codes named at each
 * method there are always `unauthenticated`, `permission_denied`, `unreachable` and `unreadable`.
 */
export class Signalbox {
  readonly #transport: Transport;

  /** What runs wait for, and decisions about it. */
  readonly holds: Holds;
  /** Pauses and stops of operators. */
  readonly stops: StopList;
  /** What operators ask of runs. */
  readonly operate: OperatedRuns;
  /** Addresses that are told what happens. */
  readonly approvals: Approvals;
  readonly toolCalls: ToolCalls;
  readonly tools: Tools;
  readonly webhooks: Webhooks;

  constructor(options: SignalboxOptions | Transport) {
    this.#transport = options instanceof Transport ? options : new Transport(transportOptions(options));
    this.holds = new Holds(this.#transport);
    this.stops = new StopList(this.#transport);
    this.operate = new OperatedRuns(this.#transport);
    this.approvals = new Approvals(this.#transport);
    this.toolCalls = new ToolCalls(this.#transport);
    this.tools = new Tools(this.#transport);
    this.webhooks = new Webhooks(this.#transport);
  }

  /** The same platform, seen and used as this end user. The key must have the right `assert_actor`. */
  as(actor: Pick<ActorClaim, "user"> & Partial<ActorClaim>): Signalbox {
    return new Signalbox(
      new Transport({
        ...this.#transport.options,
        actor: { user: actor.user, roles: actor.roles ?? [], units: actor.units ?? [] },
      }),
    );
  }

  /** Version, features, limits and providers of the platform. */
  info(): Promise<Info> {
    return this.#transport.json({ method: "GET", path: "/v1/info" }, (body) => infoSchema.parse(body));
  }

  /** What connected workers can run. */
  async runtimes(): Promise<readonly RuntimeInfo[]> {
    const page = await this.#transport.json({ method: "GET", path: "/v1/runtimes" }, (body) =>
      runtimeListSchema.parse(body),
    );
    return page.data;
  }

  /**
   * Events of all conversations, page by page, in an order in which none comes late: go on from `nextCursor`, also when
   * there is nothing more yet. Types that this client does not know are left out. Errors: `invalid_cursor`, `not_found`
   * (the agent).
   */
  feed(options: FeedOptions = {}): Promise<EventPage> {
    const query = new URLSearchParams(
      Object.entries(options).map(([name, value]): [string, string] => [name, String(value)]),
    );
    return this.#transport.json({ method: "GET", path: `/v1/events?${query}` }, (body) =>
      eventPageSchema.parse(knownEvents(body)),
    );
  }

  /** Agents: instructions, a model and tools under a name. */
  readonly agents = {
    /** Errors: `agent_name_taken`, `runtime_unknown`, `SDK_UNAVAILABLE`, `model_unknown`, `tool_unknown`. */
    create: (agent: NewAgent, options: { readonly idempotencyKey?: string } = {}): Promise<Agent> =>
      this.#transport.json(
        {
          method: "POST",
          path: "/v1/agents",
          body: agent,
          idempotencyKey: options.idempotencyKey ?? crypto.randomUUID(),
        },
        (body) => agentSchema.parse(body),
      ),
    /** By id or name. Errors: `not_found`. */
    get: (agent: string): Promise<Agent> =>
      this.#transport.json({ method: "GET", path: `/v1/agents/${encodeURIComponent(agent)}` }, (body) =>
        agentSchema.parse(body),
      ),
    list: (options: ListOptions = {}): Promise<Page<Agent>> =>
      this.#transport.json({ method: "GET", path: `/v1/agents${queryOf(options)}` }, (body) =>
        agentPageSchema.parse(body),
      ),
    /**
     * Changes what is given, by id or name. Anything but `disabled` makes the next revision; runs that were accepted keep
     * theirs. With `revision` only that revision is changed, and asking again cannot change another. Errors: `not_found`,
     * `revision_changed`, and those of `create` for what is given.
     */
    update: (agent: string, change: UpdateAgent): Promise<Agent> =>
      this.#transport.json({ method: "PATCH", path: `/v1/agents/${encodeURIComponent(agent)}`, body: change }, (body) =>
        agentSchema.parse(body),
      ),
    /** From now on it takes no message; runs that were accepted are answered. Errors: `not_found`. */
    disable: (agent: string): Promise<Agent> => this.agents.update(agent, { disabled: true }),
    /** It takes messages again. Errors: `not_found`. */
    enable: (agent: string): Promise<Agent> => this.agents.update(agent, { disabled: false }),
    /** Errors: `not_found`. */
    revisions: (agent: string, options: ListOptions = {}): Promise<Page<AgentRevision>> =>
      this.#transport.json(
        { method: "GET", path: `/v1/agents/${encodeURIComponent(agent)}/revisions${queryOf(options)}` },
        (body) => agentRevisionPageSchema.parse(body),
      ),
  };

  /** Conversations of the caller, or of the end user it speaks for. */
  readonly conversations = {
    /** Errors: `not_found` (no such agent). */
    create: async (
      conversation: {
        readonly agent: string;
        readonly title?: string;
        readonly metadata?: Readonly<Record<string, string>>;
      },
      options: { readonly idempotencyKey?: string } = {},
    ): Promise<ConversationHandle> => {
      const created = await this.#transport.json(
        {
          method: "POST",
          path: "/v1/conversations",
          body: conversation,
          idempotencyKey: options.idempotencyKey ?? crypto.randomUUID(),
        },
        (body) => conversationSchema.parse(body),
      );
      return this.conversations.open(created.id);
    },
    /** A handle for a known id; nothing is sent until it is used. */
    open: (id: string): ConversationHandle => new ConversationHandle(this.#transport, id),
    /** Errors: `not_found`. */
    get: (id: string): Promise<Conversation> => this.conversations.open(id).get(),
    /** Errors: `invalid_cursor`, `search_too_broad`. */
    list: (options: ConversationFilter = {}): Promise<Page<Conversation>> =>
      this.#transport.json({ method: "GET", path: `/v1/conversations${queryOf(options)}` }, (body) =>
        conversationPageSchema.parse(body),
      ),
  };

  /** Runs: each the obligation to answer one message. */
  readonly runs = {
    /** Errors: `not_found`. */
    get: (id: string): Promise<Run> => getRun(this.#transport, id),
    /** A handle that follows the run from its first event. Errors: `not_found`. */
    open: async (id: string): Promise<RunHandle> => {
      const run = await this.runs.get(id);
      const after = cursorOf(run.eventsUrl, this.#transport);
      return new RunHandle(this.#transport, { id: run.id, conversationId: run.conversationId, after });
    },
    list: (options: ListOptions & { readonly conversation?: string } = {}): Promise<Page<Run>> =>
      this.#transport.json({ method: "GET", path: `/v1/runs${queryOf(options)}` }, (body) => runPageSchema.parse(body)),
    /** Asks for the end of a run; one that has ended stays as it is. Errors: `not_found`. */
    cancel: (id: string): Promise<Run> => cancelRun(this.#transport, id),
  };
}

function transportOptions(options: SignalboxOptions): TransportOptions {
  return {
    url: options.url,
    apiKey: options.apiKey,
    actor: null,
    fetch: options.fetch ?? globalThis.fetch.bind(globalThis),
    ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }),
  };
}

function knownEvents(page: unknown): unknown {
  if (typeof page !== "object" || page === null || !("data" in page) || !Array.isArray(page.data)) return page;
  return { ...page, data: page.data.filter((event) => platformEventSchema.safeParse(event).success) };
}
