/**
 * A worker process for tests: always with the scripted engine, and with any executor package named on the command
 * line. `worker-main.ts <platform url> [<runtime>=<package> …]`, the join token in SIGNALBOX_JOIN_TOKEN. Prints one
 * line of JSON when it listens, and ends with whoever holds its standard input.
 */
import { PlatformError } from "@signalbox/contract";
import { runWorkerProcess, type ExecutorModule, type LoadExecutor } from "@signalbox/worker";
import { createScriptedExecutor } from "./scripted-executor.ts";

const [platformUrl, ...others] = process.argv.slice(2);
if (platformUrl === undefined) {
  throw new PlatformError("invalid_request", "Say where the platform is.");
}
const runtimes: Record<string, LoadExecutor> = {
  scripted: () => Promise.resolve({ createExecutor: createScriptedExecutor }),
};
for (const other of others) {
  const [name = "", specifier = ""] = other.split("=");
  // An executor package exports `createExecutor`; a package that does not is reported by the worker as unavailable.
  runtimes[name] = async () => (await import(specifier)) as ExecutorModule;
}
process.exitCode = await runWorkerProcess({
  platformUrl,
  joinToken: process.env.SIGNALBOX_JOIN_TOKEN ?? "",
  runtimes,
  stopWithParent: true,
  onStarted: (started) => process.stdout.write(`${JSON.stringify({ ...started, pid: process.pid })}\n`),
});
