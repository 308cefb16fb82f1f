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
}

export interface PolicySource extends AsyncDisposable {
  /** Hash of what was read last; `unknown` before. Never throws. */
  version(): string;
  /** A policy that is fresh. Errors: `policy_unavailable`. */
  current(): Promise<ToolPolicy>;
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
export function openPolicySource(options: PolicySourceOptions): PolicySource {
  const { record, tenantId, clock, digest, log, maxAgeMs = MAX_AGE_MS } = options;
  const shipped = defaultPolicy(digest);
  const stop = new AbortController();
  let known: ToolPolicy | null = null;
  let version = NOT_READ;
  let readAtMs = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | null = null;
  let isTold = false;

  /** An answer after its time is none: it may be of long ago. */
  const inTime = async <T>(answer: Promise<T>): Promise<T> => {
    const answered = new AbortController();
    const end = (): void => answered.abort("over");
    stop.signal.addEventListener("abort", end, { once: true });
    try {
      const late = clock.sleep(READ_MS, answered.signal).then((): typeof LATE => LATE);
      const first = await Promise.race([answer, late]);
      if (first === LATE) throw new PlatformError("policy_unavailable", "The policy could not be read in time.");
      return first;
    } finally {
      end();
      stop.signal.removeEventListener("abort", end);
    }
  };
  const readOnce = async (): Promise<void> => {
    const startedAtMs = clock.monotonicMs();
    const kept = await inTime(record.current(tenantId));
    const hash = kept?.hash ?? shipped.id;
    if (hash !== version || known === null) {
      version = hash;
      // One that does not compile is in place all the same: nothing is judged by the one before.
      known = null;
      known = kept === null ? shipped : compilePolicy(kept.document, hash);
      log.info("a policy is in place", { policy: hash });
    }
    readAtMs = startedAtMs;
  };
  const read = (): Promise<void> => {
    reading ??= readOnce().finally(() => {
      reading = null;
    });
    return reading;
  };
  const keepReading = async (): Promise<void> => {
    do {
      try {
        await read();
        isTold = false;
      } catch (thrown) {
        if (!isTold) log.error("the policy cannot be read; calls of tools are refused", thrown);
        isTold = true;
      }
    } while ((await clock.sleep(READ_EVERY_MS, stop.signal)) === "elapsed");
  };
  const reader = keepReading();
  return {
    version: () => version,
    async current() {
      try {
        if (known === null || clock.monotonicMs() - readAtMs > maxAgeMs) await read();
      } catch (thrown) {
        throw new PlatformError("policy_unavailable", undefined, { cause: asPlatformError(thrown) });
      }
      if (known === null) throw new PlatformError("policy_unavailable");
      return known;
    },
    async [Symbol.asyncDispose]() {
      stop.abort("the policy is not needed any more");
      await reader;
      await reading?.catch(() => undefined);
    },
  };
}
