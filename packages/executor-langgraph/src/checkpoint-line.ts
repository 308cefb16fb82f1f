/** The checkpoints of one namespace in the order they were put: what is in memory, and what of it is durable. */
import {
  compareWritesSortKeys,
  WRITES_IDX_MAP,
  writesSortKey,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import type { TranscriptEntry } from "@signalbox/worker";
import { ItemStore } from "./item-store.ts";
import { decodeState, encodeState, type StoredCheckpoint, type StoredWrite } from "./state-entry.ts";

/** LangGraph's channel for what a failed node threw. It only serves people who look, so it is not worth a write. */
const ERROR_CHANNEL = "__error__";

export interface LineOptions {
  /** Stream of the transcript, empty for the main one. */
  readonly stream: string;
  readonly salt: string;
  /** `newest` writes and keeps only what is needed to go on; `all` every checkpoint ever put. */
  readonly keep: "newest" | "all";
}

interface LineCheckpoint extends StoredCheckpoint {
  writes: readonly StoredWrite[];
  /** Has something the transcript lacks. */
  dirty: boolean;
  /** The writes as they are durable; `null` while the checkpoint itself is not. */
  durableWrites: readonly StoredWrite[] | null;
}

export class CheckpointLine {
  readonly #options: LineOptions;
  readonly #items: ItemStore;
  readonly #checkpoints = new Map<string, LineCheckpoint>();
  #entryCount = 0;

  constructor(options: LineOptions) {
    this.#options = options;
    this.#items = new ItemStore(options.stream, options.salt);
  }

  /** Newest first, by id: ids grow with time. */
  get all(): readonly StoredCheckpoint[] {
    return [...this.#checkpoints.values()].sort((left, right) => (left.checkpoint.id < right.checkpoint.id ? 1 : -1));
  }

  get(id: string | undefined): StoredCheckpoint | undefined {
    return id === undefined ? this.all[0] : this.#checkpoints.get(id);
  }

  put(put: {
    readonly checkpoint: Checkpoint;
    readonly metadata: CheckpointMetadata;
    readonly parentId: string | null;
    readonly newVersions: ChannelVersions;
  }): void {
    const { checkpoint, metadata, parentId, newVersions } = put;
    const parent = parentId === null ? undefined : this.#checkpoints.get(parentId);
    const values = new Map<string, unknown>();
    for (const [channel, version] of Object.entries(checkpoint.channel_versions)) {
      if (channel in newVersions) {
        if (channel in checkpoint.channel_values) {
          values.set(channel, checkpoint.channel_values[channel]);
        }
      } else if (parent?.values.has(channel) === true && parent.checkpoint.channel_versions[channel] === version) {
        values.set(channel, parent.values.get(channel));
      }
    }
    const before = this.#checkpoints.get(checkpoint.id);
    this.#checkpoints.delete(checkpoint.id);
    this.#checkpoints.set(checkpoint.id, {
      checkpoint: { ...checkpoint, channel_values: {} },
      metadata,
      parentId,
      values,
      writes: before?.writes ?? [],
      dirty: true,
      durableWrites: before?.durableWrites ?? null,
    });
    this.#forgetOld();
  }

  /** Tells whether there is something to make durable. */
  putWrites(
    id: string,
    writes: readonly PendingWrite[],
    by: { readonly source: string; readonly path: string },
  ): boolean {
    const stored = this.#checkpoints.get(id);
    if (stored === undefined || writes.length === 0) {
      return false;
    }
    const kept = new Map(stored.writes.map((write) => [keyOf(write), write]));
    const overwrite = writes.every(([channel]) => channel in WRITES_IDX_MAP);
    writes.forEach(([channel, value], at) => {
      const write = { ...by, index: WRITES_IDX_MAP[channel] ?? at, channel, value };
      if (overwrite || !kept.has(keyOf(write))) {
        kept.set(keyOf(write), write);
      }
    });
    stored.writes = [...kept.values()].sort((left, right) => compareWritesSortKeys(sortKey(left), sortKey(right)));
    if (writes.every(([channel]) => channel === ERROR_CHANNEL)) {
      return false;
    }
    stored.dirty = true;
    return true;
  }

  /**
   * What the transcript lacks: items first, so that a checkpoint never refers to what is not there. Throws for a state
   * that cannot be written down.
   */
  pending(): readonly TranscriptEntry[] {
    const dirty = this.#dirty();
    const toWrite = this.#options.keep === "all" ? dirty : dirty.slice(-1);
    const states = toWrite.map((stored): TranscriptEntry => {
      this.#entryCount += 1;
      return {
        kind: "state",
        entryId: `${stored.checkpoint.id}.${this.#options.salt}.${this.#entryCount}`,
        stream: this.#options.stream,
        body: encodeState(stored, this.#items),
      };
    });
    return [...this.#items.pending(), ...states];
  }

  /** What was pending is on its way to the transcript and is not handed out again. */
  handedOver(): void {
    for (const stored of this.#dirty()) {
      stored.dirty = false;
      stored.durableWrites = stored.writes;
    }
    this.#items.written();
  }

  /** Goes back to what is durable. Only between batches. */
  rollback(): void {
    for (const [id, stored] of this.#checkpoints) {
      if (stored.durableWrites === null) {
        this.#checkpoints.delete(id);
      } else {
        stored.writes = stored.durableWrites;
        stored.dirty = false;
      }
    }
  }

  /** Takes what was loaded, in order. */
  load(entries: readonly TranscriptEntry[]): void {
    for (const entry of entries.filter((each) => each.kind === "item")) {
      this.#items.load(entry);
    }
    const states = entries.filter((each) => each.kind === "state");
    for (const state of this.#options.keep === "all" ? states : states.slice(-1)) {
      const stored = decodeState(state.body, this.#items);
      this.#checkpoints.delete(stored.checkpoint.id);
      this.#checkpoints.set(stored.checkpoint.id, { ...stored, dirty: false, durableWrites: stored.writes });
    }
  }

  #dirty(): readonly LineCheckpoint[] {
    return [...this.#checkpoints.values()].filter((stored) => stored.dirty);
  }

  /** Only the newest durable checkpoint, which is what a failure goes back to, and what came after it are needed. */
  #forgetOld(): void {
    if (this.#options.keep === "all") {
      return;
    }
    const ids = [...this.#checkpoints.keys()];
    const newestDurable = ids.findLastIndex((id) => this.#checkpoints.get(id)?.durableWrites !== null);
    for (const id of ids.slice(0, Math.max(0, newestDurable))) {
      this.#checkpoints.delete(id);
    }
  }
}

function keyOf(write: StoredWrite): string {
  return `${write.source} ${write.index}`;
}

function sortKey(write: StoredWrite) {
  return writesSortKey(write.path, write.source, write.index);
}
