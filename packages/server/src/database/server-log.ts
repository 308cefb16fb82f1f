/** The server's standard error: one file, kept short by the nodes that use the server. */
import { copyFile, open, stat, truncate, type FileHandle } from "node:fs/promises";

const LONGEST_LOG_BYTES = 8 * 1024 * 1024;
const LONGEST_EXCERPT_BYTES = 64 * 1024;

export async function logSize(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

export async function openLog(path: string): Promise<FileHandle> {
  return open(path, "a", 0o600);
}

/** What was written since `fromByte`. */
export async function readLog(path: string, fromByte: number): Promise<string> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const start = Math.max(fromByte, size - LONGEST_EXCERPT_BYTES, 0);
    const buffer = Buffer.alloc(Math.max(size - start, 0));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, start);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** The server appends and never reopens its log, so the text moves and the file stays. */
export async function shortenLog(path: string, longestBytes: number = LONGEST_LOG_BYTES): Promise<void> {
  if ((await logSize(path)) > longestBytes) {
    await copyFile(path, `${path}.1`);
    await truncate(path, 0);
  }
}
