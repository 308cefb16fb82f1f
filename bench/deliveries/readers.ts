/** Readers of one event stream, who only count. The first of them keeps what it reads. */
import { request, type ClientRequest, type IncomingMessage } from "node:http";

const END = "\n\n";

export interface ReaderOptions {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly count: number;
}

export class Readers implements Disposable {
  readonly #requests: ClientRequest[] = [];
  readonly #kept: string[] = [];
  #frameCount = 0;

  /** All of them have begun to read. */
  static async open({ url, headers, count }: ReaderOptions): Promise<Readers> {
    const readers = new Readers();
    await Promise.all(Array.from({ length: count }, (_, at) => readers.#open(url, headers, at === 0)));
    return readers;
  }

  /** Frames read so far, by all of them. */
  get frameCount(): number {
    return this.#frameCount;
  }

  /** What the first of them read, frame by frame, without comments. */
  frames(): readonly string[] {
    const frames = this.#kept.join("").split(END).slice(0, -1);
    return frames.filter((frame) => frame.includes("data: ")).map((frame) => `${frame}${END}`);
  }

  has(text: string): boolean {
    return this.#kept.some((piece) => piece.includes(text));
  }

  [Symbol.dispose](): void {
    for (const each of this.#requests) each.destroy();
  }

  #open(url: URL, headers: Readonly<Record<string, string>>, keeps: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const sent = request(url, { headers, agent: false }, (response) => {
        if (response.statusCode === 200) this.#read(response, keeps);
        else reject(new Error(`a reader was answered ${response.statusCode}`));
        resolve();
      });
      sent.on("error", reject);
      sent.end();
      this.#requests.push(sent);
    });
  }

  #read(response: IncomingMessage, keeps: boolean): void {
    let last = "";
    response.setEncoding("utf8");
    // Readers leave by closing their socket.
    response.on("error", () => undefined);
    response.on("data", (piece: string) => {
      if (keeps) this.#kept.push(piece);
      const text = last + piece;
      for (let at = text.indexOf(END); at !== -1; at = text.indexOf(END, at + 2)) this.#frameCount += 1;
      last = text.endsWith(END) || !text.endsWith("\n") ? "" : "\n";
    });
  }
}
