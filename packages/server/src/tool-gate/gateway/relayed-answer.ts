/**
 * An answer on its way from a tool server to a client: one message, or a stream that carries what the server says before
 * its answer. The answer itself is handed to whoever must record it before the client may read it.
 */
import type { IncomingMessage } from "node:http";
import { readBody } from "../../gates/message-body.ts";
import { FrameScanner, type Frame } from "../../gates/sse-frames.ts";
import { isObject, type Json } from "../mcp-protocol.ts";
import type { McpReply } from "../mcp-reply.ts";
import type { RpcId } from "../mcp-request.ts";
import { NotAnswered } from "../rpc-wire.ts";

export interface Relaying {
  readonly reply: McpReply;
  readonly id: RpcId | null;
  /** Takes what must not be shown out of text of the server's. */
  readonly scrub: (text: string) => string;
  /** The answer as the client gets it, as JSON text. Left out: as it came. */
  readonly onAnswer?: ((message: Json) => Promise<string>) | undefined;
  /** Leaves a stream without an answer open when its server has nothing more to say. */
  readonly goesOn?: boolean;
  /** Passes on nothing but the answer. */
  readonly isQuiet?: boolean;
  /** Told of every other message of a stream. */
  readonly onMessage?: ((message: Json) => void) | undefined;
}

const ANSWER_BYTES_MAX = 16 * 1024 * 1024;

/** Resolves with whether the answer was among what came. Rejects with `NotAnswered` for what cannot be passed on. */
export async function relayAnswer(head: IncomingMessage, relaying: Relaying): Promise<boolean> {
  if (isStream(head)) return relayStream(head, relaying);
  const { reply, scrub, onAnswer } = relaying;
  const text = (await readBody(head, ANSWER_BYTES_MAX)).toString("utf8");
  const status = head.statusCode ?? 502;
  const message = parsed(text);
  if (!isObject(message) || message.jsonrpc !== "2.0") throw unusable(status);
  reply.message(status, scrub(onAnswer === undefined ? text : await onAnswer(message)));
  return true;
}

/** The one message that answers a request, read whole, whether it comes by itself or at the end of a stream. */
export async function readMessage(head: IncomingMessage, id: RpcId): Promise<Json> {
  const text = (await readBody(head, ANSWER_BYTES_MAX)).toString("utf8");
  const said = isStream(head)
    ? new FrameScanner().push(Buffer.from(`${text}\n\n`)).flatMap(({ data }) => (data === null ? [] : [parsed(data)]))
    : [parsed(text)];
  const message = said.find(
    (each) => isObject(each) && each.method === undefined && (each.id === id || each.id === null),
  );
  if (!isObject(message)) throw unusable(head.statusCode ?? 502);
  return message;
}

export function isStream(head: IncomingMessage): boolean {
  return (head.headers["content-type"] ?? "").startsWith("text/event-stream");
}

async function relayStream(head: IncomingMessage, relaying: Relaying): Promise<boolean> {
  const { reply } = relaying;
  const scanner = new FrameScanner();
  let answered = false;
  try {
    // Without an encoding set, what an answer yields are buffers.
    for await (const chunk of head as AsyncIterable<Buffer>) {
      for (const frame of scanner.push(chunk)) answered = (await relayFrame(frame, relaying)) || answered;
      if (scanner.pendingBytes > ANSWER_BYTES_MAX) throw unusable(502);
    }
  } catch (cause) {
    if (cause instanceof NotAnswered || answered) throw cause;
    throw new NotAnswered("tool_upstream_failed", { sent: true, detail: "The tool server's stream broke.", cause });
  }
  if (answered || (relaying.onAnswer === undefined && relaying.goesOn !== true)) reply.end();
  return answered;
}

async function relayFrame(frame: Frame, relaying: Relaying): Promise<boolean> {
  const { reply, id, scrub, onAnswer, onMessage, isQuiet = false } = relaying;
  const { data } = frame;
  if (data === null || (onAnswer === undefined && onMessage === undefined)) {
    const text = data === null ? null : scrub(data);
    reply.frame(text === data ? frame.bytes : rewritten(frame, text ?? ""));
    return false;
  }
  const message = parsed(data);
  if (onAnswer !== undefined && isObject(message) && message.method === undefined && message.id === id) {
    reply.frame(rewritten(frame, scrub(await onAnswer(message))));
    return true;
  }
  if (isQuiet) return false;
  if (isObject(message)) onMessage?.(message);
  const text = scrub(data);
  reply.frame(text === data ? frame.bytes : rewritten(frame, text));
  return false;
}

/** The frame with its other lines as they were, which is how a client finds its way back into a stream. */
function rewritten(frame: Frame, data: string): string {
  const lines = frame.bytes.toString("utf8").split(/\r\n|\r|\n/);
  const kept = lines.filter((line) => line !== "" && !line.startsWith("data"));
  return `${[...kept, `data: ${data}`].join("\n")}\n\n`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function unusable(status: number): NotAnswered {
  const detail = `The tool server's answer cannot be used (${status}).`;
  return new NotAnswered("tool_upstream_failed", { sent: status < 400 || status >= 500, detail });
}
