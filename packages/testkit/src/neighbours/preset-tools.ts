/** The tools most tests of a tool gate need: one that counts, one that is slow, one that fails, one that says too much. */
import type { ScriptedTools } from "./scripted-tool.ts";

export interface PresetOptions {
  /** How long `slow` takes. Default 30,000. */
  readonly slowMs?: number | undefined;
  /** How much `huge` answers. Default one mebibyte. */
  readonly hugeBytes?: number | undefined;
  /** What `exit` does; the default ends this process at once, in the middle of the call. */
  readonly exit?: (() => void) | undefined;
}

const DEFAULT_SLOW_MS = 30_000;
const DEFAULT_HUGE_BYTES = 1024 * 1024;

export function presetTools(options: PresetOptions = {}): ScriptedTools {
  const exit = options.exit ?? (() => process.kill(process.pid, "SIGKILL"));
  return {
    count: {
      description: "Adds one to a counter and answers its value.",
      inputSchema: { type: "object", properties: { note: { type: "string" } } },
      handler: (_input, { earlierCalls }) => String(earlierCalls + 1),
    },
    echo: {
      description: "Answers its arguments.",
      inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
      annotations: { readOnlyHint: true },
      handler: (input) => JSON.stringify(input),
    },
    slow: {
      description: "Answers after a long while.",
      inputSchema: { type: "object", properties: {} },
      delayMs: options.slowMs ?? DEFAULT_SLOW_MS,
      result: "done at last",
    },
    fail: {
      description: "Always fails.",
      inputSchema: { type: "object", properties: {} },
      fails: "this tool always fails",
    },
    huge: {
      description: "Answers with more text than anybody wants.",
      inputSchema: { type: "object", properties: {} },
      annotations: { readOnlyHint: true },
      hugeBytes: options.hugeBytes ?? DEFAULT_HUGE_BYTES,
    },
    exit: {
      description: "Ends the tool server before it answers.",
      inputSchema: { type: "object", properties: {} },
      handler: () => {
        exit();
        return "not reached when the process is gone";
      },
    },
  };
}
