/**
 * A client that only measures: one POST over a kept connection, answered with the run's events. It looks at frames no
 * more than it has to, so that what is measured is the platform.
 */
import { Agent, request, type IncomingMessage } from "node:http";

export interface StreamedRun {
  /** From before the request was written; `NaN` when it never came. */
  readonly firstTokenMs: number;
  readonly lastTokenMs: number;
  readonly finishedMs: number;
  readonly text: string;
  readonly outcome: string;
  /** What `run.finished` said, for the message of a measurement that cannot be had. */
  readonly ending: string;
}

export interface StreamClientOptions {
  readonly url: string;
  readonly apiKey: string;
}

/** What is told while a run is under way. */
export interface StreamListener {
  readonly onRun?: (id: string) => void;
  readonly onFirstToken?: () => void;
  /** Each new piece of the answer, as it comes. */
  readonly onText?: (text: string) => void;
}

interface Frame {
  readonly text?: string;
  readonly offset?: number;
  readonly itemId?: string;
  readonly outcome?: string;
}

export class StreamClient implements Disposable {
  readonly #agent = new Agent({ keepAlive: true });
  readonly #options: StreamClientOptions;

  constructor(options: StreamClientOptions) {
    this.#options = options;
  }

  async send(conversationId: string, content: string, listener: StreamListener = {}): Promise<StreamedRun> {
    const body = JSON.stringify({ content });
    const startMs = performance.now();
    const response = await this.#post(`/v1/conversations/${conversationId}/messages`, body);
    listener.onRun?.(response.headers.location?.split("/").at(-1) ?? "");
    const watch = new RunWatch(startMs, listener);
    for await (const chunk of response as AsyncIterable<Buffer>) watch.take(chunk.toString("utf8"));
    if (response.statusCode !== 200) throw new Error(`${response.statusCode}: ${watch.rest}`);
    return watch.run();
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }

  #post(path: string, body: string): Promise<IncomingMessage> {
    const { url, apiKey } = this.#options;
    return new Promise((resolve, reject) => {
      const sent = request(new URL(path, url), {
        method: "POST",
        agent: this.#agent,
        headers: {
          authorization: `Bearer ${apiKey}`,
          accept: "text/event-stream",
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
        },
      });
      sent.once("response", resolve);
      sent.once("error", reject);
      sent.end(body);
    });
  }
}

/** Follows one run's frames. */
class RunWatch {
  readonly #startMs: number;
  readonly #listener: StreamListener;
  #pending = "";
  #firstTokenMs = Number.NaN;
  #lastTokenMs = Number.NaN;
  #finishedMs = Number.NaN;
  #text = "";
  #outcome = "";
  #ending = "";

  constructor(startMs: number, listener: StreamListener) {
    this.#startMs = startMs;
    this.#listener = listener;
  }

  get rest(): string {
    return this.#pending;
  }

  take(chunk: string): void {
    const atMs = performance.now() - this.#startMs;
    const frames = (this.#pending + chunk).split("\n\n");
    this.#pending = frames.pop() ?? "";
    for (const frame of frames) this.#frame(frame, atMs);
  }

  run(): StreamedRun {
    return {
      firstTokenMs: this.#firstTokenMs,
      lastTokenMs: this.#lastTokenMs,
      finishedMs: this.#finishedMs,
      text: this.#text,
      outcome: this.#outcome,
      ending: this.#ending,
    };
  }

  #frame(frame: string, atMs: number): void {
    const delta = frame.includes("event: text.delta\n");
    if (!delta && !frame.includes("event: run.finished\n")) return;
    // The platform's own frames, whose form its contract fixes.
    const data = JSON.parse(frame.slice(frame.indexOf("data: ") + 6)) as Frame;
    if (!delta) {
      this.#finishedMs = atMs;
      this.#outcome = data.outcome ?? "";
      this.#ending = frame;
      return;
    }
    if (Number.isNaN(this.#firstTokenMs)) {
      this.#firstTokenMs = atMs;
      this.#listener.onFirstToken?.();
    }
    this.#grow(data, atMs);
  }

  /** A durable delta may repeat what came live: only what is new counts. */
  #grow({ text = "", offset = 0 }: Frame, atMs: number): void {
    const fresh = text.slice(Math.max(0, this.#text.length - offset));
    if (offset <= this.#text.length && fresh.length > 0) {
      this.#text += fresh;
      this.#lastTokenMs = atMs;
      this.#listener.onText?.(fresh);
    }
  }
}
