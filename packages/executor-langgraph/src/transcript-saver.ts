/**
 * LangGraph's checkpoints in the transcript of a conversation. Every put is durable when it resolves, except while the
 * saver is held: what is put then goes with the next one after. A refused append refuses every later put, so a graph
 * under `durability: "sync"` stops at once.
 */
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  maxChannelVersion,
  TASKS,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import type { TranscriptEntry, TranscriptLog } from "@signalbox/worker";
import { CheckpointLine } from "./checkpoint-line.ts";
import type { StoredCheckpoint } from "./state-entry.ts";
import { strictSerializer } from "./strict-serializer.ts";
import { TranscriptWriter } from "./transcript-writer.ts";

/** Checkpoints before this version kept what nodes sent each other among the writes of their parent. */
const SENDS_IN_CHECKPOINT_SINCE = 4;

export interface TranscriptSaverOptions {
  /** The log of a conversation. A running session has one; a test of the saver has many. */
  readonly logOf: (conversationId: string) => TranscriptLog;
  /** Keeps entry ids of this opening apart from those of another. */
  readonly salt: string;
  /** `newest` keeps what is needed to go on, `all` every checkpoint. */
  readonly keep: "newest" | "all";
}

interface Place {
  readonly conversationId: string;
  readonly namespace: string;
  readonly checkpointId: string | undefined;
}

interface Saved {
  readonly lines: Map<string, CheckpointLine>;
  readonly writer: TranscriptWriter;
  /** Last durable entry of the main stream. */
  leaf: string | null;
  /** Size of the newest durable checkpoint. */
  sizeBytes: number;
}

export class TranscriptSaver extends BaseCheckpointSaver {
  readonly #options: TranscriptSaverOptions;
  readonly #saved = new Map<string, Saved>();
  #held = false;

  constructor(options: TranscriptSaverOptions) {
    super(strictSerializer);
    this.#options = options;
  }

  /** Last durable entry of the main stream, or `null`. */
  leaf(conversationId: string): string | null {
    return this.#saved.get(conversationId)?.leaf ?? null;
  }

  /** Value of a channel in the newest checkpoint of the main stream. */
  newestValue(conversationId: string, channel: string): unknown {
    return this.#saved.get(conversationId)?.lines.get("")?.get(undefined)?.values.get(channel);
  }

  /** Size of the newest durable checkpoint of the main stream, without the items it refers to. */
  sizeBytes(conversationId: string): number {
    return this.#saved.get(conversationId)?.sizeBytes ?? 0;
  }

  /** Takes a transcript as it was loaded. Throws `transcript_corrupt`. */
  load(conversationId: string, entries: readonly TranscriptEntry[]): void {
    const saved = this.#of(conversationId);
    for (const stream of new Set(entries.map((entry) => entry.stream))) {
      this.#line(saved, stream).load(entries.filter((entry) => entry.stream === stream));
    }
    const last = entries.findLast((entry) => entry.stream === "");
    saved.leaf = last?.entryId ?? null;
    saved.sizeBytes = last?.body.byteLength ?? 0;
  }

  /** From now on puts resolve at once and wait for the first one after `release`. */
  hold(): void {
    this.#held = true;
  }

  release(): void {
    this.#held = false;
  }

  /** Makes everything durable, also what is held. */
  async flush(conversationId: string): Promise<void> {
    await this.#of(conversationId).writer.flush();
  }

  /** Whether something could not be made durable: then nothing more is written, and the session is over. */
  refused(conversationId: string): boolean {
    return this.#saved.get(conversationId)?.writer.refused ?? false;
  }

  /** Resolves when nothing is on its way to the transcript. */
  async idle(conversationId: string): Promise<void> {
    await this.#saved.get(conversationId)?.writer.idle();
  }

  /** Drops what is not durable. Waits for what is on its way. */
  async rollback(conversationId: string): Promise<void> {
    const saved = this.#of(conversationId);
    await saved.writer.idle();
    for (const line of saved.lines.values()) {
      line.rollback();
    }
  }

  override getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const place = placeOf(config);
    if (place === null) {
      return Promise.resolve(undefined);
    }
    const line = this.#saved.get(place.conversationId)?.lines.get(place.namespace);
    const stored = line?.get(place.checkpointId === "" ? undefined : place.checkpointId);
    return Promise.resolve(line === undefined || stored === undefined ? undefined : this.#tuple(place, stored, line));
  }

