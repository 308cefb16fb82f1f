/** A worker reduced to one session: runs a step that a test never lets end, and says so. */
import { createExecutor } from "@signalbox/executor-claude-sdk";
import { TranscriptDouble } from "./transcript-double.ts";
import { contextOf, say } from "./world.ts";

process.once("message", (message) => {
  const { scratchDir, gates } = message as {
    readonly scratchDir: string;
    readonly gates: { model: string; tool: string };
  };
  const run = async (): Promise<void> => {
    const executor = await createExecutor({ scratchDir });
    const context = contextOf({ opening: {}, transcript: new TranscriptDouble(), gates, onLost: () => undefined });
    const session = await executor.open(context);
    await say(session, "A story", { onEvent: (event) => event.type === "text.delta" && process.send?.("streaming") });
  };
  run().catch(() => process.exit(1));
});
