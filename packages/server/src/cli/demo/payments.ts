/** Payments of a demonstration: a tool server of its own, whose calls are read from the file it writes. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { testkitProgram } from "./demo-stage.ts";

const CALLS = "calls.jsonl";

/** A tool server that counts, under what an operator says of its tool. */
export function payments(folder: string, count: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const program = testkitProgram("neighbours/mcp-stdio.js");
  return {
    payments: {
      transport: "stdio",
      command: process.execPath,
      args: [program, "--calls", join(folder, CALLS), "--name", "payments"],
      tools: { count },
    },
  };
}

/** How often it was really called. */
export function paymentsMade(folder: string): number {
  const file = join(folder, CALLS);
  const lines = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  // Written by the scripted tool server: a line for each beginning and each end.
  const calls = lines.filter((line) => line !== "").map((line) => JSON.parse(line) as { pid: number; ordinal: number });
  return new Set(calls.map((call) => `${call.pid} ${call.ordinal}`)).size;
}
