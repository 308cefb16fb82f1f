/** One HTTP exchange with the API: headers, retries that are safe, and problem documents as errors. */
import { problemSchema, type ActorClaim } from "@signalbox/contract";
import { ACTOR_HEADER, signActor } from "./actor.ts";
import { SignalboxError } from "./client-error.ts";

const ATTEMPT_LIMIT = 4;
const BACKOFF_START_MS = 200;
const BACKOFF_LIMIT_MS = 5_000;

export interface TransportOptions {
  readonly url: string;
  readonly apiKey: string;
  readonly actor: ActorClaim | null;
  readonly fetch: typeof fetch;
}

export interface ApiRequest {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
  /** Makes a POST safe to send again; without one a POST is sent once. */
  readonly idempotencyKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export class Transport {
  readonly options: TransportOptions;

  constructor(options: TransportOptions) {
    this.options = options;
  }

  /** The parsed body. Errors: every code of the error table, as `SignalboxError`. */
  async json<T>(request: ApiRequest, parse: (body: unknown) => T): Promise<T> {
    const response = await this.send(request);
    return parse(await response.json());
  }

  /** A response with a good status. Waits and tries again where that cannot do anything twice. */
  async send(request: ApiRequest): Promise<Response> {
    const repeatable = request.method === "GET" || request.idempotencyKey !== undefined;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.once(request);
      } catch (thrown) {
        const mayRepeat = thrown instanceof SignalboxError && thrown.retryable && repeatable && attempt < ATTEMPT_LIMIT;
        if (!mayRepeat || request.signal?.aborted === true) throw thrown;
        await pause(thrown.retryAfterMs ?? backoffMs(attempt), request.signal);
      }
    }
  }

  async once(request: ApiRequest): Promise<Response> {
    const { url, apiKey, actor } = this.options;
    const headers: Record<string, string> = {
      authorization: `Bearer ${apiKey}`,
      accept: "application/json",
      ...request.headers,
    };
    if (actor !== null) headers[ACTOR_HEADER] = await signActor(apiKey, actor);
    if (request.body !== undefined) headers["content-type"] = "application/json";
    if (request.idempotencyKey !== undefined) headers["idempotency-key"] = request.idempotencyKey;
    let response: Response;
    try {
      response = await this.options.fetch(new URL(request.path, url), {
        method: request.method,
        headers,
        ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
        ...(request.signal === undefined ? {} : { signal: request.signal }),
      });
    } catch (cause) {
      if (request.signal?.aborted === true) throw cause;
      throw new SignalboxError(`The API at ${url} cannot be reached.`, { cause });
    }
    if (response.ok) return response;
    throw await errorOf(response);
  }
}

async function errorOf(response: Response): Promise<SignalboxError> {
  const retryAfterMs = retryAfterOf(response.headers.get("retry-after"));
  const text = await response.text().catch(() => "");
  const parsed = problemSchema.safeParse(parseJson(text));
  if (parsed.success) return new SignalboxError(parsed.data.detail, { problem: parsed.data, retryAfterMs });
  return new SignalboxError(`The API answered ${response.status} without a problem document.`, {
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

function retryAfterOf(header: string | null): number | null {
  const seconds = header === null ? Number.NaN : Number(header);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds * 1_000, 60_000) : null;
}

/** Positive jitter: never earlier than the step, spread afterwards. */
export function backoffMs(attempt: number): number {
  return Math.min(BACKOFF_START_MS * 2 ** (attempt - 1), BACKOFF_LIMIT_MS) * (1 + Math.random() / 2);
}

export function pause(delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", fail);
      resolve();
    }, delayMs);
    if (signal?.aborted === true) fail();
    signal?.addEventListener("abort", fail, { once: true });
  });
}
