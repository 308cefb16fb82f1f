/** The engines of a worker: loaded once, described to the platform, and asked for sessions by name. */
import { DEFAULT_RUNTIME, PlatformError } from "@signalbox/contract";
export class Runtimes {
    #loaded;
    #defaultRuntime;
    #log;
    constructor(loaded, options) {
        this.#loaded = loaded;
        this.#defaultRuntime = options.defaultRuntime ?? DEFAULT_RUNTIME;
        this.#log = options.log;
    }
    /** Never rejects for an engine that is not there: it is announced as unavailable, with the reason. */
    static async load(options) {
        const entries = await Promise.all(Object.entries(options.loaders).map(async ([name, load]) => [name, await loadOne(name, load, options)]));
        return new Runtimes(new Map(entries), options);
    }
    get descriptions() {
        return [...this.#loaded.values()].map((each) => each.description);
    }
    /** The executor of a runtime; an empty name is the worker's default. */
    executor(name) {
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
    async warm() {
        for (const { description, executor } of this.#loaded.values()) {
            try {
                await (description.available ? executor?.warm?.() : undefined);
            }
            catch (error) {
                this.#log.warn("engine could not be warmed", { runtime: description.name, problem: String(error) });
            }
        }
    }
    async [Symbol.asyncDispose]() {
        for (const { description, executor } of this.#loaded.values()) {
            try {
                await executor?.[Symbol.asyncDispose]?.();
            }
            catch (error) {
                this.#log.error("engine did not end cleanly", error, { runtime: description.name });
            }
        }
    }
}
async function loadOne(name, load, options) {
    try {
        const { createExecutor } = await load();
        const executor = await createExecutor({ scratchDir: options.scratchDir });
        // The name agents choose is the one the worker was started with, whatever the package calls itself.
        return { executor, description: { ...(await executor.describe()), name } };
    }
    catch (error) {
        options.log.error("engine is not available", error, { runtime: name });
        const problem = error instanceof Error ? firstLine(error.message) : String(error);
        return { executor: null, description: { name, version: "", available: false, problem, capabilities: [] } };
    }
}
function firstLine(text) {
    return text.split("\n", 1)[0] ?? text;
}
//# sourceMappingURL=runtimes.js.map