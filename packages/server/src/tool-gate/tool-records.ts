/**
 * The record's tools as a gate knows them: read again while it runs, so that what an operator decides counts at the next
 * call and not at the next start. What cannot be read for a while is not known any more.
 */
import { canonicalJson } from "@signalbox/contract";
import type { Clock, Digest, Log, ToolRecord, ToolStore } from "@signalbox/core";

export interface ToolRecordsOptions {
  readonly store: ToolStore;
  readonly tenantId: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly digest: Digest;
  /** Told when a reading found that anything of a tool changed. Must not throw. */
  readonly onChanged: () => void;
  /** How old what is known may be when a call is judged by it. */
  readonly maxAgeMs: number;
}

const READ_EVERY_MS = 2_000;
/** Nothing is offered by what is older. */
const LOST_MS = 10_000;
const VERSION_CHARS = 16;

export class ToolRecords implements AsyncDisposable {
  readonly #options: ToolRecordsOptions;
  readonly #stop = new AbortController();
  #known = new Map<string, ToolRecord>();
  #state = "";
  #version = "";
  /** Counts what was put in meanwhile: a reading that began before it is old. */
  #putCount = 0;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;
  #reader: Promise<void> = Promise.resolve();

  constructor(options: ToolRecordsOptions) {
    this.#options = options;
  }

  /** Rejects when the record cannot be read. */
  async start(): Promise<void> {
    await this.read();
    this.#reader = this.#keepReading();
  }

  find(tool: { readonly server: string; readonly tool: string }): ToolRecord | null {
    return this.#known.get(keyOf(tool)) ?? null;
  }

  all(): readonly ToolRecord[] {
    return [...this.#known.values()];
  }

  /** False once the record could not be read for so long that what is known may not hold. */
  get isKnown(): boolean {
    return this.#options.clock.monotonicMs() - this.#readAtMs <= LOST_MS;
  }

  /** Names what operators say of the tools; another one when they say something else. */
  get version(): string {
    return this.#version;
  }

  /** The tools of a server as a transaction has just left them. Answers whether anything of them is news. */
  put(records: readonly ToolRecord[]): boolean {
    this.#putCount += 1;
    for (const record of records) this.#known.set(keyOf(record), record);
    return this.#compare();
  }

  /** Reads when what is known is too old to judge a call by. Rejects when the record cannot be read. */
  async demandFresh(): Promise<void> {
    const { clock, maxAgeMs } = this.#options;
    if (clock.monotonicMs() - this.#readAtMs > maxAgeMs) await this.read();
  }

  /** Something changed, somewhere. */
  hear(): void {
    this.#readAtMs = Math.min(this.#readAtMs, this.#options.clock.monotonicMs() - this.#options.maxAgeMs - 1);
    void this.read().catch((thrown: unknown) => this.#options.log.error("the pins of tools cannot be read", thrown));
  }

  read(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort("the catalogue is closed");
    await this.#reader;
    await this.#reading?.catch(() => undefined);
  }

  async #read(): Promise<void> {
    const { store, tenantId, clock } = this.#options;
    for (;;) {
      const before = this.#putCount;
      const startedAtMs = clock.monotonicMs();
      const records = await store.list(tenantId);
      if (before !== this.#putCount) continue;
      this.#known = new Map(records.map((record) => [keyOf(record), record]));
      this.#readAtMs = startedAtMs;
      if (this.#compare()) this.#options.onChanged();
      return;
    }
  }

  #compare(): boolean {
    const { digest } = this.#options;
    const records = [...this.#known.entries()].sort(([left], [right]) => (left < right ? -1 : 1));
    const said = records.map(([key, { classification }]) => [key, classification]);
    const state = canonicalJson(records.map(([key, each]) => [key, each.state, each.definitionHash]));
    const version = digest.sha256Hex(canonicalJson(said)).slice(0, VERSION_CHARS);
    const isNews = this.#version !== "" && (version !== this.#version || state !== this.#state);
    this.#version = version;
    this.#state = state;
    return isNews;
  }

  async #keepReading(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#stop;
    let isTold = false;
    while ((await clock.sleep(READ_EVERY_MS, signal)) === "elapsed") {
      try {
        await this.read();
        isTold = false;
      } catch (thrown) {
        if (!isTold) log.error("the pins of tools cannot be read", thrown);
        isTold = true;
      }
    }
  }
}

function keyOf(tool: { readonly server: string; readonly tool: string }): string {
  return `${tool.server}\n${tool.tool}`;
}
