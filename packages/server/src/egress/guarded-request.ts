/**
 * One request to an address that a tenant gave. A connection of its own, no proxy, no redirects: where an answer points
 * to elsewhere, that is the answer. The head and the first bytes of the body are taken, and the rest is cut off.
 */
import { PlatformError } from "@signalbox/contract";
import { request as httpRequest, type ClientRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import type { EgressPolicy } from "./egress-policy.ts";
import { guardedLookup, systemResolver, type Resolver } from "./guarded-lookup.ts";
import { checkUrl, refused } from "./url-guard.ts";

/** How long a body is waited for once its head has come: what counts is said by then. */
const BODY_MS = 2_000;

export interface GuardedRequest {
  readonly url: string;
  readonly method: "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** From the first packet to the head of the answer. */
  readonly timeoutMs: number;
  /** How much of the answer's body is taken. */
  readonly bodyBytes: number;
  readonly signal: AbortSignal;
}

export interface GuardedAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  /** The first bytes of it, as text. */
  readonly body: string;
}

export interface EgressOptions {
  readonly policy: EgressPolicy;
  readonly resolver?: Resolver;
}

/** The other side was too slow. */
export class AnswerTimeout extends Error {
  override readonly name = "AnswerTimeout";
}

export type Send = (outgoing: GuardedRequest) => Promise<GuardedAnswer>;

/** Ends with `address_refused`, with an `AnswerTimeout`, or with the socket's own error. */
export function guardedSender({ policy, resolver = systemResolver }: EgressOptions): Send {
  const lookup = guardedLookup(policy, resolver);
  return async (outgoing) => {
    const { url, host } = checkUrl(outgoing.url, policy);
    const options: RequestOptions = {
      method: outgoing.method,
      headers: { ...outgoing.headers, "content-length": Buffer.byteLength(outgoing.body) },
      lookup,
      agent: false,
    };
    const named = policy.allowsName(host);
    return await exchange(outgoing, (signal) => {
      const request = (url.protocol === "https:" ? httpsRequest : httpRequest)(url, { ...options, signal });
      request.once("socket", (socket) =>
        watch(request, socket, (address) => policy.refusalOfAddress(address, { named })),
      );
      return request;
    });
  };
}

/** The third look: at the address that the socket really has, whoever chose it. Nothing was written by then. */
function watch(request: ClientRequest, socket: Socket, refusalOf: (address: string) => string | null): void {
  socket.once("connect", () => {
    const why = refusalOf(socket.remoteAddress ?? "");
    if (why !== null) request.destroy(refused(why));
  });
}

async function exchange(
  outgoing: GuardedRequest,
  open: (signal: AbortSignal) => ClientRequest,
): Promise<GuardedAnswer> {
  const ending = new AbortController();
  let timer = setTimeout(() => ending.abort(new AnswerTimeout()), outgoing.timeoutMs);
  const onAbort = (): void => ending.abort(outgoing.signal.reason);
  if (outgoing.signal.aborted) onAbort();
  outgoing.signal.addEventListener("abort", onAbort, { once: true });
  try {
    const request = open(ending.signal);
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      request.once("response", resolve);
      request.on("error", reject);
    });
    request.end(outgoing.body);
    const message = await answered;
    const { statusCode = 0, headers } = message;
    clearTimeout(timer);
    timer = setTimeout(() => ending.abort(), BODY_MS);
    const body = await firstBytes(message, outgoing.bodyBytes);
    request.destroy();
    return { status: statusCode, headers, body };
  } catch (thrown) {
    if (ending.signal.reason instanceof AnswerTimeout) throw ending.signal.reason;
    throw thrown instanceof PlatformError ? thrown : causeOf(thrown);
  } finally {
    clearTimeout(timer);
    outgoing.signal.removeEventListener("abort", onAbort);
  }
}

/** A refusal of the lookup comes wrapped where several addresses were tried. */
function causeOf(thrown: unknown): unknown {
  if (thrown instanceof AggregateError) return thrown.errors[0] ?? thrown;
  return thrown;
}

/** As much as is wanted; a body that breaks off after its head has said what it had to say with its status. */
async function firstBytes(message: IncomingMessage, limit: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    // An answer whose encoding was not set comes as bytes.
    for await (const bytes of message as AsyncIterable<Buffer>) {
      chunks.push(bytes);
      size += bytes.length;
      if (size >= limit) break;
    }
  } catch {
    // Also where the time was up.
  }
  // A character that was cut in its middle goes.
  return new TextDecoder().decode(Buffer.concat(chunks).subarray(0, limit), { stream: true });
}
