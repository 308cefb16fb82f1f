/** Runtimes this binary can start a worker for. Imported on first use: a worker loads only the engine it runs. */
import type { LoadExecutor } from "@signalbox/worker";

// Names, not imports: the packages are installed by the operator and a platform without one must still start.
const PACKAGES: Readonly<Record<string, string>> = {
  langgraph: "@signalbox/executor-langgraph",
  claude_sdk: "@signalbox/executor-claude-sdk",
};

export const EXECUTORS: Readonly<Record<string, LoadExecutor>> = Object.fromEntries(
  Object.entries(PACKAGES).map(([runtime, name]) => [runtime, async () => import(name)]),
);
