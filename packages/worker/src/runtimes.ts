/** The engines of a worker: loaded once, described to the platform, and asked for sessions by name. */
import { DEFAULT_RUNTIME, PlatformError } from "@signalbox/contract";
import type { Executor, LoadExecutor, RuntimeDescription } from "./executor.ts";
import type { WorkerLog } from "./log.ts";

interface Loaded {
  readonly description: RuntimeDescription;
  readonly executor: Executor | null;
}

export interface RuntimesOptions {
  readonly loaders: Readonly<Record<string, LoadExecutor>>;
  /** Serves snapshots of older releases, which name no runtime. */
  readonly defaultRuntime?: string;
  readonly scratchDir: string;
  readonly log: WorkerLog;
}

export class Runtimes implements AsyncDisposable {
  readonly #loaded: ReadonlyMap<string, Loaded>;
  readonly #defaultRuntime: string;
  readonly #log: WorkerLog;

  private constructor(loaded: ReadonlyMap<string, Loaded>, options: RuntimesOptions) {
    this.#loaded = loaded;
    this.#defaultRuntime = options.defaultRuntime ?? DEFAULT_RUNTIME;
    this.#log = options.log;
  }

  /** Never rejects for an engine that is not there: it is announced as unavailable, with the reason. */
  static async load(options: RuntimesOptions): Promise<Runtimes> {
    const entries = await Promise.all(
      Object.entries(options.loaders).map(async ([name, load]) => [name, await loadOne(name, load, options)] as const),
    );
    return new Runtimes(new Map(entries), options);
  }

  get descriptions(): readonly RuntimeDescription[] {
    return [...this.#loaded.values()].map((each) => each.description);
  }

  /** The executor of a runtime; an empty name is the worker's default. */
  executor(name: string): { readonly runtime: string; readonly executor: Executor } {
    const runtime = name === "" ? this.#defaultRuntime : name;
    const loaded = this.#loaded.get(runtime);
    if (loaded === undefined) {
      throw new PlatformError("runtime_unknown", `This worker has no runtime named ${runtime}.`);
    }
    if (loaded.executor === null || !loaded.description.available) {
      throw new PlatformError("SDK_UNAVAILABLE", loaded.description.problem);
    }
    return { runtime, executor: loaded.executor };
  }

  /** Lets every available engine load what its first session would wait for. A failure shows when a session opens. */
  async warm(): Promise<void> {
    for (const { description, executor } of this.#loaded.values()) {
      try {
        await (description.available ? executor?.warm?.() : undefined);
      } catch (error) {
        this.#log.warn("engine could not be warmed", { runtime: description.name, problem: String(error) });
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { description, executor } of this.#loaded.values()) {
      try {
        await executor?.[Symbol.asyncDispose]?.();
      } catch (error) {
        this.#log.error("engine did not end cleanly", error, { runtime: description.name });
      }
    }
  }
}

async function loadOne(name: string, load: LoadExecutor, options: RuntimesOptions): Promise<Loaded> {
  try {
    const { createExecutor } = await load();
    const executor = await createExecutor({ scratchDir: options.scratchDir });
    // The name agents choose is the one the worker was started with, whatever the package calls itself.
    return { executor, description: { ...(await executor.describe()), name } };
  } catch (error) {
    options.log.error("engine is not available", error, { runtime: name });
    const problem = error instanceof Error ? firstLine(error.message) : String(error);
    return { executor: null, description: { name, version: "", available: false, problem, capabilities: [] } };
  }
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? text;
}
