/** Plays an answer onto the socket: as a stream at its pace, or whole. */
import type { Delivery, WrittenBlock } from "./delivery.ts";
import { begin, cut, type Exchange, sendJson, write } from "./exchange.ts";
import type { Breakage, NoAnswer, RefusedAnswer } from "./script.ts";
import { nowMs, stampToken } from "./timestamps.ts";
import { errorTypeOf, statusOfType } from "./wire-error.ts";
import type { Encoder, Envelope, Wire } from "./wires/wire.ts";

/** Tokens without a pause between them are written together until so much has gathered. */
const BATCH_CHARACTERS = 16_384;
/** A wire that has pings sends one whenever nothing was written for so long. */
const PING_EVERY_MS = 5_000;

export const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache",
} as const;

export async function playStream(exchange: Exchange, wire: Wire, envelope: Envelope): Promise<void> {
  const { record, response, pacer } = exchange;
  const { actions } = envelope.delivery;
  const encoder = wire.encoder(envelope);
  begin(exchange, { status: 200, headers: { ...STREAM_HEADERS, ...requestIdHeader(exchange, wire) } });
  let pending = encoder.begin();
  let dueAtMs = nowMs();
  let isOpen = false;
  for (const action of actions) {
    if (pacer.stopped) {
      return;
    }
    switch (action.do) {
      case "open":
        isOpen = true;
        pending += encoder.open(action.block);
        break;
      case "close":
        isOpen = false;
        pending += encoder.close();
        break;
      case "token":
        if (action.delayMs > 0) {
          // Counted from when the last token was due, so that small delays do not add up.
          dueAtMs = Math.max(dueAtMs, nowMs() - action.delayMs) + action.delayMs;
          await write(exchange, pending);
          pending = "";
          await pauseUntil(exchange, encoder, dueAtMs);
          if (pacer.stopped) {
            return;
          }
        }
        pending += encoder.token(action.text ?? stampToken());
        record.tokenCount += 1;
        if (action.delayMs > 0 || pending.length > BATCH_CHARACTERS) {
          await write(exchange, pending);
          pending = "";
        }
        break;
      case "wait":
        await write(exchange, pending);
        pending = "";
        await pauseUntil(exchange, encoder, nowMs() + action.ms);
        dueAtMs = nowMs();
        break;
      case "break":
        await breakStream(exchange, action.how, { pending, encoder, isOpen });
        return;
    }
  }
  if (!pacer.stopped) {
    response.end(pending + encoder.end());
  }
}

async function pauseUntil(exchange: Exchange, encoder: Encoder, dueAtMs: number): Promise<void> {
  const { pacer } = exchange;
  for (let leftMs = dueAtMs - nowMs(); leftMs > 0 && !pacer.stopped; leftMs = dueAtMs - nowMs()) {
    await pacer.wait(Math.min(leftMs, PING_EVERY_MS));
    if (leftMs > PING_EVERY_MS) {
      await write(exchange, encoder.ping);
    }
  }
}

interface StreamEnd {
  readonly pending: string;
  readonly encoder: Encoder;
  readonly isOpen: boolean;
}

async function breakStream(exchange: Exchange, how: Breakage, { pending, encoder, isOpen }: StreamEnd): Promise<void> {
  if (typeof how === "object") {
    exchange.response.end(pending + encoder.error(how.error));
    return;
  }
  if (how === "cut_inside_event") {
    const event = isOpen ? encoder.token("never ") : encoder.open({ kind: "text" });
    await write(exchange, pending + event.slice(0, Math.ceil(event.length * 0.6)));
    await cut(exchange);
    return;
  }
  await write(exchange, pending);
  await (how === "cut" ? cut(exchange) : exchange.pacer.forever());
}

export async function playWhole(exchange: Exchange, wire: Wire, envelope: Envelope): Promise<void> {
  const { delivery } = envelope;
  const { pacer, record } = exchange;
  await pacer.wait(durationMs(delivery));
  if (pacer.stopped) {
    return;
  }
  const blocks = blocksOf(delivery);
  const broken = delivery.actions.find((action) => action.do === "break");
  if (broken === undefined) {
    record.tokenCount = delivery.usage.outputTokens;
    sendJson(exchange, { status: 200, headers: requestIdHeader(exchange, wire) }, wire.whole(blocks, envelope));
  } else if (typeof broken.how === "object") {
    const { error } = broken.how;
    playRefusal(exchange, wire, { status: statusOfType(error.type), error });
  } else {
    await (broken.how === "hang" ? pacer.forever() : cut(exchange));
  }
}

function durationMs({ actions }: Delivery): number {
  let sum = 0;
  for (const action of actions) {
    if (action.do === "break") {
      break;
    }
    sum += action.do === "wait" ? action.ms : action.do === "token" ? action.delayMs : 0;
  }
  return sum;
}

function blocksOf({ actions }: Delivery): readonly WrittenBlock[] {
  const blocks: WrittenBlock[] = [];
  for (const action of actions) {
    const last = blocks.at(-1);
    if (action.do === "open") {
      blocks.push({ block: action.block, text: "" });
    } else if (action.do === "token" && last !== undefined) {
      blocks[blocks.length - 1] = { block: last.block, text: last.text + (action.text ?? stampToken()) };
    }
  }
  return blocks;
}

export async function playNothing(exchange: Exchange, how: NoAnswer["noAnswer"]): Promise<void> {
  await (how === "cut" ? cut(exchange) : exchange.pacer.forever());
}

/** An HTTP error in the wire's shape. */
export function playRefusal(exchange: Exchange, wire: Wire, refusal: RefusedAnswer): void {
  const { status } = refusal;
  const error = {
    type: refusal.error?.type ?? errorTypeOf(status),
    message: refusal.error?.message ?? `The simulated model answers ${status}.`,
  };
  const requestId = exchange.ids.id("req_", "request");
  const headers = { ...requestIdHeader(exchange, wire), ...refusal.headers };
  sendJson(exchange, { status, headers }, refusal.body ?? wire.errorBody(error, { status, requestId }));
}

function requestIdHeader({ ids }: Exchange, wire: Wire): Readonly<Record<string, string>> {
  return { [wire.requestIdHeader]: ids.id("req_", "request") };
}
