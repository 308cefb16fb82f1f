/** Reads a body whole, within a limit. */
import type { IncomingMessage } from "node:http";
import { PlatformError } from "@signalbox/contract";

/**
 * The body of a request to us or of an answer to us. Rejects with `payload_too_large` as soon as it is longer than
 * `limitBytes`, and with the socket's own error when it ends early.
 */
export function readBody(message: IncomingMessage, limitBytes: number): Promise<Buffer> {
  const announced = Number(message.headers["content-length"] ?? 0);
  if (announced > limitBytes) return Promise.reject(tooLarge(limitBytes));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    message.on("data", (chunk: Buffer) => {
      sizeBytes += chunk.length;
      if (sizeBytes <= limitBytes) {
        chunks.push(chunk);
      } else {
        chunks.length = 0;
        reject(tooLarge(limitBytes));
      }
    });
    message.on("end", () =>
      resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)),
    );
    message.on("error", reject);
    message.on("close", () => reject(new Error("the connection closed before the body was complete")));
  });
}

function tooLarge(limitBytes: number): PlatformError {
  return new PlatformError("payload_too_large", `The body may have at most ${limitBytes} bytes.`);
}
