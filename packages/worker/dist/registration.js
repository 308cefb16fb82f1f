/**
 * Announces the worker to the platform until the platform dials, and again whenever it has been silent for a while: a
 * restarted platform knows no workers. Learns how long the platform's lease is.
 */
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { RegistryService } from "@signalbox/contract/worker-protocol";
import { bearer } from "./join-token.js";
import { MESSAGE_BYTES_MAX, REGISTER_BACKOFF_MAX_MS, REGISTER_BACKOFF_MIN_MS, REGISTER_TIMEOUT_MS, SILENCE_BEFORE_REGISTER_MS, } from "./limits.js";
import { fromConnectError } from "./rpc-errors.js";
import { writeRuntime } from "./wire.js";
export class Registration {
    #options;
    #registry;
    #stop = new AbortController();
    #loop;
    #refused = false;
    #reachable = null;
    constructor(options) {
        this.#options = options;
        this.#registry = createClient(RegistryService, createConnectTransport({
            baseUrl: options.platformUrl,
            httpVersion: "1.1",
            interceptors: [bearer(options.joinToken)],
            readMaxBytes: MESSAGE_BYTES_MAX,
            writeMaxBytes: MESSAGE_BYTES_MAX,
            acceptCompression: [],
        }));
        this.#loop = this.#announceWhenSilent();
    }
    async [Symbol.asyncDispose]() {
        this.#stop.abort();
        await this.#loop;
    }
    async #announceWhenSilent() {
        const { clock, silenceMs } = this.#options;
        let triesCount = 0;
        while (!this.#stop.signal.aborted) {
            const quietMs = SILENCE_BEFORE_REGISTER_MS - silenceMs();
            if (quietMs > 0) {
                triesCount = 0;
                await clock.sleep(quietMs, this.#stop.signal);
                continue;
            }
            await this.#announce();
            const backoffMs = Math.min(REGISTER_BACKOFF_MAX_MS, REGISTER_BACKOFF_MIN_MS * 2 ** Math.min(triesCount, 16));
            triesCount += 1;
            await clock.sleep(backoffMs * (1 + Math.random() / 2), this.#stop.signal);
        }
    }
    async #announce() {
        const { address, incarnation, room, runtimes, onLease } = this.#options;
        try {
            const answer = await this.#registry.register({ address, incarnation, room, runtimes: runtimes().map(writeRuntime) }, { signal: this.#stop.signal, timeoutMs: REGISTER_TIMEOUT_MS });
            onLease(answer.leaseMs);
            this.#report(true);
        }
        catch (thrown) {
            if (!this.#stop.signal.aborted) {
                this.#explain(fromConnectError(thrown, "internal"));
            }
        }
    }
    #explain(error) {
        if (error.code !== "unauthenticated") {
            this.#report(false, error);
        }
        else if (!this.#refused) {
            this.#refused = true;
            this.#options.onRefused(error);
        }
    }
    /** One line when it changes, not one for every try. */
    #report(reachable, error) {
        if (this.#reachable === reachable) {
            return;
        }
        this.#reachable = reachable;
        const { log, platformUrl } = this.#options;
        if (reachable) {
            log.info("announced to the platform", { platformUrl });
        }
        else {
            const cause = error?.cause;
            log.warn("platform cannot be reached", { platformUrl, problem: cause instanceof Error ? cause.message : "" });
        }
    }
}
//# sourceMappingURL=registration.js.map