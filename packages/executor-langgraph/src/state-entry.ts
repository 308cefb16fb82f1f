/**
 * A checkpoint and the writes made on it, as one transcript entry that needs nothing but the items it refers to: of
 * all such entries only the newest is kept below a finalized leaf.
 */
import { PlatformError } from "@signalbox/contract";
import { Send } from "@langchain/langgraph";
import { DeltaSnapshot, type Checkpoint, type CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { isItemList, type ItemList, type ItemStore } from "./item-store.ts";
import { strictJson } from "./strict-serializer.ts";

/** Version of the form below; a reader refuses what is newer. */
export const STATE_SCHEMA_VERSION = 1;

/** A write of one node on a checkpoint, before the next checkpoint takes it in. */
export interface StoredWrite {
  readonly source: string;
  readonly path: string;
  readonly index: number;
  readonly channel: string;
  readonly value: unknown;
}

export interface StoredCheckpoint {
  /** `channel_values` is empty here; the values stand beside it. */
  readonly checkpoint: Checkpoint;
  readonly metadata: CheckpointMetadata;
  readonly parentId: string | null;
  /** Values of the channels that have one, at the versions the checkpoint names. */
  readonly values: ReadonlyMap<string, unknown>;
  readonly writes: readonly StoredWrite[];
}

type Encoded =
  | { readonly json: unknown }
  | { readonly list: ItemList }
  | { readonly bytes: string }
  | { readonly snapshot: Encoded }
  | { readonly sends: readonly { readonly node: string; readonly args: unknown }[]; readonly one: boolean };

interface StateBody {
  readonly v: number;
  readonly checkpoint: Checkpoint;
  readonly metadata: CheckpointMetadata;
  readonly parentId: string | null;
  readonly values: Readonly<Record<string, Encoded>>;
  readonly writes: readonly (Omit<StoredWrite, "value"> & { readonly value: Encoded })[];
}

export function encodeState(stored: StoredCheckpoint, items: ItemStore): Uint8Array {
  const values: Record<string, Encoded> = {};
  for (const [channel, value] of stored.values) {
    values[channel] = encode(value, items);
  }
  const body: StateBody = {
    v: STATE_SCHEMA_VERSION,
    checkpoint: stored.checkpoint,
    metadata: stored.metadata,
    parentId: stored.parentId,
    values,
    writes: stored.writes.map((write) => ({ ...write, value: encode(write.value, items) })),
  };
  return Buffer.from(strictJson(body));
}

/** Throws `transcript_corrupt` for what cannot be read. */
export function decodeState(bytes: Uint8Array, items: ItemStore): StoredCheckpoint {
  const body = parseBody(bytes);
  return {
    checkpoint: body.checkpoint,
    metadata: body.metadata,
    parentId: body.parentId,
    values: new Map(Object.entries(body.values).map(([channel, value]) => [channel, decode(value, items)])),
    writes: body.writes.map((write) => ({ ...write, value: decode(write.value, items) })),
  };
}

function encode(value: unknown, items: ItemStore): Encoded {
  if (value instanceof Uint8Array) {
    return { bytes: Buffer.from(value).toString("base64") };
  }
  if (value instanceof DeltaSnapshot) {
    return { snapshot: encode(value.value, items) };
  }
  if (isSend(value)) {
    return { sends: [{ node: value.node, args: value.args }], one: true };
  }
  if (Array.isArray(value) && value.length > 0 && value.every(isSend)) {
    return { sends: value.map(({ node, args }) => ({ node, args })), one: false };
  }
  return isItemList(value) ? { list: items.encode(value) } : { json: value ?? null };
}

function decode(encoded: Encoded, items: ItemStore): unknown {
  if ("list" in encoded) {
    return items.decode(encoded.list);
  }
  if ("bytes" in encoded) {
    return new Uint8Array(Buffer.from(encoded.bytes, "base64"));
  }
  if ("snapshot" in encoded) {
    return new DeltaSnapshot(decode(encoded.snapshot, items));
  }
  if ("sends" in encoded) {
    const sends = encoded.sends.map(({ node, args }) => new Send(node, args));
    return encoded.one ? sends[0] : sends;
  }
  return encoded.json;
}

interface SendLike {
  readonly node: string;
  readonly args: unknown;
}

function isSend(value: unknown): value is SendLike {
  return value instanceof Send;
}

function parseBody(bytes: Uint8Array): StateBody {
  let body: unknown;
  try {
    body = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch (cause) {
    throw new PlatformError("transcript_corrupt", "A checkpoint of the transcript is not valid JSON.", { cause });
  }
  if (typeof body !== "object" || body === null || !("v" in body)) {
    throw new PlatformError("transcript_corrupt", "A checkpoint of the transcript has not the form of one.");
  }
  if (body.v !== STATE_SCHEMA_VERSION) {
    throw new PlatformError("transcript_corrupt", "A checkpoint of the transcript was written by a newer release.");
  }
  // Written by `encodeState` under this version, and unreachable for tools and models.
  return body as StateBody;
}
