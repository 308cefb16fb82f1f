/** The HTTP API over a real record on a database of its own. No supervisor runs: what is admitted waits to be claimed. */
import { randomBytes } from "node:crypto";
import {
  asPlatformError,
  makeId,
  NO_USAGE,
  uuidV7Bytes,
  type EffectClass,
  type HoldKind,
  type IdKind,
  type Problem,
  type RuntimeInfo,
} from "@signalbox/contract";
import {
  callVerdict,
  createAdmission,
  LIMITS,
  type CallVerdict,
  type LiveSubscription,
  type Log,
  type Ownership,
} from "@signalbox/core";
import { signActor } from "@signalbox/client";
import type { FastifyInstance } from "fastify";
import pg from "pg";
import { apiKeyHmac, RIGHTS, type Right } from "../../packages/server/src/api/caller.ts";
import type { EgressAllowance } from "../../packages/server/src/egress/egress-policy.ts";
import { createApi, listen } from "../../packages/server/src/api/server.ts";
import type { ApiServices } from "../../packages/server/src/api/services.ts";
import { systemClock, systemDigest, systemRandomness } from "../../packages/server/src/system/ports.ts";
import { createApiRecord } from "../../packages/server/src/wiring/api-record.ts";
import { desksOf } from "../../packages/server/src/wiring/desks.ts";
import { createOperatorView } from "../../packages/server/src/wiring/operator-view.ts";
import { openRecord, type PlatformRecord } from "../../packages/server/src/wiring/record.ts";
import { cloneDatabase, type ClonedDatabase } from "./clone-database.ts";

const SECRET = "the secret of this test";
export const VERSION = "9.9.9";

export interface Asked {
  readonly key?: string;
  /** End user to assert. */
  readonly user?: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON; text and bytes as they are. */
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

export interface Told<Body = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

export interface LoggedLine {
  readonly level: "info" | "warn" | "error";
  readonly message: string;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly error?: unknown;
}

export interface ApiWorldOptions {
  readonly database?: ClonedDatabase;
  readonly live?: Pick<PlatformRecord["live"], "subscribe">;
  readonly services?: Partial<ApiServices>;
  /** What addresses that tenants give may reach. */
  readonly egressAllow?: EgressAllowance;
}

export interface RecordedCall {
  readonly tool: string;
  readonly effect: EffectClass;
  readonly given: object;
  /** What the tool answered; `null` while it was not made. */
  readonly result: string | null;
}

export class ApiWorld implements AsyncDisposable {
  readonly url: string;
  readonly record: PlatformRecord;
  readonly services: ApiServices;
  readonly stopping: AbortController;
  readonly logged: readonly LoggedLine[];
  /** What connected workers are said to offer; changed by tests. */
  readonly runtimes: RuntimeInfo[];
  /** Streams that listen to the live channel now. */
  readonly readers: ReadonlySet<unknown>;
  readonly #app: FastifyInstance;
  readonly database: ClonedDatabase;
  readonly #owns: boolean;
  #process: number | null = null;

  private constructor(
    parts: Pick<ApiWorld, "url" | "record" | "services" | "stopping" | "logged" | "runtimes" | "readers" | "database">,
    ends: Ends,
  ) {
    this.url = parts.url;
    this.record = parts.record;
    this.services = parts.services;
    this.stopping = parts.stopping;
    this.logged = parts.logged;
    this.runtimes = parts.runtimes;
    this.readers = parts.readers;
    this.#app = ends.app;
    this.database = parts.database;
    this.#owns = ends.owns;
  }

  /**
   * With a `database`, one more process beside the world that owns it. `live`, given that database, is what streams
   * listen to instead of the record's own channel.
   */
  static async open(options: ApiWorldOptions = {}): Promise<ApiWorld> {
    const database = options.database ?? (await cloneDatabase());
    const logged: LoggedLine[] = [];
    const log = logInto(logged);
    const record = openRecord({
      config: database.config,
      directConfig: database.config,
      log,
      expectedSeat: () => null,
      secret: SECRET,
      egressAllow: options.egressAllow ?? { names: [], networks: [] },
    });
    const runtimes: RuntimeInfo[] = [LANGGRAPH];
    const stopping = new AbortController();
    const readers = new Set<LiveSubscription>();
    const live = options.live ?? record.live;
    const services = {
      ...servicesOf({ record, runtimes, log, stopping: stopping.signal, readers, live }),
      ...options.services,
    };
    const app = createApi(services);
    const url = await listen(app, { host: "127.0.0.1", port: 0 });
    return new ApiWorld(
      { url, record, services, stopping, logged, runtimes, readers, database },
      { app, owns: options.database === undefined },
    );
  }

  /** A key of a tenant with these rights; all of them when left out. */
  async key(options: { readonly tenantId?: string; readonly rights?: readonly Right[] } = {}): Promise<string> {
    const key = `sbx_${randomBytes(24).toString("base64url")}`;
    await this.record.queries.apiKeys.create({
      keyId: newId("apiKey"),
      tenantId: options.tenantId ?? "default",
      name: "test",
      prefix: key.slice(0, 8),
      hash: apiKeyHmac(SECRET, key),
      rights: options.rights ?? RIGHTS,
      actor: { keyId: "test", user: null, roles: [], units: [] },
    });
    return key;
  }

