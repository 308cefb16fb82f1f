/** Answers one request: reads the body, decides, plays. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { type AnswerContext, answerFor } from "./answer.ts";
import { prepareDelivery } from "./delivery.ts";
import { type Exchange, sendJson } from "./exchange.ts";
import { stringOf } from "./json.ts";
import { playNothing, playRefusal, playStream, playWhole } from "./play.ts";
import { playRaw, playRawWhole } from "./play-raw.ts";
import type { RecordedRequest } from "./recording.ts";
import { MOST_BODY_BYTES, readBody, type Route, routeOf, wireOfPath } from "./routes.ts";
import { nowMs } from "./timestamps.ts";
import { countInput } from "./usage.ts";
import { WireError } from "./wire-error.ts";
import { parseConversation } from "./wires/anthropic-request.ts";
import { embed } from "./wires/embeddings.ts";
import { modelList, modelOf } from "./wires/models.ts";
import type { Wire } from "./wires/wire.ts";

export interface ServeContext extends AnswerContext {
  readonly apiKey: string | null;
  readonly firstTokenDelayMs: number;
  readonly tokenDelayMs: number;
  readonly recordBodies: boolean;
  readonly requests: readonly RecordedRequest[];
}

/** The whole body, or null when it is too large; the rest is then not read. */
export async function readBytes(incoming: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Without an encoding set, what a request yields are buffers.
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MOST_BODY_BYTES) {
      return null;
    }
    chunks.push(chunk);
  }
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
}

export async function serve(exchange: Exchange, bytes: Buffer | null, context: ServeContext): Promise<void> {
  const { method, path, headers } = exchange.record;
  const wire = wireOfPath(path);
  try {
    if (bytes === null) {
      throw new WireError(413, `The request is larger than ${MOST_BODY_BYTES} bytes.`);
    }
    const route = routeOf(method, path);
    if (route === null) {
      throw new WireError(404, `The simulated model serves nothing at ${method} ${path}.`);
    }
    if (route.to !== "about") {
      checkKey(headers, context.apiKey);
    }
    await serveRoute(exchange, route, { bytes, context });
  } catch (error) {
    if (!(error instanceof WireError)) {
      throw error;
    }
    const { status, type, message } = error;
    playRefusal(exchange, wire, { status, error: { type, message } });
  }
}

function checkKey(headers: IncomingHttpHeaders, apiKey: string | null): void {
  const given = headers["x-api-key"] ?? headers.authorization?.replace(/^Bearer\s+/i, "");
  if (apiKey !== null && given !== apiKey) {
    throw new WireError(401, "The API key is not the one this simulated model was given.");
  }
}

interface Work {
  readonly bytes: Buffer;
  readonly context: ServeContext;
}

async function serveRoute(exchange: Exchange, route: Route, { bytes, context }: Work): Promise<void> {
  const head = { status: 200, headers: {} };
  switch (route.to) {
    case "about":
      return sendJson(exchange, head, { name: "signalbox-sim", simulated: true, seed: context.settings.seed });
    case "models":
      return sendJson(exchange, head, modelList());
    case "model_info":
      return sendJson(exchange, head, modelOf(route.id));
    case "requests":
      return sendJson(exchange, head, context.requests.map(shown));
    case "embeddings":
      return sendJson(exchange, head, embed(recordBody(exchange, bytes, context), context.settings.seed));
    case "count_tokens": {
      const request = parseConversation(recordBody(exchange, bytes, context));
      return sendJson(exchange, head, { input_tokens: countInput(request) });
    }
    case "model":
      return answer(exchange, route.wire, { bytes, context });
  }
}

function recordBody(exchange: Exchange, bytes: Buffer, { recordBodies }: ServeContext) {
  const body = readBody(bytes);
  if (recordBodies) {
    exchange.record.body = body;
  }
  return body;
}

async function answer(exchange: Exchange, wire: Wire, { bytes, context }: Work): Promise<void> {
  if (wire.name === "anthropic" && stringOf(exchange.record.headers["anthropic-version"]) === "") {
    throw new WireError(400, "anthropic-version: header is required");
  }
  const request = wire.parse(recordBody(exchange, bytes, context));
  const reply = answerFor(request, context);
  if ("noAnswer" in reply) {
    return playNothing(exchange, reply.noAnswer);
  }
  if ("raw" in reply) {
    return request.stream ? playRaw(exchange, reply) : playRawWhole(exchange, wire, reply);
  }
  if ("status" in reply) {
    await exchange.pacer.wait(reply.waitMs ?? 0);
    return exchange.pacer.stopped ? undefined : playRefusal(exchange, wire, reply);
  }
  const { ids } = exchange;
  const { firstTokenDelayMs, tokenDelayMs } = context;
  const delivery = prepareDelivery(reply, { request, ids, firstTokenDelayMs, tokenDelayMs });
  const envelope = { request, delivery, ids, createdAtMs: nowMs() };
  return request.stream ? playStream(exchange, wire, envelope) : playWhole(exchange, wire, envelope);
}

/** A request for another process to see: without what authorised it. */
function shown(record: RecordedRequest): unknown {
  const secret: ReadonlySet<string> = new Set(["authorization", "x-api-key", "cookie"]);
  const headers = Object.entries(record.headers).map(([name, value]): readonly [string, unknown] => [
    name,
    secret.has(name) ? "(hidden)" : value,
  ]);
  return { ...record, headers: Object.fromEntries(headers) };
}
