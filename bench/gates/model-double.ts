/** A provider that answers at once: each event in a write of its own, so that the gate sees events and not one lump. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface ModelDouble extends AsyncDisposable {
  readonly url: string;
}

const event = (value: { readonly type: string; readonly [member: string]: unknown }): string =>
  `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;

const USAGE = { input_tokens: 100, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
const HEAD = [
  {
    type: "message_start",
    message: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "bench",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: USAGE,
    },
  },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
].map(event);
const DELTA = event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "token " } } as const);
const TAIL = [
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 1 } },
  { type: "message_stop" },
].map(event);

/** The number of text events is the request's `max_tokens`. */
export async function startModelDouble(): Promise<ModelDouble> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      // Only the gate under measurement asks.
      const { max_tokens: count } = JSON.parse(Buffer.concat(chunks).toString("utf8")) as {
        readonly max_tokens: number;
      };
      response.writeHead(200, { "content-type": "text/event-stream" });
      const events = [...HEAD, ...Array.from({ length: count }, () => DELTA), ...TAIL];
      const write = (at: number): void => {
        const each = events[at];
        if (each === undefined) {
          response.end();
          return;
        }
        response.write(each);
        setImmediate(() => write(at + 1));
      };
      write(0);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  // A TCP server that listens has an address of this kind.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
