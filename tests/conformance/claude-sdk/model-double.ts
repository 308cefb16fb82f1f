/**
 * A model provider on 127.0.0.1 that speaks the Anthropic wire and says what a test tells it to. It pauses where the
 * test says, so that a test can act in the middle of a stream without guessing at time.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";

export interface WireMessage {
  readonly role: string;
  readonly content: string | readonly WireBlock[];
}

export interface WireBlock {
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  readonly tool_use_id?: string;
  readonly is_error?: boolean;
  readonly content?: unknown;
}

export interface WireRequest {
  readonly authorization: string | null;
  readonly body: {
    readonly model: string;
    readonly max_tokens: number;
    readonly stream?: boolean;
    readonly system?: readonly WireBlock[];
    readonly messages: readonly WireMessage[];
    readonly tools?: readonly { readonly name: string }[];
    readonly thinking?: unknown;
  };
}

/** A string is a piece of text; a promise pauses the stream until it settles. */
export type Piece = string | Promise<unknown>;

export type Block =
  | { readonly text: readonly Piece[] }
  | { readonly thinking: readonly Piece[] }
  | { readonly tool: string; readonly id: string; readonly input: Readonly<Record<string, unknown>> };

export type Reply =
  | { readonly blocks: readonly Block[]; readonly stopReason?: string; readonly cut?: boolean }
  | { readonly status: number; readonly error: { readonly type: string; readonly message: string } }
  | { readonly events: readonly Readonly<Record<string, unknown>>[] };

export type Script = (request: WireRequest, callNumber: number) => Reply | Promise<Reply>;

export interface ModelDouble extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly WireRequest[];
  /** Calls whose connection the client closed before the answer was complete. */
  readonly abandonedCount: number;
  script: Script;
}

export async function startModelDouble(script: Script): Promise<ModelDouble> {
  const requests: WireRequest[] = [];
  const state = { script, abandonedCount: 0 };
  const server = createServer((request, response) => {
    response.on("close", () => {
      state.abandonedCount += response.writableEnded ? 0 : 1;
    });
    response.on("error", () => undefined);
    answer(request, response).catch(() => response.destroy());
  });
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) {
      chunks.push(chunk as Buffer);
    }
    if (request.method !== "POST" || !(request.url ?? "").startsWith("/model/v1/messages?")) {
      response.writeHead(404).end();
      return;
    }
    const received: WireRequest = {
      authorization: request.headers.authorization ?? null,
      body: JSON.parse(Buffer.concat(chunks).toString("utf8")) as WireRequest["body"],
    };
    requests.push(received);
    await write(response, await state.script(received, requests.length), requests.length);
  };
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address() as { readonly port: number };
  return {
    url: `http://127.0.0.1:${address.port}/model`,
    requests,
    get abandonedCount() {
      return state.abandonedCount;
    },
    get script() {
      return state.script;
    },
    set script(next) {
      state.script = next;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function write(response: ServerResponse, reply: Reply, callNumber: number): Promise<void> {
  if ("status" in reply) {
    response.writeHead(reply.status, { "content-type": "application/json" });
    response.end(JSON.stringify({ type: "error", error: reply.error }));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const say = (event: Readonly<Record<string, unknown>>): void => {
    response.write(`event: ${String(event.type)}\ndata: ${JSON.stringify(event)}\n\n`);
  };
  if ("events" in reply) {
    reply.events.forEach(say);
    response.end();
    return;
  }
  say({ type: "message_start", message: startedMessage(`msg_${callNumber}`) });
  for (const [index, block] of reply.blocks.entries()) {
    await writeBlock(say, index, block);
  }
  if (reply.cut === true) {
    response.destroy();
    return;
  }
  const hasCall = reply.blocks.some((block) => "tool" in block);
  const delta = { stop_reason: reply.stopReason ?? (hasCall ? "tool_use" : "end_turn"), stop_sequence: null };
  say({ type: "message_delta", delta, usage: { output_tokens: 20 } });
  say({ type: "message_stop" });
  response.end();
}

async function writeBlock(
  say: (event: Readonly<Record<string, unknown>>) => void,
  index: number,
  block: Block,
): Promise<void> {
  const start = (content_block: unknown): void => say({ type: "content_block_start", index, content_block });
  const delta = (piece: unknown): void => say({ type: "content_block_delta", index, delta: piece });
  if ("tool" in block) {
    start({ type: "tool_use", id: block.id, name: block.tool, input: {} });
    delta({ type: "input_json_delta", partial_json: JSON.stringify(block.input) });
  } else {
    const isText = "text" in block;
    start(isText ? { type: "text", text: "" } : { type: "thinking", thinking: "", signature: "" });
    for (const piece of isText ? block.text : block.thinking) {
      if (typeof piece === "string") {
        delta(isText ? { type: "text_delta", text: piece } : { type: "thinking_delta", thinking: piece });
      } else {
        await piece;
      }
    }
    if (!isText) {
      delta({ type: "signature_delta", signature: "c2ln" });
    }
  }
  say({ type: "content_block_stop", index });
}

export function startedMessage(id: string): Readonly<Record<string, unknown>> {
  return {
    id,
    type: "message",
    role: "assistant",
    model: "double-1",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
  };
}

/** What a request says, without the reminders the engine adds: one line per message. */
export function spokenIn(request: WireRequest): readonly string[] {
  return request.body.messages
    .filter((message) => message.role !== "system")
    .map((message) => `${message.role}: ${textsOf(message).join(" + ")}`);
}

function textsOf(message: WireMessage): readonly string[] {
  const blocks = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
  return blocks
    .filter((block) => !(block.text ?? "").startsWith("<system-reminder>"))
    .map((block) =>
      block.type === "text" ? (block.text ?? "").trimEnd() : `[${block.type} ${block.id ?? block.tool_use_id ?? ""}]`,
    );
}
