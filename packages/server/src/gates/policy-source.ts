/**
 * The policy that is in place, as a gate knows it: read again while it runs, so that a call is judged by one that was in
 * place at most a second ago. One that cannot be read, or is none, judges nothing: whoever asks for it is refused.
 */
import { asPlatformError, canonicalJson, PlatformError } from "@signalbox/contract";
import {
  compilePolicy,
  DEFAULT_POLICY,
  type Clock,
  type Digest,
  type Log,
  type PolicyRecord,
  type ToolPolicy,
} from "@signalbox/core";

export interface PolicySourceOptions {
  readonly record: Pick<PolicyRecord, "current">;
  readonly tenantId: string;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly log: Log;
  /** How old what is known may be when a call is judged. */
  readonly maxAgeMs?: number;
  /** Told when another policy is in place than before. Must not throw. */
  readonly onChanged?: () => void;
}

const MAX_AGE_MS = 1_000;
const READ_EVERY_MS = 500;
/** How long the record may take. */
const READ_MS = 1_500;
const LATE = Symbol("late");
const NOT_READ = "unknown";

/** Of the policy that the platform ships with. */
export function defaultPolicy(digest: Digest): ToolPolicy {
  return compilePolicy(DEFAULT_POLICY, digest.sha256Hex(canonicalJson(DEFAULT_POLICY)));
}

/** Reads on until it is disposed of. A record that does not answer now keeps nobody from starting. */
export class PolicySource implements AsyncDisposable {
  readonly #options: PolicySourceOptions;
  readonly #shipped: ToolPolicy;
  readonly #stop = new AbortController();
  readonly #reader: Promise<void>;
  #known: ToolPolicy | null = null;
  #version = NOT_READ;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  constructor(options: PolicySourceOptions) {
    this.#options = options;
    this.#shipped = defaultPolicy(options.digest);
    this.#reader = this.#keepReading();
  }

  /** Hash of what was read last; `unknown` before. Never throws. */
  version(): string {
    return this.#version;
  }

  /** A policy that is fresh. Errors: `policy_unavailable`. */
  async current(): Promise<ToolPolicy> {
    const { clock, maxAgeMs = MAX_AGE_MS } = this.#options;
    try {
      if (this.#known === null || clock.monotonicMs() - this.#readAtMs > maxAgeMs) await this.#read();
    } catch (thrown) {
      throw new PlatformError("policy_unavailable", undefined, { cause: asPlatformError(thrown) });
    }
    if (this.#known === null) throw new PlatformError("policy_unavailable");
    return this.#known;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort("the policy is not needed any more");
    await this.#reader;
    await this.#reading?.catch(() => undefined);
  }

  #read(): Promise<void> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #readOnce(): Promise<void> {
    const { record, tenantId, clock, log } = this.#options;
    const startedAtMs = clock.monotonicMs();
    const kept = await this.#inTime(record.current(tenantId));
    const hash = kept?.hash ?? this.#shipped.id;
    if (hash !== this.#version || this.#known === null) {
      const isAnother = this.#version !== NOT_READ && this.#version !== hash;
      this.#version = hash;
      // One that does not compile is in place all the same: nothing is judged by the one before.
      this.#known = null;
      this.#known = kept === null ? this.#shipped : compilePolicy(kept.document, hash);
      log.info("a policy is in place", { policy: hash });
      if (isAnother) this.#options.onChanged?.();
    }
    this.#readAtMs = startedAtMs;
  }

  /** An answer after its time is none: it may be of long ago. */
  async #inTime<T>(answer: Promise<T>): Promise<T> {
    const { signal } = this.#stop;
    const answered = new AbortController();
    const end = (): void => answered.abort("over");
    signal.addEventListener("abort", end, { once: true });
    try {
      const late = this.#options.clock.sleep(READ_MS, answered.signal).then((): typeof LATE => LATE);
      const first = await Promise.race([answer, late]);
      if (first === LATE) throw new PlatformError("policy_unavailable", "The policy could not be read in time.");
      return first;
    } finally {
      end();
      signal.removeEventListener("abort", end);
    }
  }

  async #keepReading(): Promise<void> {
    const { clock, log } = this.#options;
    let isTold = false;
    do {
      try {
        await this.#read();
        isTold = false;
      } catch (thrown) {
        if (!isTold) log.error("the policy cannot be read; calls of tools are refused", thrown);
        isTold = true;
      }
    } while ((await clock.sleep(READ_EVERY_MS, this.#stop.signal)) === "elapsed");
  }
}