  override async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const wanted = config.configurable ?? {};
    // LangGraph types its configuration as open; these members are what it defines for a checkpoint.
    const before = options.before?.configurable?.checkpoint_id as string | undefined;
    let left = options.limit ?? Number.POSITIVE_INFINITY;
    for (const [conversationId, saved] of this.#saved) {
      for (const [namespace, line] of saved.lines) {
        const elsewhere =
          (wanted.thread_id !== undefined && wanted.thread_id !== conversationId) ||
          (wanted.checkpoint_ns !== undefined && wanted.checkpoint_ns !== namespace);
        for (const stored of elsewhere ? [] : line.all) {
          const { id } = stored.checkpoint;
          const listed =
            (wanted.checkpoint_id === undefined || wanted.checkpoint_id === id) &&
            (before === undefined || id < before) &&
            matches(stored.metadata, options.filter);
          if (listed && left > 0) {
            left -= 1;
            yield this.#tuple({ conversationId, namespace, checkpointId: id }, stored, line);
          }
        }
      }
    }
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    // The interface of the base class; LangGraph calls it so.
    ...[metadata, newVersions]: [CheckpointMetadata, ChannelVersions]
  ): Promise<RunnableConfig> {
    const place = requirePlace(config);
    const saved = this.#of(place.conversationId);
    const parentId = place.checkpointId ?? null;
    this.#line(saved, place.namespace).put({ checkpoint, metadata, parentId, newVersions });
    if (!this.#held) {
      await saved.writer.flush();
    }
    return configOf(place, checkpoint.id);
  }

  override async putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    ...[source, path = ""]: [string, string?]
  ): Promise<void> {
    const place = requirePlace(config);
    if (place.checkpointId === undefined) {
      throw new TypeError("Writes belong to a checkpoint.");
    }
    const saved = this.#of(place.conversationId);
    const line = this.#line(saved, place.namespace);
    if (line.putWrites(place.checkpointId, writes, { source, path }) && !this.#held) {
      await saved.writer.flush();
    }
  }

  /** Forgets a conversation. What is durable of it belongs to the platform. */
  override deleteThread(conversationId: string): Promise<void> {
    this.#saved.delete(conversationId);
    return Promise.resolve();
  }

  #of(conversationId: string): Saved {
    let saved = this.#saved.get(conversationId);
    if (saved === undefined) {
      const lines = new Map<string, CheckpointLine>();
      const made: Saved = {
        lines,
        leaf: null,
        sizeBytes: 0,
        writer: new TranscriptWriter(
          this.#options.logOf(conversationId),
          () => {
            const all = [...lines.values()];
            const pending = all.flatMap((line) => line.pending());
            // Only now: when one of them cannot be written down, none of them is on its way.
            for (const line of all) {
              line.handedOver();
            }
            return pending;
          },
          (entries) => {
            const last = entries.findLast((entry) => entry.stream === "");
            made.leaf = last?.entryId ?? made.leaf;
            made.sizeBytes = last?.body.byteLength ?? made.sizeBytes;
          },
        ),
      };
      saved = made;
      this.#saved.set(conversationId, saved);
    }
    return saved;
  }

  #line(saved: Saved, namespace: string): CheckpointLine {
    let line = saved.lines.get(namespace);
    if (line === undefined) {
      line = new CheckpointLine({ stream: namespace, salt: this.#options.salt, keep: this.#options.keep });
      saved.lines.set(namespace, line);
    }
    return line;
  }

  #tuple(place: Place, stored: StoredCheckpoint, line: CheckpointLine): CheckpointTuple {
    const checkpoint: Checkpoint = {
      ...stored.checkpoint,
      channel_values: Object.fromEntries(stored.values),
      channel_versions: { ...stored.checkpoint.channel_versions },
    };
    if (checkpoint.v < SENDS_IN_CHECKPOINT_SINCE && stored.parentId !== null) {
      this.#takeSendsOfParent(checkpoint, line.get(stored.parentId));
    }
    return {
      config: configOf(place, checkpoint.id),
      checkpoint,
      metadata: stored.metadata,
      ...(stored.parentId === null ? {} : { parentConfig: configOf(place, stored.parentId) }),
      pendingWrites: stored.writes.map(({ source, channel, value }) => [source, channel, value]),
    };
  }

  #takeSendsOfParent(checkpoint: Checkpoint, parent: StoredCheckpoint | undefined): void {
    const sends = (parent?.writes ?? []).filter((write) => write.channel === TASKS).map((write) => write.value);
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_values[TASKS] = sends;
    checkpoint.channel_versions[TASKS] =
      versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
  }
}

function placeOf(config: RunnableConfig): Place | null {
  const {
    thread_id: conversationId,
    checkpoint_ns: namespace,
    checkpoint_id: checkpointId,
  } = config.configurable ?? {};
  if (conversationId === undefined) {
    return null;
  }
  return {
    conversationId: String(conversationId),
    namespace: typeof namespace === "string" ? namespace : "",
    checkpointId: typeof checkpointId === "string" ? checkpointId : undefined,
  };
}

function requirePlace(config: RunnableConfig): Place {
  const place = placeOf(config);
  if (place === null) {
    throw new TypeError("A checkpoint belongs to a conversation.");
  }
  return place;
}

function configOf(place: Place, checkpointId: string): RunnableConfig {
  return {
    configurable: {
      thread_id: place.conversationId,
      checkpoint_ns: place.namespace,
      checkpoint_id: checkpointId,
    },
  };
}

function matches(metadata: CheckpointMetadata, filter: CheckpointListOptions["filter"]): boolean {
  const members = Object.entries(metadata);
  // LangGraph leaves the values of a filter open; they are only compared.
  return Object.entries((filter ?? {}) as Record<string, unknown>).every(([key, wanted]) =>
    members.some(([name, value]) => name === key && value === wanted),
  );
}
