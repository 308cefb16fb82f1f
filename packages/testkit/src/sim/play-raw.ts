/** Plays recorded bytes as they are, and reads script files that hold them. */
import { readFile } from "node:fs/promises";
import { PlatformError } from "@signalbox/contract";
import { begin, cut, type Exchange, sendJson, write } from "./exchange.ts";
import { isObject, type JsonObject, objectOf, objectsOf, parseJson, stringOf } from "./json.ts";
import { playRefusal, STREAM_HEADERS } from "./play.ts";
import { dataObjects } from "./sse-events.ts";
import type { RawAnswer, RawChunk, ScriptedAnswer } from "./script.ts";
import { statusOfType } from "./wire-error.ts";
import { wholeOfEvents } from "./wires/whole-of-stream.ts";
import type { Wire } from "./wires/wire.ts";

export async function playRaw(exchange: Exchange, { raw }: RawAnswer): Promise<void> {
  begin(exchange, { status: raw.status ?? 200, headers: raw.headers ?? STREAM_HEADERS });
  for (const chunk of raw.chunks) {
    if (exchange.pacer.stopped) {
      return;
    }
    if ("utf8" in chunk) {
      await write(exchange, chunk.utf8);
    } else if ("b64" in chunk) {
      await write(exchange, Buffer.from(chunk.b64, "base64"));
    } else if ("delayMs" in chunk) {
      await exchange.pacer.wait(chunk.delayMs);
    } else {
      await ("cut" in chunk ? cut(exchange) : exchange.pacer.forever());
      return;
    }
  }
  exchange.response.end();
}

/** A caller that asked for no stream gets the recorded stream put together, or the error it ended with. */
export async function playRawWhole(exchange: Exchange, wire: Wire, answer: RawAnswer): Promise<void> {
  const isBroken = answer.raw.chunks.some((chunk) => "cut" in chunk || "hang" in chunk);
  const isStream = (answer.raw.headers?.["content-type"] ?? STREAM_HEADERS["content-type"]).startsWith(
    "text/event-stream",
  );
  if (isBroken || !isStream) {
    await playRaw(exchange, answer);
    return;
  }
  const events = dataOf(answer.raw.chunks);
  const failed = events.map((event) => event.error).find(isObject);
  if (failed !== undefined) {
    const type = stringOf(failed.type);
    const status = typeof failed.code === "number" ? failed.code : statusOfType(type);
    playRefusal(exchange, wire, { status, error: { type, message: stringOf(failed.message) } });
    return;
  }
  sendJson(exchange, { status: 200, headers: {} }, wholeOfEvents(wire.name, events));
}

function dataOf(chunks: readonly RawChunk[]): readonly JsonObject[] {
  const bytes = chunks.map((chunk) =>
    "utf8" in chunk ? Buffer.from(chunk.utf8) : "b64" in chunk ? Buffer.from(chunk.b64, "base64") : Buffer.alloc(0),
  );
  return dataObjects(Buffer.concat(bytes).toString("utf8"));
}

/**
 * The answers a file holds. `.sse`: the body of one stream. `.chunks.json`: `{status, headers, chunks}` with the chunks
 * `{utf8}`, `{b64}`, `{delay_ms}`, `{cut}` and `{hang}`. `.json`: `{sequence: [{status, headers, json}]}`.
 * Ends with `invalid_request` for a file of another form.
 */
export async function answersOfFile(path: string): Promise<readonly ScriptedAnswer[]> {
  const text = await readFile(path, "utf8");
  if (path.endsWith(".sse")) {
    return [{ raw: { chunks: [{ utf8: text }] } }];
  }
  const value = objectOf(parseJson(text));
  if (Array.isArray(value.chunks)) {
    return [{ raw: { ...headOf(value), chunks: objectsOf(value.chunks).map((chunk) => readChunk(chunk, path)) } }];
  }
  if (Array.isArray(value.sequence)) {
    return objectsOf(value.sequence).map((each) => {
      const head = headOf(each);
      return {
        status: head.status ?? 200,
        ...(head.headers === undefined ? {} : { headers: head.headers }),
        body: each.json,
      };
    });
  }
  throw new PlatformError("invalid_request", `${path} is no .sse file and has neither chunks nor a sequence.`);
}

function headOf(value: JsonObject): { status?: number; headers?: Readonly<Record<string, string>> } {
  const headers = Object.entries(objectOf(value.headers)).map(([name, each]) => [name, String(each)] as const);
  return {
    ...(typeof value.status === "number" ? { status: value.status } : {}),
    ...(isObject(value.headers) ? { headers: Object.fromEntries(headers) } : {}),
  };
}

function readChunk(chunk: JsonObject, path: string): RawChunk {
  if (typeof chunk.utf8 === "string") {
    return { utf8: chunk.utf8 };
  }
  if (typeof chunk.b64 === "string") {
    return { b64: chunk.b64 };
  }
  if (typeof chunk.delay_ms === "number") {
    return { delayMs: chunk.delay_ms };
  }
  if (chunk.cut === true) {
    return { cut: true };
  }
  if (chunk.hang === true) {
    return { hang: true };
  }
  throw new PlatformError("invalid_request", `${path}: ${JSON.stringify(chunk)} is no chunk.`);
}
