/**
 * One tool server over HTTP as the relay reaches it: with the operator's headers or the platform's own token and never
 * with anything the client presented to us; in another session when the server has lost the one there was.
 */
import type { IncomingMessage } from "node:http";
import type { Clock } from "@signalbox/core";
import type { HttpClient } from "../../gates/http-client.ts";
import { readBody } from "../../gates/message-body.ts";
import { isRefused } from "../http-wire.ts";
import { NotAnswered } from "../rpc-wire.ts";
import type { UpstreamAuth } from "../upstream-auth.ts";
import type { RelayedSession } from "./sealed-sessions.ts";

export interface RelayedRequest {
  readonly method: "GET" | "POST" | "DELETE";
  readonly body: string | null;
  /** Of the protocol only. */
  readonly headers: Readonly<Record<string, string>>;
  readonly session: RelayedSession | null;
  readonly signal: AbortSignal;
  /** Whether the server may get it twice: then it is sent again when it was lost on the way. */
  readonly mayRepeat: boolean;
}

export interface RelayUpstreamOptions {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly auth: UpstreamAuth | null;
  readonly http: HttpClient;
  readonly clock: Clock;
}

/** A server that is being started again is there soon. */
const PAUSES_MS: readonly number[] = [50, 150, 400, 800];
const RENEWED_MAX = 10_000;
const ANSWER_BYTES_MAX = 1024 * 1024;
const REOPEN_MS = 10_000;
const JSON_HEADERS = { accept: "application/json, text/event-stream", "content-type": "application/json" };

export class RelayUpstream {
  readonly #options: RelayUpstreamOptions;
  /** By the id a session began with, the id it has now. */
  readonly #renewed = new Map<string, Promise<string>>();

  constructor(options: RelayUpstreamOptions) {
    this.#options = options;
  }

  /** The head of the answer. Rejects with `NotAnswered`, or with the signal's reason. */
  async send(request: RelayedRequest): Promise<IncomingMessage> {
    const upstreamId = request.session === null ? null : await this.#idOf(request.session.upstreamId);
    const head = await this.#deliver(request, upstreamId);
    if (head.statusCode !== 404 || request.session === null || upstreamId === null) return head;
    if (request.method === "DELETE") return head;
    // Nothing of the request was looked at: it may be made once more in a session opened like the one that is lost.
    head.resume();
    return this.#deliver(request, await this.#reopen(request.session, upstreamId));
  }

  async #idOf(firstId: string): Promise<string> {
    return (await this.#renewed.get(firstId)) ?? firstId;
  }

  async #deliver(request: RelayedRequest, upstreamId: string | null): Promise<IncomingMessage> {
    for (const pauseMs of PAUSES_MS) {
      try {
        return await this.#authorised(request, upstreamId);
      } catch (thrown) {
        if (request.signal.aborted) throw request.signal.reason;
        if (!isRefused(thrown) && !request.mayRepeat) throw notReached(thrown);
        if ((await this.#options.clock.sleep(pauseMs, request.signal)) === "aborted") throw request.signal.reason;
      }
    }
    return this.#authorised(request, upstreamId).catch((thrown: unknown) => {
      throw request.signal.aborted ? request.signal.reason : notReached(thrown);
    });
  }

  async #authorised(request: RelayedRequest, upstreamId: string | null): Promise<IncomingMessage> {
    const { auth } = this.#options;
    const token = auth === null ? null : await auth.token();
    const head = await this.#once(request, { upstreamId, token });
    if (head.statusCode !== 401 || auth === null || token === null) return head;
    head.resume();
    return this.#once(request, { upstreamId, token: await auth.renewed(token) });
  }

  #once(
    { method, body, headers, signal }: RelayedRequest,
    as: { readonly upstreamId: string | null; readonly token: string | null },
  ): Promise<IncomingMessage> {
    const { url, http, headers: ours } = this.#options;
    return http.send({
      url,
      method,
      body,
      signal,
      headers: {
        ...headers,
        "accept-encoding": "identity",
        ...ours,
        ...(as.token === null ? {} : { authorization: `Bearer ${as.token}` }),
        ...(as.upstreamId === null ? {} : { "mcp-session-id": as.upstreamId }),
      },
    });
  }

  /** One for all who find the session lost. */
  #reopen(session: RelayedSession, lostId: string): Promise<string> {
    const { upstreamId: firstId } = session;
    const current = this.#renewed.get(firstId);
    const isStale =
      current === undefined
        ? lostId === firstId
        : current.then(
            (id) => id === lostId,
            () => true,
          );
    return Promise.resolve(isStale).then((stale) => {
      const latest = this.#renewed.get(firstId);
      if (!stale || (latest !== undefined && latest !== current)) return latest ?? firstId;
      const opening = this.#open(session);
      const [oldest] = this.#renewed.keys();
      if (this.#renewed.size >= RENEWED_MAX && oldest !== undefined) this.#renewed.delete(oldest);
      this.#renewed.set(firstId, opening);
      opening.catch(() => {
        if (this.#renewed.get(firstId) === opening) this.#renewed.delete(firstId);
      });
      return opening;
    });
  }

  async #open({ initialize, version }: RelayedSession): Promise<string> {
    const signal = AbortSignal.timeout(REOPEN_MS);
    const headers = { ...JSON_HEADERS, "mcp-protocol-version": version };
    const params = { capabilities: {}, clientInfo: { name: "signalbox", version: "1" }, ...initialize };
    const post = (message: object): RelayedRequest => {
      const body = JSON.stringify({ jsonrpc: "2.0", ...message });
      return { method: "POST", body, headers, session: null, signal, mayRepeat: true };
    };
    const opened = post({ id: "again", method: "initialize", params: { ...params, protocolVersion: version } });
    const head = await this.#deliver(opened, null);
    await readBody(head, ANSWER_BYTES_MAX);
    const id = head.headers["mcp-session-id"];
    if (head.statusCode !== 200 || typeof id !== "string") throw notReached(new Error("no session was opened"));
    (await this.#deliver(post({ method: "notifications/initialized" }), id)).resume();
    return id;
  }
}

function notReached(cause: unknown): NotAnswered {
  if (cause instanceof NotAnswered) return cause;
  const sent = !isRefused(cause);
  return new NotAnswered("tool_upstream_failed", { sent, detail: "The tool server cannot be reached.", cause });
}
