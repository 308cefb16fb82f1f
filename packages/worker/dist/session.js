/** One engine session of a conversation on this worker: its generation, its one running step and its end. */
import { PlatformError } from "@signalbox/contract";
import { settledWithin } from "./clock.js";
import { DISPOSE_BOUND_MS, INTERRUPT_BOUND_MS } from "./limits.js";
import { RunningStep } from "./running-step.js";
export class WorkerSession {
    conversationId;
    runtime;
    snapshotHash;
    slotHash;
    openedAtMs;
    #options;
    #engine = null;
    #generation;
    #usedAtMs;
    #running = null;
    #lost = null;
    #ending = null;
    constructor(options) {
        this.#options = options;
        this.conversationId = options.conversationId;
        this.runtime = options.runtime;
        this.snapshotHash = options.snapshotHash;
        this.slotHash = options.slotHash;
        this.#generation = options.generation;
        this.openedAtMs = options.clock.monotonicMs();
        this.#usedAtMs = this.openedAtMs;
    }
    get generation() {
        return this.#generation;
    }
    get leaf() {
        return this.#engine?.leaf ?? null;
    }
    get stepping() {
        return this.#running !== null;
    }
    get ended() {
        return this.#ending !== null;
    }
    /** Since when nothing has been asked of the session. */
    get usedAtMs() {
        return this.#usedAtMs;
    }
    /** Takes the engine that was opened for this session; one that came too late is put away. */
    async adopt(engine) {
        this.#engine = engine;
        if (this.#lost !== null || this.ended) {
            await this.#dispose();
            throw new PlatformError(this.#lost?.code ?? "session_unknown", this.#lost?.detail);
        }
    }
    rebind(generation) {
        this.#opened().rebind(generation);
        this.#generation = generation;
        this.#usedAtMs = this.#options.clock.monotonicMs();
    }
    /** Runs one step; ends after its one result. `readerGone` aborts when nobody reads any more. */
    async *step(input, readerGone) {
        const engine = this.#opened();
        if (this.#running !== null) {
            throw new PlatformError("conversation_busy", "This session is running another step.");
        }
        const { clock, log } = this.#options;
        const step = new RunningStep({ engine, input, clock, log, onStuck: () => this.#inBackground(this.#endStuck()) });
        this.#running = step;
        const work = step.run().finally(() => {
            this.#running = null;
            this.#usedAtMs = clock.monotonicMs();
        });
        const leave = () => {
            step.queue.abandon();
            this.#inBackground(step.interrupt("nobody reads the step any more"));
        };
        readerGone.addEventListener("abort", leave, { once: true });
        this.#inBackground(work);
        try {
            yield* step.queue;
        }
        finally {
            readerGone.removeEventListener("abort", leave);
            if (!step.queue.finished) {
                leave();
            }
        }
    }
    /** Asks the running step to stop; tells whether there was one. */
    interrupt(reason) {
        const step = this.#running;
        if (step === null || step.queue.finished) {
            return false;
        }
        this.#inBackground(step.interrupt(reason));
        return true;
    }
    checkpoint() {
        return this.#opened().checkpoint();
    }
    /** The session can no longer work. Its step fails with `code`, and it ends. */
    lose(code, detail) {
        if (this.#lost !== null || this.ended) {
            return;
        }
        this.#lost = { code, detail };
        this.#running?.lose(code, detail);
        this.#inBackground(this.end(detail));
    }
    /** Stops the step, disposes the engine. Idempotent; every caller waits for the same end. Never rejects. */
    end(reason) {
        this.#ending ??= this.#end(reason);
        return this.#ending;
    }
    async #end(reason) {
        this.#options.onEnding(this);
        const step = this.#running;
        if (step !== null) {
            if (this.#lost === null) {
                await step.interrupt(reason);
            }
            else {
                await settledWithin(step.ended, INTERRUPT_BOUND_MS, this.#options.clock);
                step.cut(this.#lost.code, this.#lost.detail);
            }
        }
        await this.#dispose();
    }
    async #endStuck() {
        this.#options.log.warn("engine did not stop in time", this.#facts());
        await this.end("the engine did not stop in time");
    }
    async #dispose() {
        const engine = this.#engine;
        this.#engine = null;
        if (engine === null) {
            return;
        }
        try {
            const disposed = Promise.resolve(engine[Symbol.asyncDispose]());
            if (await settledWithin(disposed, DISPOSE_BOUND_MS, this.#options.clock)) {
                await disposed;
            }
            else {
                this.#options.log.warn("engine is still not gone", this.#facts());
            }
        }
        catch (error) {
            this.#options.log.error("engine did not end cleanly", error, this.#facts());
        }
    }
    #opened() {
        if (this.#engine === null || this.ended) {
            throw new PlatformError("session_unknown");
        }
        return this.#engine;
    }
    #facts() {
        return { conversationId: this.conversationId, generation: this.#generation, runtime: this.runtime };
    }
    /** Work that nobody waits for here: it has its own bound and reports its own failures. */
    #inBackground(work) {
        work.catch((error) => this.#options.log.error("session work failed", error, this.#facts()));
    }
}
//# sourceMappingURL=session.js.map