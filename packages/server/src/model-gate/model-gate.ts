/**
 * The way from engines to models. Answerable for: nothing leaves without a committed intent, nothing is answered
 * without a settlement, no tool call reaches an engine that was not recorded, and the provider's key stays here.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  asPlatformError,
  makeId,
  NO_USAGE,
  PlatformError,
  uuidV7Bytes,
  type ModelCallId,
  type Snapshot,
} from "@signalbox/contract";
import type { Clock, Digest, GateRecord, Log, Randomness, ToolJudge } from "@signalbox/core";
import type { Gate } from "../gates/gate-server.ts";
import { HttpClient } from "../gates/http-client.ts";
import { readBody } from "../gates/message-body.ts";
import { OpenCalls } from "../gates/open-calls.ts";
import { Settling } from "../gates/settling.ts";
import { slotTokenHash } from "../gates/slot-token.ts";
import { relayCount } from "./count-tokens.ts";
import { prepareMessage, type Grant } from "./engine-request.ts";
import { ModelCall, type ModelCallPorts } from "./model-call.ts";
import { MODEL_GATE_LIMITS, type ModelGateLimits } from "./model-gate-limits.ts";
import type { Provider } from "./providers.ts";
import { SlotSnapshots, type BoundHere } from "./slot-snapshots.ts";
import { ourError, sendError } from "./wire-error.ts";

export interface ModelGateOptions {
  readonly record: Omit<GateRecord, "openToolCall">;
  readonly providers: readonly Provider[];
  /** Judges the tool calls of a message before they are recorded. */
  readonly judge: ToolJudge;
  readonly clock: Clock;
  /** Incarnation of this process, named by every call it opens. Throws while the process is not sure of it. */
  readonly process: () => number;
  readonly digest: Digest;
  readonly randomness: Randomness;
  readonly log: Log;
  /** For slots that were bound in this process. */
  readonly boundSnapshot?: BoundHere;
  /** Names of a snapshot's tools that are not to be offered to a model now. */
  readonly withheldTools?: (snapshot: Snapshot) => ReadonlySet<string>;
  readonly limits?: Partial<ModelGateLimits>;
}

export interface ModelGate extends Gate, AsyncDisposable {
  /** A bell: what may act in the conversation changed, or with `null` in any. The record says what is cut. */
  look(conversationId: string | null): void;
}

/** How often a request is judged anew because its slot changed between look and intent. */
const JUDGED_MAX = 3;

const NONE: ReadonlySet<string> = new Set();

export function createModelGate(options: ModelGateOptions): ModelGate {
  return new HttpModelGate(options);
}

class HttpModelGate implements ModelGate {
  readonly #options: ModelGateOptions;
  readonly #limits: ModelGateLimits;
  readonly #http = new HttpClient();
  readonly #open: OpenCalls;
  readonly #settling: Settling;
  readonly #ports: ModelCallPorts;
  readonly #snapshots: SlotSnapshots;
  readonly #serving = new Set<Promise<void>>();

