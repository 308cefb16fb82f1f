/**
 * Cuts a stream of server-sent events into whole frames, on bytes: a chunk may end inside a character, a line or a
 * CR LF pair. Frames keep the bytes they came as, so that a relay adds and loses nothing; what never became a whole
 * frame is never seen.
 */
export interface Frame {
  /** Everything from the end of the frame before up to and with this frame's blank line. */
  readonly bytes: Buffer;
  /** The value of `event:`, or empty. */
  readonly event: string;
  /** The `data:` lines joined, or `null` for a comment. */
  readonly data: string | null;
}

const LF = 0x0a;
const CR = 0x0d;
const NOTHING = Buffer.alloc(0);

export class FrameScanner {
  #buffer: Buffer = NOTHING;
  #scanned = 0;
  #lineStart = 0;
  #afterCr = false;

  /** Bytes of the frame that is not complete yet. */
  get pendingBytes(): number {
    return this.#buffer.length;
  }

  push(chunk: Buffer): readonly Frame[] {
    // Streams with CR are rare; without one, line ends can be searched for instead of looking at every byte.
    const hasCr = this.#afterCr || chunk.includes(CR);
    this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk]);
    const buffer = this.#buffer;
    const frames: Frame[] = [];
    let frameStart = 0;
    for (let at = this.#scanned; at < buffer.length;) {
      if (!hasCr) {
        const lineEnd = buffer.indexOf(LF, at);
        if (lineEnd < 0) break;
        at = lineEnd;
      }
      const end = this.#endsFrame(buffer, at);
      at = end ?? at + 1;
      if (end !== null) {
        frames.push(readFrame(buffer.subarray(frameStart, end)));
        frameStart = end;
      }
    }
    this.#buffer = frameStart === buffer.length ? NOTHING : buffer.subarray(frameStart);
    this.#lineStart -= frameStart;
    this.#scanned = this.#buffer.length;
    return frames;
  }

  /** The offset behind the frame that the byte at `at` completes, or `null`. */
  #endsFrame(buffer: Buffer, at: number): number | null {
    const byte = buffer[at];
    if (byte !== LF && byte !== CR) {
      this.#afterCr = false;
      return null;
    }
    const blank = at === this.#lineStart;
    // The second half of a CR LF pair: its line has ended at the CR, in this chunk or in the one before.
    const secondHalf = byte === LF && this.#afterCr && blank;
    const pair = byte === CR && blank && buffer[at + 1] === LF;
    this.#afterCr = byte === CR && !pair;
    this.#lineStart = at + (pair ? 2 : 1);
    return blank && !secondHalf ? this.#lineStart : null;
  }
}

function readFrame(bytes: Buffer): Frame {
  const text = bytes.toString("utf8");
  let event = "";
  let data: string | null = null;
  for (const line of text.includes("\r") ? text.split(/\r\n|\r|\n/) : text.split("\n")) {
    if (line.startsWith("data:") || line === "data") {
      const value = valueOf(line, 5);
      data = data === null ? value : `${data}\n${value}`;
    } else if (line.startsWith("event:")) {
      event = valueOf(line, 6);
    }
  }
  return { bytes, event, data };
}

function valueOf(line: string, from: number): string {
  return line.slice(line[from] === " " ? from + 1 : from);
}
