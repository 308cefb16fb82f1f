/**
 * The frozen, hashed configuration a run works with. Canonical bytes are RFC 8785 (JCS) over a value made only of
 * strings, integers, booleans, null, arrays and objects, so that any language gets the same hash.
 */
import { DEFAULT_WHEN_BUSY, type EffectClass, type WhenBusy } from "./run.ts";

/** The runtime of an agent that names none, and of snapshots of older releases. */
export const DEFAULT_RUNTIME = "langgraph";

/** Stands for a tool's server where the caller itself carries the tool out. No tool server can have this name. */
export const CLIENT_SERVER = "@client";

/** A tool as it was pinned when the run was admitted. */
export interface SnapshotTool {
  /** Name on the model's wire, `server__tool`, at most 64 characters of `[a-zA-Z0-9_-]`. */
  readonly name: string;
  readonly server: string;
  readonly tool: string;
  readonly title: string;
  readonly description: string;
  readonly effect: EffectClass;
  /** SHA-256 (hex) over the canonical definition as the server listed it. */
  readonly definitionHash: string;
  /** JSON Schema of the arguments as the server listed it. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** How long a client may take to carry it out. Only tools of `CLIENT_SERVER` have it. */
  readonly patienceMs?: number;
}

/** What a run was configured with: frozen at admission, hashed, and never changed. */
export interface Snapshot {
  readonly agentId: string;
  readonly agentName: string;
  readonly revision: number;
  readonly runtime: string;
  readonly instructions: string;
  /** `provider/model`. */
  readonly model: string;
  readonly maxOutputTokens: number;
  /** Sorted by name, so that the prefix of every turn is byte-identical. */
  readonly tools: readonly SnapshotTool[];
  /** Bounds of one run, as counted by the gates. */
  readonly limits: { readonly modelCallCount: number; readonly toolCallCount: number; readonly wallClockMs: number };
  /** What a message does to an active run where it does not say itself; absent at its default, `enqueue`. */
  readonly whenBusy?: WhenBusy;
}

/**
 * Text that is hashed: canonical JSON of the snapshot without the fields that stand at their default, so that a
 * field added later does not change the hash of an older snapshot.
 */
export function snapshotHashText(snapshot: Snapshot): string {
  const { runtime, whenBusy = DEFAULT_WHEN_BUSY, ...rest } = snapshot;
  return canonicalJson({
    ...rest,
    ...(runtime === DEFAULT_RUNTIME ? {} : { runtime }),
    ...(whenBusy === DEFAULT_WHEN_BUSY ? {} : { whenBusy }),
  });
}

/**
 * RFC 8785: one text for one value, whatever the order of its keys. Members that are `undefined` are left out. Throws a
 * `TypeError` for what JSON cannot say: `undefined` in an array, functions, numbers that are not finite, lone
 * surrogates, and objects that are more than their members, such as a date or a map.
 */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new TypeError("canonical JSON has no place for a number that is not finite");
    return JSON.stringify(value);
  }
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new TypeError("canonical JSON has no place for a lone surrogate");
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${value.map((each) => canonicalJson(each)).join(",")}]`;
  if (typeof value === "object") {
    if (!isPlain(value)) throw new TypeError(`canonical JSON has no place for a ${value.constructor.name}`);
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0))
      .map(([key, member]) => `${canonicalJson(key)}:${canonicalJson(member)}`);
    return `{${members.join(",")}}`;
  }
  throw new TypeError(`canonical JSON has no place for a ${typeof value}`);
}

/** Made by a literal, by JSON, or without a prototype: nothing of it is lost when its members are written. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}
