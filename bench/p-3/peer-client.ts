/** A client of the peer that only measures, made as ours is: one POST over a kept connection, tokens from its events. */
import { Agent, request, type IncomingMessage } from "node:http";
import type { TimedRun } from "./load.ts";

interface Message {
  readonly type?: string;
  readonly content?: string | readonly { readonly text?: string }[];
}

export class PeerClient implements Disposable {
  readonly #agent = new Agent({ keepAlive: true });
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  async newConversation(): Promise<string> {
    const response = await this.#post("/threads", {});
    // The peer's own answer.
    const { thread_id: id } = JSON.parse(await textOf(response)) as { readonly thread_id: string };
    return id;
  }

  async run(conversation: string, content: string): Promise<TimedRun> {
    const startMs = performance.now();
    const response = await this.#post(`/threads/${conversation}/runs/stream`, {
      assistant_id: "chat",
      input: { messages: [{ role: "user", content }] },
      stream_mode: ["messages-tuple"],
    });
    let pending = "";
    let firstTokenMs = Number.NaN;
    let text = "";
    for await (const chunk of response as AsyncIterable<Buffer>) {
      const frames = (pending + chunk.toString("utf8")).split(/\r?\n\r?\n/);
      pending = frames.pop() ?? "";
      for (const frame of frames) {
        const added = tokenOf(frame);
        if (text === "" && added !== "") firstTokenMs = performance.now() - startMs;
        text += added;
      }
    }
    if (response.statusCode !== 200) throw new Error(`the peer answered ${response.statusCode}: ${pending}`);
    return { firstTokenMs, text };
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }

  #post(path: string, content: unknown): Promise<IncomingMessage> {
    const body = JSON.stringify(content);
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    return new Promise((resolve, reject) => {
      const sent = request(new URL(path, this.#url), { method: "POST", agent: this.#agent, headers });
      sent.once("response", resolve);
      sent.once("error", reject);
      sent.end(body);
    });
  }
}

function tokenOf(frame: string): string {
  if (/^event: error$/m.test(frame)) throw new Error(`the peer's run failed: ${frame}`);
  if (!/^event: messages$/m.test(frame)) return "";
  // The peer's own frames: a chunk of a message and where it comes from.
  const [message] = JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? "[{}]") as readonly [Message, unknown];
  if (!/^ai/i.test(message.type ?? "")) return "";
  const { content = "" } = message;
  return typeof content === "string" ? content : content.map(({ text = "" }) => text).join("");
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of response as AsyncIterable<Buffer>) text += chunk.toString("utf8");
  return text;
}
