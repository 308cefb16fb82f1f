/** One request and its response, as the players see it: bounded writes, waits that end with the socket, and the record. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { IdSource } from "./ids.ts";
import { newPacer, type Pacer } from "./pacer.ts";
import type { MutableRecord } from "./recording.ts";

export interface Exchange {
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
  readonly ids: IdSource;
  readonly record: MutableRecord;
  readonly pacer: Pacer;
  /** To be called when the record has changed. */
  readonly changed: () => void;
}

export interface Head {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

export function openExchange(parts: Omit<Exchange, "pacer">): Exchange {
  const pacer = newPacer();
  parts.response.once("close", () => pacer.stop());
  return { ...parts, pacer };
}

export function begin({ response, record }: Exchange, { status, headers }: Head): void {
  record.status = status;
  response.writeHead(status, headers);
}

/** Resolves when the reader has room for more, or is gone. */
export async function write({ response, pacer, changed }: Exchange, bytes: string | Buffer): Promise<void> {
  changed();
  if (pacer.stopped || bytes.length === 0 || response.write(bytes)) {
    return;
  }
  await new Promise<void>((resolve) => {
    const end = () => {
      response.off("drain", end);
      response.off("close", end);
      resolve();
    };
    response.once("drain", end);
    response.once("close", end);
  });
}

/** Closes the socket after everything written has left, without ending the response. */
export async function cut({ incoming, response, pacer }: Exchange): Promise<void> {
  if (!pacer.stopped && response.headersSent) {
    await new Promise<void>((resolve) => {
      response.once("close", resolve);
      response.write(Buffer.alloc(0), () => resolve());
    });
  }
  incoming.socket.destroy();
}

export function sendJson(exchange: Exchange, head: Head, body: unknown): void {
  begin(exchange, { status: head.status, headers: { "content-type": "application/json", ...head.headers } });
  exchange.response.end(JSON.stringify(body));
}
