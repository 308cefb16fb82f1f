/** A tool server over streamable HTTP: one POST per message, answered as JSON or as a stream that ends with the answer. */
import type { IncomingMessage } from "node:http";
import { asPlatformError } from "@signalbox/contract";
import type { Clock } from "@signalbox/core";
import type { HttpClient } from "../gates/http-client.ts";
import { readBody } from "../gates/message-body.ts";
import { FrameScanner } from "../gates/sse-frames.ts";
import { headerValue, isObject, MODERN_VERSION } from "./mcp-protocol.ts";
import {
  CANCEL_GRACE_MS,
  deservesGrace,
  endOf,
  notAnswered,
  NotAnswered,
  SETTLED,
  type RpcAnswer,
  type RpcRequest,
  type RpcWire,
} from "./rpc-wire.ts";
import { readAnswer } from "./stdio-wire.ts";
import type { UpstreamAuth } from "./upstream-auth.ts";

export interface HttpWireOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly auth?: UpstreamAuth | null;
}

/** The server no longer knows its session; nothing of the request was looked at. */
export class SessionLost extends NotAnswered {}

interface Reading {
  readonly id: number;
  readonly onMessage: RpcRequest["onMessage"];
}

const ANSWER_BYTES_MAX = 16 * 1024 * 1024;
const NOTIFY_MS = 5_000;
const LATE_MS = 300_000;
const LATE_MAX = 64;

export class HttpWire implements RpcWire {
  readonly #options: HttpWireOptions;
  readonly #url: URL;
  readonly #http: HttpClient;
  readonly #clock: Clock;
  readonly #onNotification: (method: string) => void;
  /** Requests that were given up and are still listened to. */
  readonly #late = new Set<AbortController>();
  #version = MODERN_VERSION;
  #sessionId: string | null = null;
  #nextId = 1;

  constructor(
    options: HttpWireOptions,
    ports: { readonly http: HttpClient; readonly clock: Clock; readonly onNotification: (method: string) => void },
  ) {
    this.#options = options;
    this.#url = new URL(options.url);
    this.#http = ports.http;
    this.#clock = ports.clock;
    this.#onNotification = ports.onNotification;
  }

  speak(version: string): void {
    this.#version = version;
  }

  async request(request: RpcRequest): Promise<RpcAnswer> {
    const id = this.#nextId;
    this.#nextId += 1;
    const stop = new AbortController();
    const answered = new AbortController();
    const given = Promise.withResolvers<never>();
    const bounded = this.#bound(request, { stop, answered: answered.signal, id, giveUp: given.reject });
    const body = `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(request.method)},"params":${request.params}}`;
    const exchanged = this.#exchange(body, { request, id, signal: stop.signal });
    if (request.onLate === undefined) given.promise.catch(() => undefined);
    else this.#listenOn(exchanged, { given: given.promise, stop, onLate: request.onLate });
    try {
      return await (request.onLate === undefined ? exchanged : Promise.race([exchanged, given.promise]));
    } finally {
      answered.abort(SETTLED);
      await bounded;
    }
  }

