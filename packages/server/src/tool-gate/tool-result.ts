/**
 * A tool's answer in the form an engine gets and the ledger keeps: bounded, well-formed, and without anything of ours.
 * Text beyond the limit is cut at a character and says so; media has a limit of its own.
 */
import { clip, wellFormed, wellFormedJson, type ErrorCode } from "@signalbox/contract";
import { isObject, type Json } from "./mcp-protocol.ts";

export interface ShapedResult {
  /** `{content, isError?}` of MCP. */
  readonly json: string;
  readonly summary: string;
  readonly isError: boolean;
}

const TEXT_BYTES_MAX = 40 * 1024;
const MEDIA_CHARS_MAX = 5 * 1024 * 1024;
const BLOCKS_MAX = 200;
const SUMMARY_CHARS = 200;
const NO_OUTPUT = "(no output)";

/** `bytesMax` is a tighter bound than every result has. */
export function shapeResult(result: Json, bytesMax: number = TEXT_BYTES_MAX): ShapedResult {
  if (result.resultType !== undefined && result.resultType !== "complete") {
    return errorResult("The tool asks for input, which this run cannot give.");
  }
  const blocks = Array.isArray(result.content) ? result.content.filter(isObject) : [];
  const shaper = new ResultShaper(Math.min(bytesMax, TEXT_BYTES_MAX));
  for (const block of blocks.slice(0, BLOCKS_MAX)) shaper.add(block);
  if (blocks.length > BLOCKS_MAX) shaper.note(`[${blocks.length - BLOCKS_MAX} more parts of the result are left out.]`);
  // Beside content, structured content says the same again, and engines would show it instead.
  if (blocks.length === 0 && result.structuredContent !== undefined) {
    shaper.add({ type: "text", text: JSON.stringify(result.structuredContent) });
  }
  return written(shaper.content(), result.isError === true);
}

/** An answer of the gate itself, for a call that was refused or whose outcome is not the tool's own. */
export function errorResult(text: string): ShapedResult {
  return written([{ type: "text", text: wellFormed(text) }], true);
}

/** The same result with words of the gate before it. */
export function withNote(result: ShapedResult, note: string): ShapedResult {
  // Written by this file, as a list of blocks.
  const { content } = JSON.parse(result.json) as { readonly content: readonly Json[] };
  return {
    ...written([{ type: "text", text: wellFormed(note) }, ...content], result.isError),
    summary: result.summary,
  };
}

export function refusal(code: ErrorCode, reason: string): ShapedResult {
  return errorResult(`Refused (${code}): ${reason}`);
}

class ResultShaper {
  readonly #content: Json[] = [];
  readonly #bytesMax: number;
  #textBytes = 0;
  #wholeBytes = 0;
  #mediaChars = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(block: Json): void {
    const { type } = block;
    if (type === "text") this.#addText(block.text);
    else if (type === "image" || type === "audio") this.#addMedia(block, block.data);
    else if (type === "resource" && isObject(block.resource)) this.#addResource(block, block.resource);
    else if (type === "resource_link") this.#addLink(block);
    else this.note("[A part of the result is of a kind that cannot be passed on.]");
  }

  note(text: string): void {
    this.#content.push({ type: "text", text });
  }

  content(): readonly Json[] {
    if (this.#wholeBytes > this.#textBytes) {
      this.note(
        `[The result was cut: ${this.#textBytes} of ${this.#wholeBytes} bytes are shown. Ask for a smaller part.]`,
      );
    }
    return this.#content.length === 0 ? [{ type: "text", text: NO_OUTPUT }] : this.#content;
  }

  #addText(value: unknown): void {
    const text = typeof value === "string" ? wellFormed(value) : "";
    if (text === "") return;
    const kept = this.#room(text);
    if (kept !== "") this.#content.push({ type: "text", text: kept });
  }

  #addMedia(block: Json, data: unknown): void {
    if (typeof data !== "string" || !this.#roomForMedia(data)) {
      this.note("[An image or sound of the result is too large to be passed on.]");
      return;
    }
    this.#content.push({
      type: block.type,
      data,
      mimeType: typeof block.mimeType === "string" ? block.mimeType : "application/octet-stream",
    });
  }

  #addResource(block: Json, resource: Json): void {
    const { text, blob } = resource;
    if (typeof text === "string") {
      const kept = this.#room(wellFormed(text));
      if (kept !== "") this.#content.push({ type: block.type, resource: wellFormedJson({ ...resource, text: kept }) });
    } else if (typeof blob === "string" && this.#roomForMedia(blob)) {
      this.#content.push({ type: block.type, resource: wellFormedJson(resource) });
    } else {
      this.note("[A resource of the result is too large to be passed on.]");
    }
  }

  #addLink(block: Json): void {
    const link = wellFormedJson(block);
    const text = JSON.stringify(link);
    if (this.#room(text) === text) this.#content.push(link);
  }

  /** As much of `text` as there is room for, ending at a character. */
  #room(text: string): string {
    const bytes = Buffer.from(text, "utf8");
    this.#wholeBytes += bytes.length;
    let end = Math.min(bytes.length, this.#bytesMax - this.#textBytes);
    // Bytes of the form 10xxxxxx go on with a character that began before.
    while (end > 0 && end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
    this.#textBytes += end;
    return end === bytes.length ? text : bytes.toString("utf8", 0, end);
  }

  #roomForMedia(data: string): boolean {
    this.#mediaChars += data.length;
    return this.#mediaChars <= MEDIA_CHARS_MAX;
  }
}

function written(content: readonly Json[], isError: boolean): ShapedResult {
  const text = content.find((block) => block.type === "text")?.text;
  return {
    json: JSON.stringify(isError ? { content, isError } : { content }),
    summary: clip(typeof text === "string" ? text : "", SUMMARY_CHARS),
    isError,
  };
}
