import { spawn } from "node:child_process";

export interface Ran {
  readonly code: number;
  /** Standard output and error, as they came. */
  readonly output: string;
  readonly stdout: string;
}

/** Runs a command of the repository to its end; `npm` puts the installed tools on the search path. */
export async function run(command: readonly string[], cwd: string): Promise<Ran> {
  const [file = "", ...args] = command;
  const child = spawn(file, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  let stdout = "";
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString("utf8");
    stdout += chunk.toString("utf8");
  });
  child.stderr.on("data", (chunk: Buffer) => {
    output += chunk.toString("utf8");
  });
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code: code ?? 1, output, stdout }));
  });
}