  async #exchange(
    body: string,
    about: { readonly request: RpcRequest; readonly id: number; readonly signal: AbortSignal },
  ): Promise<RpcAnswer> {
    const { request, id, signal } = about;
    let head: IncomingMessage | null = null;
    try {
      head = await this.#post(body, { request, signal });
      return await this.#read(head, { id, onMessage: request.onMessage });
    } catch (thrown) {
      if (thrown instanceof NotAnswered) throw thrown;
      if (signal.aborted) throw signal.reason;
      // Refused or unresolved: nobody took the request. Anything later may have reached somebody.
      const sent = head !== null || !isRefused(thrown);
      throw new NotAnswered("tool_upstream_failed", {
        sent,
        detail: "The tool server cannot be reached.",
        cause: thrown,
      });
    }
  }

  /** Once the request is given up: hears its answer all the same, for a while. */
  #listenOn(
    exchanged: Promise<RpcAnswer>,
    about: {
      readonly given: Promise<never>;
      readonly stop: AbortController;
      readonly onLate: NonNullable<RpcRequest["onLate"]>;
    },
  ): void {
    const { given, stop, onLate } = about;
    given.catch(() => {
      const [oldest] = this.#late;
      if (this.#late.size >= LATE_MAX) oldest?.abort(SETTLED);
      this.#late.add(stop);
      const heard = new AbortController();
      const ended = (): void => {
        this.#late.delete(stop);
        heard.abort(SETTLED);
      };
      exchanged.then(onLate, () => undefined).finally(ended);
      const tooLate = (): void => stop.abort(SETTLED);
      this.#clock.sleep(LATE_MS, heard.signal).then(tooLate, tooLate);
    });
  }

  async notify(method: string, params: string): Promise<void> {
    const body = `{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${params}}`;
    const stop = new AbortController();
    const done = new AbortController();
    const late = this.#clock
      .sleep(NOTIFY_MS, done.signal)
      .then((how) => (how === "elapsed" ? stop.abort() : undefined));
    try {
      const head = await this.#post(body, { request: null, signal: stop.signal });
      head.resume();
    } finally {
      done.abort(SETTLED);
      await late;
    }
  }

  /** Ends a session that the server keeps for us. */
  async leave(): Promise<void> {
    for (const late of this.#late) late.abort(SETTLED);
    if (this.#sessionId === null) return;
    const stop = new AbortController();
    const done = new AbortController();
    const late = this.#clock
      .sleep(NOTIFY_MS, done.signal)
      .then((how) => (how === "elapsed" ? stop.abort() : undefined));
    const headers = { ...this.#options.headers, "mcp-session-id": this.#sessionId };
    try {
      const head = await this.#http.send({
        url: this.#url,
        method: "DELETE",
        headers,
        body: null,
        signal: stop.signal,
      });
      head.resume();
    } catch {
      // It is as well if the server forgets the session by itself.
    } finally {
      done.abort(SETTLED);
      await late;
    }
  }

  async #post(
    body: string,
    about: { readonly request: RpcRequest | null; readonly signal: AbortSignal },
  ): Promise<IncomingMessage> {
    const token = (await this.#options.auth?.token()) ?? null;
    const head = await this.#send(body, about, token);
    if (head.statusCode !== 401 || token === null || !this.#options.auth) return head;
    // Refused before it was looked at: the same once more, with a token that the issuer gives now.
    head.resume();
    return this.#send(body, about, await this.#options.auth.renewed(token));
  }

  async #send(
    body: string,
    { request, signal }: { readonly request: RpcRequest | null; readonly signal: AbortSignal },
    token: string | null,
  ): Promise<IncomingMessage> {
    const head = await this.#http.send({
      url: this.#url,
      method: "POST",
      headers: {
        ...request?.headers,
        ...this.#options.headers,
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        accept: "application/json, text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "mcp-protocol-version": this.#version,
        ...(request === null ? {} : { "mcp-method": request.method }),
        ...(request === null || request.name === null ? {} : { "mcp-name": headerValue(request.name) }),
        ...(this.#sessionId === null ? {} : { "mcp-session-id": this.#sessionId }),
      },
      body,
      signal,
    });
    const sessionId = head.headers["mcp-session-id"];
    if (typeof sessionId === "string") this.#sessionId = sessionId;
    return head;
  }

  async #read(head: IncomingMessage, about: Reading): Promise<RpcAnswer> {
    const status = head.statusCode ?? 0;
    if (status === 404 && this.#sessionId !== null) {
      head.resume();
      throw new SessionLost("tool_upstream_failed", { sent: false, detail: "The tool server forgot its session." });
    }
    if ((head.headers["content-type"] ?? "").startsWith("text/event-stream")) return this.#readStream(head, about);
    const text = (await readBody(head, ANSWER_BYTES_MAX).catch(tooLarge)).toString("utf8");
    const answer = answerIn(text, about.id);
    if (answer !== null) return answer;
    // A refusal without words of the protocol: what an older or a foreign server gives to a question it does not know.
    if (status >= 400 && status < 500) return { kind: "error", code: status, message: "", data: null };
    throw new NotAnswered("tool_upstream_failed", { sent: true, detail: "The tool server's answer cannot be used." });
  }

  #readStream(head: IncomingMessage, { id, onMessage }: Reading): Promise<RpcAnswer> {
    return new Promise((resolve, reject) => {
      const scanner = new FrameScanner();
      let sizeBytes = 0;
      const cut = (): void =>
        reject(
          new NotAnswered("tool_upstream_failed", {
            sent: true,
            detail: "The tool server's stream ended without an answer.",
          }),
        );
      head.on("data", (chunk: Buffer) => {
        sizeBytes += chunk.length;
        for (const frame of scanner.push(chunk)) {
          const answer = frame.data === null ? null : answerIn(frame.data, id);
          if (answer !== null) resolve(answer);
          else if (frame.data !== null) this.#notice(frame.data, onMessage);
        }
        if (sizeBytes > ANSWER_BYTES_MAX) head.destroy();
      });
      head.on("error", reject);
      head.on("close", cut);
    });
  }

  #notice(data: string, onMessage: Reading["onMessage"]): void {
    const message = parsed(data);
    if (isObject(message) && typeof message.method === "string" && message.id === undefined) {
      this.#onNotification(message.method);
      onMessage?.(message);
    }
  }

  /** Closing the request is how it is cancelled; servers with a handshake are told in words as well. */
  async #bound(
    request: RpcRequest,
    about: {
      readonly stop: AbortController;
      readonly answered: AbortSignal;
      readonly id: number;
      readonly giveUp: (reason: NotAnswered) => void;
    },
  ): Promise<void> {
    const { stop, answered, id, giveUp } = about;
    const end = await endOf(request, { settled: answered, clock: this.#clock });
    if (end === "answered") return;
    if (this.#version !== MODERN_VERSION) {
      const params = JSON.stringify({ requestId: id, reason: end });
      await this.notify("notifications/cancelled", params).catch(() => undefined);
      if (deservesGrace(end, request) && (await this.#clock.sleep(CANCEL_GRACE_MS, answered)) === "aborted") return;
    }
    // With a handshake the server may go on; without one a closed request is how it is told to stop.
    if (end === "timeout" && request.onLate !== undefined && this.#version !== MODERN_VERSION) giveUp(notAnswered(end));
    else stop.abort(notAnswered(end));
  }
}

function answerIn(text: string, id: number): RpcAnswer | null {
  const message = parsed(text);
  if (!isObject(message)) return null;
  const about = message.id === id || (message.id === null && message.error !== undefined);
  return about ? readAnswer(message) : null;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function tooLarge(thrown: unknown): never {
  if (asPlatformError(thrown).code !== "payload_too_large") throw thrown;
  throw new NotAnswered("payload_too_large", { sent: true, detail: "The tool's result is too large." });
}

/** Nobody took the request: anything later may have reached somebody. */
export function isRefused(thrown: unknown): boolean {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : null;
  return code === "ECONNREFUSED" || code === "ENOTFOUND" || code === "EAI_AGAIN" || code === "EHOSTUNREACH";
}
