/** Runtimes this binary can start a worker for. Imported on first use: a worker loads only the engine it runs. */
import type { ExecutorModule, LoadExecutor } from "@signalbox/worker";

// Names, not imports: the packages are installed by the operator and a platform without one must still start.
const PACKAGES: ReadonlyMap<string, string> = new Map([
  ["langgraph", "@signalbox/executor-langgraph"],
  ["claude_sdk", "@signalbox/executor-claude-sdk"],
]);

export const RUNTIMES: readonly string[] = [...PACKAGES.keys()];

/** How to load the executor of a runtime; `null` when this binary knows none. */
export function executorOf(runtime: string): LoadExecutor | null {
  const name = PACKAGES.get(runtime);
  if (name === undefined) return null;
  return async () => {
    const module: unknown = await import(name);
    // Every executor package exports `createExecutor`; its types are not known here.
    return module as ExecutorModule;
  };
}