  constructor(options: ModelGateOptions) {
    const { record, clock, digest, judge, randomness, log } = options;
    this.#options = options;
    this.#limits = { ...MODEL_GATE_LIMITS, ...options.limits };
    this.#open = new OpenCalls({ record, clock, recheckEveryMs: this.#limits.recheckEveryMs });
    this.#settling = new Settling({ clock, log });
    const own = { http: this.#http, open: this.#open, settling: this.#settling, limits: this.#limits };
    this.#ports = { record, clock, digest, judge, randomness, log, ...own };
    this.#snapshots = new SlotSnapshots(record, options.boundSnapshot);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const served = this.#serve(request, response)
      .catch((thrown: unknown) => this.#fail(response, thrown))
      .finally(() => this.#serving.delete(served));
    this.#serving.add(served);
  }

  look(conversationId: string | null): void {
    this.#open.hear(conversationId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#open[Symbol.asyncDispose]();
    await Promise.all([this.#settling[Symbol.asyncDispose](), ...this.#serving]);
    this.#http[Symbol.dispose]();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [address = "", query = ""] = (request.url ?? "/").split("?", 2);
    const path = address.slice("/model".length);
    const route = `${request.method === "HEAD" ? "GET" : request.method} ${path}`;
    if (route === "POST /v1/messages") {
      await this.#message(request, response, query);
    } else if (route === "POST /v1/messages/count_tokens") {
      await this.#count(request, response, query);
    } else if (route === "GET /v1/models") {
      await this.#models(request, response);
    } else if (path === "/v1/messages" || path === "/v1/messages/count_tokens" || path === "/v1/models") {
      throw new PlatformError("method_not_allowed");
    } else {
      throw new PlatformError("not_found", "The model gate serves /v1/messages, its count_tokens and /v1/models.");
    }
  }

  async #message(request: IncomingMessage, response: ServerResponse, query: string): Promise<void> {
    const { record, clock, randomness } = this.#options;
    const tokenHash = slotTokenHash(request.headers, this.#options.digest);
    const bytes = await readBody(request, this.#limits.requestBytesMax);
    for (let judged = 0; judged < JUDGED_MAX; judged += 1) {
      const { snapshot, snapshotHash } = await this.#snapshots.of(tokenHash);
      const prepared = prepareMessage(bytes, this.#grantOf(snapshot));
      const modelCallId = makeId("modelCall", uuidV7Bytes(clock.nowMs(), randomness.bytes(10)));
      const { requestedModel, rules } = prepared;
      const process = this.#options.process();
      const intent = { tokenHash, modelCallId, process, wire: "anthropic", requestedModel, rules } as const;
      const opened = record.openModelCall({ ...intent, requestBytes: bytes.length });
      const view = await opened.catch((thrown: unknown) => this.#notOpened(modelCallId, thrown));
      if (view.snapshotHash === snapshotHash) {
        const input = { request, response, query, prepared, modelCallId, tokenHash, view };
        await new ModelCall(this.#ports, input).run();
        return;
      }
      this.#snapshots.learn(tokenHash, view);
      await this.#withdraw(modelCallId);
    }
    throw new PlatformError("slot_unknown", "The slot kept changing while the call was judged.");
  }

  /** When the record went away, the intent may have been committed all the same: nobody else would ever close it. */
  async #notOpened(modelCallId: ModelCallId, thrown: unknown): Promise<never> {
    if (asPlatformError(thrown).facts.retryable) {
      const { log } = this.#options;
      await this.#withdraw(modelCallId).catch((lost: unknown) =>
        log.error("an intent may be left open", lost, { modelCallId }),
      );
    }
    throw thrown;
  }

  /** An intent whose call never left costs nothing. */
  async #withdraw(modelCallId: ModelCallId): Promise<void> {
    const nothing = { servedModel: "", usage: NO_USAGE, costMicros: 0, priceVersion: null, stopReason: null };
    const settlement = {
      ...nothing,
      modelCallId,
      state: "failed",
      errorCode: "snapshot_mismatch",
      proposals: [],
    } as const;
    await this.#settling.firmly(() => this.#options.record.settleModelCall(settlement));
  }

  async #count(request: IncomingMessage, response: ServerResponse, query: string): Promise<void> {
    const tokenHash = slotTokenHash(request.headers, this.#options.digest);
    const bytes = await readBody(request, this.#limits.requestBytesMax);
    const view = await this.#options.record.slot(tokenHash);
    if (view.run === null) throw new PlatformError("slot_unknown");
    const grant = this.#grantOf(view.snapshot);
    await relayCount({ request, response, query, bytes, grant, ports: this.#ports });
  }

  #grantOf(snapshot: Snapshot): Grant {
    const { providers, withheldTools } = this.#options;
    return { snapshot, providers, withheldTools: withheldTools?.(snapshot) ?? NONE };
  }

  /** The one model of the slot's snapshot, for engines that look before they ask. */
  async #models(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const view = await this.#options.record.slot(slotTokenHash(request.headers, this.#options.digest));
    const id = view.snapshot.model;
    const model = { type: "model", id, display_name: id, created_at: "1970-01-01T00:00:00Z" };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ data: [model], has_more: false, first_id: id, last_id: id }));
  }

  #fail(response: ServerResponse, thrown: unknown): void {
    const error = asPlatformError(thrown);
    if (error.code === "internal" || error.code === "database_unavailable") {
      this.#options.log.error("a model call failed inside the gate", thrown);
    }
    sendError(response, ourError(error));
  }
}
