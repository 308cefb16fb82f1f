/** Prints what the executor says of itself in a process that cannot find packages matching a pattern. */
import { registerHooks } from "node:module";
import { PlatformError } from "@signalbox/contract";

const [pattern = "", scratchDir = ""] = process.argv.slice(2);
const hidden = new RegExp(pattern);
registerHooks({
  resolve: (specifier, context, nextResolve) => {
    if (hidden.test(specifier)) {
      throw Object.assign(new Error(`Cannot find package '${specifier}'`), { code: "ERR_MODULE_NOT_FOUND" });
    }
    return nextResolve(specifier, context);
  },
});

const { createExecutor } = await import("@signalbox/executor-claude-sdk");
const { contextOf } = await import("./world.ts");
const { TranscriptDouble } = await import("./transcript-double.ts");

const executor = await createExecutor({ scratchDir });
const description = await executor.describe();
let refusal: unknown = null;
if (!description.available) {
  const gates = { model: "http://127.0.0.1:9", tool: "http://127.0.0.1:9" };
  const context = contextOf({ opening: {}, transcript: new TranscriptDouble(), gates, onLost: () => undefined });
  refusal = await executor.open(context).then(
    () => "opened",
    (error: unknown) => (error instanceof PlatformError ? { code: error.code, detail: error.detail } : String(error)),
  );
}
process.stdout.write(JSON.stringify({ description, refusal }));
