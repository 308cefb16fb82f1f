/** The binary. A second interrupt ends the process at once. */
import process from "node:process";
import { runCli } from "./cli/run-cli.ts";

const interrupt = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    if (interrupt.signal.aborted) process.exit(1);
    interrupt.abort();
  });
}

for (const stream of [process.stdout, process.stderr]) {
  // Whoever read it has seen enough, as in `signalbox events ID | head`; a platform still drains.
  stream.on("error", () => interrupt.abort());
}

process.exitCode = await runCli({
  words: process.argv.slice(2),
  environment: process.env,
  input: process.stdin,
  out: process.stdout,
  err: process.stderr,
  interrupted: interrupt.signal,
});
