/**
 * A client's call of a tool while it is relayed: within its time, told to its server when it is given up, and closed in
 * the ledger before the client reads what came of it.
 */
import type { IncomingMessage } from "node:http";
import { isObject, type Json } from "../mcp-protocol.ts";
import type { McpReply } from "../mcp-reply.ts";
import type { McpRequest } from "../mcp-request.ts";
import { NotAnswered, notAnswered } from "../rpc-wire.ts";
import { goneSignal, type Exchange } from "./exchange.ts";
import type { BegunCall } from "./gateway-calls.ts";
import type { HttpRelayPorts } from "./http-relay.ts";
import { relayAnswer } from "./relayed-answer.ts";

/** Sends a body to the server of the call. */
export type SendCall = (body: string, signal: AbortSignal) => Promise<IncomingMessage>;

interface Relayed {
  readonly exchange: Exchange;
  readonly message: McpRequest;
  readonly reply: McpReply;
  readonly begun: BegunCall;
}

/** How long a call that was given up is still listened to, so that what it came to is not lost. */
const LATE_MS = 300_000;

export class RelayedCall {
  readonly #ports: HttpRelayPorts;
  readonly #relayed: Relayed;
  readonly #reply: McpReply;
  #closed = false;

  constructor(ports: HttpRelayPorts, relayed: Relayed) {
    this.#ports = ports;
    this.#relayed = relayed;
    this.#reply = relayed.reply;
  }

  #inEra(json: string): string {
    return inEra(json, this.#relayed.message.modern);
  }

  async run(send: SendCall): Promise<void> {
    const { begun, message, exchange } = this.#relayed;
    const { clock, quietMs, stopping } = this.#ports;
    const stop = new AbortController();
    const gone = goneSignal(exchange.response);
    const end = (): void => stop.abort("stop");
    // Without a session a closed connection is how a call is cancelled; with one, its client may come back for it.
    if (message.modern) gone.addEventListener("abort", end, { once: true });
    stopping.addEventListener("abort", end, { once: true });
    const done = new AbortController();
    const alive = this.#reply.keepAlive(clock, quietMs, done.signal);
    const relayed = this.#relay(begun, { send, signal: stop.signal });
    const timed = clock.sleep(begun.timeoutMs, done.signal);
    try {
      if ((await Promise.race([relayed, timed])) === "elapsed") await this.#giveUp(begun, { send, stop, relayed });
      else await relayed;
    } finally {
      done.abort("answered");
      stopping.removeEventListener("abort", end);
      await alive;
    }
  }

  async #relay(begun: BegunCall, way: { readonly send: SendCall; readonly signal: AbortSignal }): Promise<void> {
    const { scrub } = this.#ports;
    const { message } = this.#relayed;
    const { inputResponses: _said, requestState: _state, ...given } = message.params;
    // Canonical, as a person wrote it.
    const changed = begun.isEdited ? { arguments: JSON.parse(begun.argumentsJson) as unknown } : {};
    const params = { ...given, ...begun.carried, ...changed, _meta: { ...message.meta, ...begun.meta } };
    const body = { jsonrpc: "2.0", id: message.id, method: message.method, params };
    // What is said on the way is not a result, and nobody could say what of it the policy hides.
    const isQuiet = begun.conditions.redacted.length > 0;
    try {
      const head = await way.send(JSON.stringify(body), way.signal);
      const onAnswer = (answer: Json): Promise<string> => this.#close(begun, answer);
      const answered = await relayAnswer(head, { reply: this.#reply, id: message.id, scrub, onAnswer, isQuiet });
      if (!answered) await this.#streamEnded(begun);
    } catch (thrown) {
      const problem = way.signal.aborted ? notAnswered("cancelled") : thrown;
      await this.#fail(begun, problem);
    }
  }

  /** The message as the client gets it, once it is recorded. */
  async #close(begun: BegunCall, answer: Json): Promise<string> {
    const { calls, scrub } = this.#ports;
    const id = JSON.stringify(this.#relayed.message.id);
    if (this.#closed) {
      await calls.late(begun, isObject(answer.result) ? answer.result : { error: answer.error ?? null });
      return JSON.stringify(answer);
    }
    this.#closed = true;
    if (isObject(answer.result)) {
      const json = await calls.answered(begun, answer.result);
      return `{"jsonrpc":"2.0","id":${id},"result":${this.#inEra(json)}}`;
    }
    const { code, message } = isObject(answer.error) ? answer.error : {};
    const said = await calls.refused(begun, { code: Number(code), message: scrub(String(message)) });
    const isHidden = begun.conditions.redacted.length > 0;
    return JSON.stringify(isHidden ? { ...answer, error: { code, message: said } } : answer);
  }

  /** A stream that a client with a session may take up again says nothing about the call; it is only not known. */
  async #streamEnded(begun: BegunCall): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const detail = "The tool server's stream ended without an answer.";
    const json = await this.#ports.calls.lost(begun, { code: "tool_upstream_failed", sent: true, detail });
    if (this.#relayed.message.modern) this.#reply.result(this.#inEra(json));
    else this.#relayed.exchange.response.end();
  }

  async #fail(begun: BegunCall, thrown: unknown): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#reply.result(this.#inEra(await this.#ports.calls.threw(begun, thrown)));
  }

  /** The call's time is over. The client hears so at once; its server is told, and may still say what came of it. */
  async #giveUp(
    begun: BegunCall,
    {
      send,
      stop,
      relayed,
    }: { readonly send: SendCall; readonly stop: AbortController; readonly relayed: Promise<void> },
  ): Promise<void> {
    const { message } = this.#relayed;
    await this.#fail(
      begun,
      new NotAnswered("tool_timeout", { sent: true, detail: "The tool did not answer in time." }),
    );
    if (message.modern) {
      stop.abort("timeout");
      await relayed;
      return;
    }
    const params = { requestId: message.id, reason: "timeout" };
    const told = { jsonrpc: "2.0", method: "notifications/cancelled", params };
    await send(JSON.stringify(told), stop.signal).then(
      (head) => head.resume(),
      () => undefined,
    );
    const heard = new AbortController();
    const late = this.#ports.clock.sleep(LATE_MS, AbortSignal.any([heard.signal, this.#ports.stopping]));
    const ended = relayed.finally(() => heard.abort("heard"));
    // Nobody waits for this any more; the gateway's own end does.
    await Promise.all([ended, late.then(() => stop.abort("late"))]);
  }
}

/** What is the gate's own answer names its kind where the era asks for it; a server's own already does. */
export function inEra(json: string, modern: boolean): string {
  return modern && !json.startsWith('{"resultType"') ? `{"resultType":"complete",${json.slice(1)}` : json;
}
