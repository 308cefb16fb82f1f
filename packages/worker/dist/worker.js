/**
 * A worker process, or a worker inside an embedding process: serves WorkerService, keeps the sessions, announces
 * itself, and ends every engine by itself when it has heard from no supervisor for one lease.
 */
import { randomUUID } from "node:crypto";
import { settledWithin, systemClock } from "./clock.js";
import { DRAIN_BOUND_MS, LEASE_DEFAULT_MS, REAP_EVERY_MS, ROOM_DEFAULT } from "./limits.js";
import { lineLog } from "./log.js";
import { listen } from "./listener.js";
import { RecordConnections } from "./record-client.js";
import { Registration } from "./registration.js";
import { Runtimes } from "./runtimes.js";
import { makeScratch } from "./scratch.js";
import { serveWorker } from "./service.js";
import { Sessions } from "./sessions.js";
export async function startWorker(options) {
    const clock = options.clock ?? systemClock;
    const log = options.log ??
        lineLog((line) => process.stderr.write(line), () => clock.nowMs());
    const scratch = await makeScratch(options.scratchRoot);
    const toEnd = [scratch];
    try {
        const runtimes = await Runtimes.load({
            loaders: options.runtimes,
            ...(options.defaultRuntime === undefined ? {} : { defaultRuntime: options.defaultRuntime }),
            scratchDir: scratch.path,
            log,
        });
        toEnd.push(runtimes);
        const record = new RecordConnections(clock);
        toEnd.push(record);
        const started = new StartedWorker({ ...options, clock, log, runtimes, record });
        toEnd.push(started);
        await started.open();
        return withEnd(started, toEnd);
    }
    catch (error) {
        await endInReverse(toEnd);
        throw error;
    }
}
/** WorkerService of a started worker, for `createRouterTransport` in the same process. */
export function workerRoutes(worker) {
    return worker.routes;
}
function withEnd(started, toEnd) {
    let end = null;
    return {
        incarnation: started.incarnation,
        address: started.address,
        runtimes: started.runtimes,
        routes: started.routes,
        drain: () => started.drain(),
        [Symbol.asyncDispose]: () => (end ??= endInReverse(toEnd)),
    };
}
async function endInReverse(parts) {
    for (const part of parts.toReversed()) {
        await (Symbol.asyncDispose in part ? part[Symbol.asyncDispose]() : part[Symbol.dispose]());
    }
}
class StartedWorker {
    incarnation = randomUUID();
    routes;
    address = "";
    #parts;
    #sessions;
    #stop = new AbortController();
    #background = [];
    #listener = null;
    #registration = null;
    #leaseMs = LEASE_DEFAULT_MS;
    /** When a supervisor called last; before the first call there is nothing a lease could protect. */
    #heardAtMs = Number.NEGATIVE_INFINITY;
    #drained = null;
    constructor(parts) {
        this.#parts = parts;
        this.#sessions = new Sessions({
            runtimes: parts.runtimes,
            room: parts.room ?? ROOM_DEFAULT,
            clock: parts.clock,
            log: parts.log,
            transcript: parts.transcript ?? ((url, token) => parts.record.log(url, token)),
            ...(parts.sessionIdleMaxMs === undefined ? {} : { idleMaxMs: parts.sessionIdleMaxMs }),
            ...(parts.sessionAgeMaxMs === undefined ? {} : { ageMaxMs: parts.sessionAgeMaxMs }),
        });
        this.routes = serveWorker({
            incarnation: this.incarnation,
            joinToken: parts.joinToken,
            sessions: this.#sessions,
            runtimes: () => parts.runtimes.descriptions,
            log: parts.log,
            onHeard: () => {
                this.#heardAtMs = parts.clock.monotonicMs();
            },
        });
    }
    get runtimes() {
        return this.#parts.runtimes.descriptions;
    }
    async open() {
        const { host = "127.0.0.1", port = 0, advertise, platformUrl } = this.#parts;
        if (host !== null) {
            this.#listener = await listen({ routes: this.routes, host, port });
            this.address = advertise ?? this.#listener.address;
        }
        if (platformUrl !== undefined) {
            this.#registration = this.#register(platformUrl);
        }
        this.#background.push(this.#every(() => this.#leaseMs / 4, () => this.#endWhenUnled()), this.#every(() => REAP_EVERY_MS, () => this.#sessions.reap()), this.#parts.runtimes.warm());
    }
    drain() {
        this.#drained ??= this.#drain();
        return this.#drained;
    }
    async [Symbol.asyncDispose]() {
        await this.drain();
        this.#stop.abort();
        await this.#registration?.[Symbol.asyncDispose]();
        await this.#listener?.[Symbol.asyncDispose]();
        await Promise.all(this.#background);
    }
    async #drain() {
        this.#sessions.drain();
        const { clock, drainMs = DRAIN_BOUND_MS } = this.#parts;
        const waiting = new AbortController();
        await settledWithin(this.#stepsEnded(waiting.signal), drainMs, clock);
        waiting.abort();
        await this.#sessions.endAll("the worker is shutting down");
    }
    async #stepsEnded(stop) {
        while (!stop.aborted && this.#sessions.all.some((session) => session.stepping)) {
            await this.#parts.clock.sleep(20, stop);
        }
    }
    async #endWhenUnled() {
        const silentMs = this.#parts.clock.monotonicMs() - this.#heardAtMs;
        if (silentMs <= this.#leaseMs || this.#sessions.all.length === 0) {
            return;
        }
        this.#parts.log.warn("no supervisor for one lease: ending every session", {
            silentMs: Math.round(silentMs),
            sessions: this.#sessions.all.length,
        });
        for (const session of this.#sessions.all) {
            session.lose("worker_lost", "This worker has heard from no supervisor for one lease.");
        }
        await this.#sessions.endAll("no supervisor for one lease");
    }
    #register(platformUrl) {
        const { joinToken, room = ROOM_DEFAULT, clock, log, runtimes, onRefused } = this.#parts;
        return new Registration({
            platformUrl,
            joinToken,
            address: this.address,
            incarnation: this.incarnation,
            room,
            runtimes: () => runtimes.descriptions,
            clock,
            log,
            silenceMs: () => clock.monotonicMs() - this.#heardAtMs,
            onLease: (leaseMs) => {
                this.#leaseMs = leaseMs > 0 ? leaseMs : LEASE_DEFAULT_MS;
            },
            onRefused: (error) => {
                log.error("the platform refuses this worker", error);
                onRefused?.(error);
            },
        });
    }
    async #every(periodMs, work) {
        while ((await this.#parts.clock.sleep(periodMs(), this.#stop.signal)) === "elapsed") {
            try {
                await work();
            }
            catch (error) {
                this.#parts.log.error("background work of the worker failed", error);
            }
        }
    }
}
//# sourceMappingURL=worker.js.map