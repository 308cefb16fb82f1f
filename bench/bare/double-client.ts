/** A thin streaming client for the double: one request over a kept connection, each piece of text told as it comes. */
import { Agent, request, type IncomingMessage } from "node:http";
import { createParser } from "eventsource-parser";

const url = new URL("/v1/messages", process.env.BARE_MODEL_URL);
const agent = new Agent({ keepAlive: true });

export interface Block {
  readonly type: string;
  readonly text?: string;
}

export interface WireMessage {
  readonly role: "user" | "assistant";
  readonly content: readonly Block[];
}

/** Each piece of text; what is returned is waited for before the next. */
export async function* askDouble(messages: readonly WireMessage[]): AsyncGenerator<readonly string[]> {
  const body = JSON.stringify({
    model: process.env.BARE_MODEL,
    max_tokens: Number(process.env.BARE_MAX_TOKENS),
    stream: true,
    system: [{ type: "text", text: process.env.BARE_INSTRUCTIONS }],
    messages,
  });
  const response = await post(body);
  if (response.statusCode !== 200) throw new Error(`the model answered with ${response.statusCode}`);
  let tokens: string[] = [];
  const parser = createParser({
    onEvent({ data }) {
      // The double's own frames.
      const { type, delta } = JSON.parse(data) as {
        readonly type: string;
        readonly delta?: { readonly text?: string };
      };
      if (type === "content_block_delta" && delta?.text !== undefined) tokens.push(delta.text);
    },
  });
  const decoder = new TextDecoder();
  for await (const chunk of response as AsyncIterable<Buffer>) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield tokens;
    tokens = [];
  }
}

function post(body: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
      "anthropic-version": "2023-06-01",
    };
    const sent = request(url, { method: "POST", agent, headers });
    sent.once("response", resolve);
    sent.once("error", (problem: NodeJS.ErrnoException) => {
      // The double let go of a connection that had been idle, just as it was taken again.
      if (sent.reusedSocket && problem.code === "ECONNRESET") post(body).then(resolve, reject);
      else reject(problem);
    });
    sent.end(body);
  });
}
