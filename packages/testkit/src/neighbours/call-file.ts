/** Reads the calls a scripted tool server of another process has written down. */
import { readFile } from "node:fs/promises";
import type { RecordedCall } from "./scripted-tool.ts";

/** A call as the server's file tells it, with the process that served it. */
export interface FiledCall extends RecordedCall {
  readonly pid: number;
}

/** The newest form of each call, in order of their beginnings; a call whose server died in it stays `open`. */
export async function readCallFile(path: string): Promise<readonly FiledCall[]> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") {
      return "";
    }
    throw error;
  });
  const calls = new Map<string, FiledCall>();
  for (const line of text.split("\n").filter((each) => each !== "")) {
    // The lines are written by `newCallBook`, nobody else knows the file.
    const call = JSON.parse(line) as FiledCall;
    calls.set(`${call.pid} ${call.ordinal}`, call);
  }
  return [...calls.values()];
}