  /** Claims the run of this conversation that is ready, as a supervisor of this process would. */
  async claim(conversationId: string): Promise<Ownership> {
    this.#process ??= (await this.record.processes.register(["supervisor"])).process;
    for (;;) {
      const request = { process: this.#process, room: { langgraph: 1 }, limit: 1 };
      const [ownership] = await this.record.ownership.claim(request);
      if (ownership === undefined) throw new Error("nothing is ready");
      if (ownership.claim.conversationId === conversationId) return ownership;
    }
  }

  /** Lets the run of this conversation wait: claimed, a hold opened by its gate, suspended. Answers the hold. */
  async openHold(
    conversationId: string,
    hold: { readonly kind?: HoldKind; readonly digest?: string; readonly suspend?: boolean } = {},
  ): Promise<string> {
    const ownership = await this.claim(conversationId);
    const tokenHash = randomBytes(32).toString("hex");
    await ownership.bindSlot({ tokenHash, workerId: "worker" });
    const { holdId } = await this.record.gates.openHold({
      tokenHash,
      process: this.#process ?? 0,
      holdId: newId("hold"),
      kind: hold.kind ?? "input",
      subject: { question: "how many?" },
      digest: hold.digest ?? null,
      expiresInMs: null,
    });
    if (hold.suspend !== false) await ownership.suspend();
    return holdId;
  }

  /** A call of a tool as the ledger keeps it, in place of a gate that would have recorded it. */
  async recordCall(runId: string, call: Partial<RecordedCall> = {}): Promise<string> {
    const { tool = "refund", effect = "irreversible", given = {}, result = null } = call;
    const id = newId("toolCall");
    await this.rows(
      `insert into signalbox.tool_call (id, tenant_id, run_id, conversation_id, model_call_id, ordinal, tool_use_id, name,
         server, tool, title, effect, definition_hash, arguments, arguments_digest, state, generation, result, proposed_at,
         finished_at)
       select $1, r.tenant_id, r.id, r.conversation_id, $2, 0, $1, 'shop__' || $3, 'shop', $3, $3, $4, 'h', $5, 'd',
              case when $6::text is null then 'proposed' else 'succeeded' end, 1, $6, signalbox.clock(),
              case when $6::text is null then null else signalbox.clock() end
       from signalbox.run r where r.id = $7 returning id`,
      [id, newId("modelCall"), tool, effect, JSON.stringify(given), result, runId],
    );
    return id;
  }

  /** The run's model proposes a payment that somebody is asked about; nobody has decided yet. */
  async askAboutPayment(
    conversationId: string,
    { suspend = true, asked = {} }: { readonly suspend?: boolean; readonly asked?: Partial<CallVerdict> } = {},
  ): Promise<{ readonly approval: string; readonly toolCall: string }> {
    const ownership = await this.claim(conversationId);
    const [process, { gates }] = [this.#process ?? 0, this.record];
    const tokenHash = randomBytes(32).toString("hex");
    await ownership.bindSlot({ tokenHash, workerId: "worker" });
    const modelCallId = newId("modelCall");
    const call = { tokenHash, modelCallId, process, wire: "anthropic", requestedModel: "sim/quote" } as const;
    await gates.openModelCall({ ...call, requestBytes: 1, rules: [] });
    const verdict = callVerdict({ verdict: "ask", reason: "It cannot be taken back.", rules: ["r1"], ...asked });
    const toolCallId = newId("toolCall");
    const proposal = {
      toolCallId,
      toolUseId: `toolu_${randomBytes(6).toString("hex")}`,
      name: "bank__pay",
      server: "bank",
      tool: "pay",
      effect: "irreversible",
      definitionHash: "h",
      argumentsJson: '{"cents":700}',
      argumentsDigest: "a",
      callDigest: "d",
      judged: { ...verdict, callDigest: "d", policyVersion: "p" },
    } as const;
    const nothingSpent = { servedModel: "sim", usage: NO_USAGE, costMicros: 0, priceVersion: "sim" };
    const settlement = { ...nothingSpent, modelCallId, stopReason: "tool_use", errorCode: null };
    await gates.settleModelCall({ ...settlement, state: "succeeded", proposals: [proposal] });
    const refused = await gates
      .openToolCall({ ...proposal, tokenHash, process, policyVersion: null })
      .catch((thrown: unknown) => asPlatformError(thrown).extra.holdId);
    if (suspend) await ownership.suspend();
    return { approval: String(refused), toolCall: toolCallId };
  }

  /** A call of this run that a client is to carry out, as its gate leaves it. */
  async callForClient(runId: string): Promise<string> {
    const id = newId("toolCall");
    await this.rows(
      `with h as (
         insert into signalbox.hold (id, tenant_id, conversation_id, run_id, kind, subject)
         select $2, tenant_id, conversation_id, id, 'client_tool', '{}' from signalbox.run where id = $1
         returning *)
       insert into signalbox.tool_call (id, tenant_id, run_id, conversation_id, model_call_id, ordinal, tool_use_id, name,
         server, tool, title, effect, arguments, arguments_digest, state, generation, proposed_at, hold_id)
       select $3, tenant_id, run_id, conversation_id, 'mc_1', 1, 'tu_1', 'open_app', '@client', 'open_app', 'open_app',
         'read', '{}', 'd', 'awaiting_approval', 1, signalbox.clock(), id
       from h returning id`,
      [runId, newId("hold"), id],
    );
    return id;
  }

  /** Rows as the superuser sees them. */
  async rows<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<readonly Row[]> {
    const client = new pg.Client(this.database.config);
    await client.connect();
    try {
      return (await client.query<Row>(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  async ask<Body = Record<string, unknown>>(path: string, asked: Asked = {}): Promise<Told<Body>> {
    const response = await this.fetch(path, asked);
    const text = await response.text();
    // The caller says what it expects; every test looks into it.
    return {
      status: response.status,
      headers: response.headers,
      body: (text === "" ? null : JSON.parse(text)) as Body,
    };
  }

  /** Asks for something that must be refused, and looks at everything an error has to say. */
  async refused(path: string, asked: Asked = {}): Promise<Told<Problem>> {
    return this.ask<Problem>(path, asked);
  }

  async fetch(path: string, asked: Asked = {}): Promise<Response> {
    const { key, user, body, headers, signal } = asked;
    const raw = typeof body === "string" || body instanceof Uint8Array;
    const actor = key === undefined || user === undefined ? null : await signActor(key, { user, roles: [], units: [] });
    return fetch(`${this.url}${path}`, {
      method: asked.method ?? (body === undefined ? "GET" : "POST"),
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(actor === null ? {} : { "signalbox-actor": actor }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: raw ? bytesOf(body) : JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stopping.abort();
    await this.#app.close();
    if (this.#process !== null) await this.record.processes.unregister(this.#process);
    await this.record[Symbol.asyncDispose]();
    if (this.#owns) await this.database[Symbol.asyncDispose]();
  }
}

interface Ends {
  readonly app: FastifyInstance;
  readonly owns: boolean;
}

export const LANGGRAPH: RuntimeInfo = {
  name: "langgraph",
  version: "1.0.0",
  available: true,
  problem: null,
  capabilities: [],
  workers: 1,
  room: 4,
};

export function newId<K extends IdKind>(kind: K): ReturnType<typeof makeId<K>> {
  return makeId(kind, uuidV7Bytes(Date.now(), randomBytes(10)));
}

/** The same subscription, counted while it is open. */
function counted(subscription: LiveSubscription, readers: Set<LiveSubscription>): LiveSubscription {
  const close = (): void => {
    readers.delete(subscription);
    subscription.close();
  };
  readers.add(subscription);
  return { [Symbol.asyncIterator]: () => subscription[Symbol.asyncIterator](), close, [Symbol.dispose]: close };
}

function servicesOf(parts: {
  readonly readers: Set<LiveSubscription>;
  readonly record: PlatformRecord;
  readonly runtimes: readonly RuntimeInfo[];
  readonly log: Log;
  readonly stopping: AbortSignal;
  readonly live: Pick<PlatformRecord["live"], "subscribe">;
}): ApiServices {
  const { record, runtimes, log, stopping, readers, live } = parts;
  return {
    record: createApiRecord(record.queries),
    admission: createAdmission({
      record: record.admission,
      handover: null,
      live: record.live,
      steerable: () => steerable(runtimes),
      clock: systemClock,
      randomness: systemRandomness,
      digest: systemDigest,
    }),
    admissionLimits: LIMITS,
    subscribe: (conversationId) => counted(live.subscribe(conversationId), readers),
    commands: record.commands,
    operatorView: createOperatorView(record.operatorQueries),
    ...desksOf(record, { digest: systemDigest, clock: systemClock, posture: "dev" }),
    runtimes: () => runtimes,
    providers: () => [{ name: "sim", simulated: true }],
    unreadiness: async () => [],
    eventRetentionDays: 90,
    digest: systemDigest,
    newAgentId: () => newId("agent"),
    newStopId: () => newId("stop"),
    newPolicyId: () => newId("policy"),
    newConversationId: () => newId("conversation"),
    secret: SECRET,
    monotonicMs: () => systemClock.monotonicMs(),
    log,
    version: VERSION,
    stopping,
  };
}

function steerable(runtimes: readonly RuntimeInfo[]): readonly string[] {
  return runtimes.filter(({ capabilities }) => capabilities.includes("steering")).map(({ name }) => name);
}

function logInto(lines: LoggedLine[]): Log {
  return {
    info: (message, facts = {}) => void lines.push({ level: "info", message, facts }),
    warn: (message, facts = {}) => void lines.push({ level: "warn", message, facts }),
    error: (message, error, facts = {}) => void lines.push({ level: "error", message, facts, error }),
  };
}

function bytesOf(body: string | Uint8Array): string | Uint8Array<ArrayBuffer> {
  return typeof body === "string" ? body : new Uint8Array(body);
}
