/** One HTTP exchange with the API: headers, retries that are safe, and problem documents as errors. */
import { problemSchema, type ActorClaim } from "@signalbox/contract";
import { ACTOR_HEADER, signActor } from "./actor.ts";
import { SignalboxError } from "./client-error.ts";
import { backoffMs, pause } from "./pause.ts";

const ATTEMPT_LIMIT = 4;
const TIMEOUT_MS = 60_000;
const RETRY_AFTER_LIMIT_MS = 60_000;

/** Where the API is, and as whom it is asked. */
export interface TransportOptions {
  /** Address of the API, for example `http://127.0.0.1:4620`. */
  readonly url: string;
  readonly apiKey: string;
  /** The end user asserted on every request, or `null` for the key itself. */
  readonly actor: ActorClaim | null;
  readonly fetch: typeof fetch;
  /** How long one attempt may take until its answer is whole; streams have no such limit. Default 60 000. */
  readonly timeoutMs?: number;
}

/** One request. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Path and query. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Makes a POST safe to send again; without one a POST is sent once. */
  readonly idempotencyKey?: string;
  /** True for what does nothing twice by its nature, such as a cancel. Default: a GET. */
  readonly repeatable?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  /** Gives up; the call then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Sends requests to one platform. Every failure is a `SignalboxError`, unless the caller's own signal aborted. */
export class Transport {
  readonly options: TransportOptions;

  constructor(options: TransportOptions) {
    this.options = options;
  }

  /**
   * The parsed body. Waits and tries again, at most three times, where that cannot do anything twice. Errors: every
   * code of the error table, `unreachable`, `unreadable`.
   */
  async json<T>(request: ApiRequest, parse: (body: unknown) => T): Promise<T> {
    const repeatable = request.repeatable ?? (request.method === "GET" || request.idempotencyKey !== undefined);
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#exchange(request, parse);
      } catch (thrown) {
        const passing = thrown instanceof SignalboxError && thrown.retryable;
        if (!passing || !repeatable || attempt >= ATTEMPT_LIMIT || request.signal?.aborted === true) throw thrown;
        await pause(thrown.retryAfterMs ?? backoffMs(attempt), request.signal);
      }
    }
  }

  /** A response with a good status, asked for once; its body is the caller's to read. */
  async once(request: ApiRequest): Promise<Response> {
    const { url } = this.options;
    const address = addressOf(request.path, url);
    const headers = await this.#headers(request);
    let response: Response;
    try {
      response = await this.options.fetch(address, {
        method: request.method,
        headers,
        ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
        ...(request.signal === undefined ? {} : { signal: request.signal }),
      });
    } catch (cause) {
      request.signal?.throwIfAborted();
      throw new SignalboxError(`The API at ${url} cannot be reached.`, { cause });
    }
    if (response.ok) return response;
    throw await errorOf(response);
  }

  async #exchange<T>(request: ApiRequest, parse: (body: unknown) => T): Promise<T> {
    const { url, timeoutMs = TIMEOUT_MS } = this.options;
    const late = AbortSignal.timeout(timeoutMs);
    const signal = request.signal === undefined ? late : AbortSignal.any([request.signal, late]);
    let response: Response;
    let text: string;
    try {
      response = await this.once({ ...request, signal });
      text = await response.text();
    } catch (cause) {
      request.signal?.throwIfAborted();
      if (cause instanceof SignalboxError) throw cause;
      const what = late.aborted ? `did not answer within ${timeoutMs} ms` : "broke off its answer";
      throw new SignalboxError(`The API at ${url} ${what}.`, { cause });
    }
    try {
      return parse(JSON.parse(text));
    } catch (cause) {
      const message = `What answers at ${url} is not understood. Is it the API, and is this client as new as it?`;
      throw new SignalboxError(message, { code: "unreadable", status: response.status, cause });
    }
  }

  async #headers(request: ApiRequest): Promise<Readonly<Record<string, string>>> {
    const { apiKey, actor } = this.options;
    if (typeof apiKey !== "string" || apiKey === "") {
      throw new SignalboxError("No API key was given. Pass one of the form sbx_… as `apiKey`.", {
        code: "unauthenticated",
      });
    }
    return {
      authorization: `Bearer ${apiKey}`,
      accept: "application/json",
      ...(actor === null ? {} : { [ACTOR_HEADER]: await signActor(apiKey, actor) }),
      ...(request.body === undefined ? {} : { "content-type": "application/json" }),
      ...(request.idempotencyKey === undefined ? {} : { "idempotency-key": request.idempotencyKey }),
      ...request.headers,
    };
  }
}

function addressOf(path: string, url: string): URL {
  const address = URL.parse(path, url);
  if (address === null || !/^https?:$/.test(address.protocol)) {
    throw new SignalboxError(`"${url}" is not an address such as http://127.0.0.1:4620.`, { code: "unreadable" });
  }
  return address;
}

async function errorOf(response: Response): Promise<SignalboxError> {
  const retryAfterMs = retryAfterOf(response.headers.get("retry-after"));
  const text = await response.text().catch(() => "");
  const parsed = problemSchema.safeParse(parseJson(text));
  if (parsed.success) return new SignalboxError(parsed.data.detail, { problem: parsed.data, retryAfterMs });
  return new SignalboxError(`${response.url} answered ${response.status} without a problem document.`, {
    code: "unreadable",
    status: response.status,
    retryAfterMs,
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Seconds, or the date that proxies send. */
function retryAfterOf(header: string | null): number | null {
  if (header === null) return null;
  const delayMs = /^[0-9]+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return Number.isNaN(delayMs) ? null : Math.min(Math.max(delayMs, 0), RETRY_AFTER_LIMIT_MS);
}
