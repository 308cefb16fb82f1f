/** The API as the page uses it: JSON, refusals in sentences, and one conversation's events for as long as it is open. */

/** @typedef {import("@signalbox/contract").PlatformEvent} PlatformEvent */

const RECONNECT_FIRST_MS = 500;
const RECONNECT_LIMIT_MS = 10_000;
/** The platform is heard at least every 15 seconds; three times that without a byte, and the connection is dead. */
const SILENCE_LIMIT_MS = 45_000;

export class Refusal extends Error {
  /** @param {{ readonly detail: string, readonly code: string, readonly status: number }} problem */
  constructor(problem) {
    super(problem.detail);
    this.code = problem.code;
    this.status = problem.status;
  }
}

export class PlatformApi {
  /** @type {string} */
  #key;

  /** @param {string} key */
  constructor(key) {
    this.#key = key;
  }

  /**
   * @template T
   * @param {string} path
   * @returns {Promise<T>}
   */
  async get(path) {
    const response = await this.#ask(path, {});
    return /** @type {T} */ (await response.json());
  }

  /**
   * @template T
   * @param {string} path
   * @param {object} body
   * @returns {Promise<T>}
   */
  async post(path, body) {
    const headers = { "content-type": "application/json", "idempotency-key": freshKey() };
    const response = await this.#ask(path, { method: "POST", headers, body: JSON.stringify(body) });
    return /** @type {T} */ (await response.json());
  }

  /**
   * Follows a conversation from the oldest event that is kept, and goes on where it stood when the connection breaks.
   * @param {string} conversationId
   * @param {{ readonly signal: AbortSignal, readonly tell: (state: string) => void }} reader
   * @returns {AsyncGenerator<PlatformEvent, void, undefined>}
   */
  async *events(conversationId, reader) {
    const { signal, tell } = reader;
    /** @type {number | null} */
    let after = null;
    let waitMs = RECONNECT_FIRST_MS;
    while (!signal.aborted) {
      tell("connecting …");
      try {
        /** @type {string} */
        const query = after === null ? "" : `?after=${after}`;
        for await (const event of this.#connectOnce(`/v1/conversations/${conversationId}/events${query}`, reader)) {
          waitMs = RECONNECT_FIRST_MS;
          if (event.sequence !== null) after = event.sequence;
          yield event;
        }
      } catch (thrown) {
        if (signal.aborted) return;
        // What is no longer kept is left out; everything else that the platform refuses stays refused.
        if (thrown instanceof Refusal && thrown.code === "cursor_expired") after = null;
        else if (thrown instanceof Refusal && thrown.status < 500 && thrown.status !== 429) throw thrown;
      }
      tell("reconnecting …");
      await pause(waitMs, signal);
      waitMs = Math.min(waitMs * 2, RECONNECT_LIMIT_MS);
    }
  }

  /**
   * @param {string} path
   * @param {{ readonly signal: AbortSignal, readonly tell: (state: string) => void }} reader
   * @returns {AsyncGenerator<PlatformEvent, void, undefined>}
   */
  async *#connectOnce(path, { signal, tell }) {
    const connection = new AbortController();
    const either = AbortSignal.any([signal, connection.signal]);
    let silence = setTimeout(() => connection.abort(), SILENCE_LIMIT_MS);
    try {
      const response = await this.#ask(path, { headers: { accept: "text/event-stream" }, signal: either });
      if (response.body === null) return;
      tell("live");
      const reading = response.body.getReader();
      const decoder = new TextDecoder();
      let text = "";
      for (;;) {
        const { done, value } = await reading.read();
        if (done) return;
        clearTimeout(silence);
        silence = setTimeout(() => connection.abort(), SILENCE_LIMIT_MS);
        text += decoder.decode(value, { stream: true });
        const frames = text.split("\n\n");
        text = frames.pop() ?? "";
        for (const frame of frames) yield* eventsOf(frame);
      }
    } finally {
      clearTimeout(silence);
      connection.abort();
    }
  }

  /**
   * @param {string} path
   * @param {RequestInit} request
   */
  async #ask(path, request) {
    const headers = new Headers(request.headers);
    headers.set("authorization", `Bearer ${this.#key}`);
    if (!headers.has("accept")) headers.set("accept", "application/json");
    const response = await fetch(path, { ...request, headers, cache: "no-store", credentials: "omit" });
    if (response.ok) return response;
    const plain = { detail: `The platform answered ${response.status}.`, code: "unreadable", status: response.status };
    const problem = /** @type {Partial<typeof plain>} */ (await response.json().catch(() => ({})));
    throw new Refusal({ ...plain, ...problem });
  }
}

/**
 * @param {string} frame
 * @returns {readonly PlatformEvent[]}
 */
function eventsOf(frame) {
  const lines = frame.split("\n");
  const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice("data: ".length));
  if (data.length === 0 || lines.includes("event: stream.closing")) return [];
  return [/** @type {PlatformEvent} */ (JSON.parse(data.join("\n")))];
}

/** `crypto.randomUUID` is only there where the page came over HTTPS or from this machine. */
function freshKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * @param {number} waitMs
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function pause(waitMs, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, waitMs);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
