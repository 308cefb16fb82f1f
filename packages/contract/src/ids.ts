/**
 * Branded ids. An id is `prefix_` + a UUIDv7 written as 32 lower-case hex digits, so ids of one kind sort by
 * creation time. Brands are put on only where data enters (HTTP, worker protocol, database rows).
 */
declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

export type ConversationId = Branded<"ConversationId">;
export type RunId = Branded<"RunId">;
export type MessageId = Branded<"MessageId">;
export type ItemId = Branded<"ItemId">;
export type AgentId = Branded<"AgentId">;
export type HoldId = Branded<"HoldId">;
/** A row of the tool ledger. Not the provider's tool-use id, which is only unique within a run. */
export type ToolCallId = Branded<"ToolCallId">;
export type ModelCallId = Branded<"ModelCallId">;
export type TurnId = Branded<"TurnId">;
export type RequestId = Branded<"RequestId">;
export type TenantId = Branded<"TenantId">;

export const ID_PREFIX = {
  conversation: "cnv",
  run: "run",
  message: "msg",
  item: "itm",
  agent: "agt",
  hold: "hld",
  toolCall: "tc",
  modelCall: "mc",
  turn: "trn",
  request: "req",
  apiKey: "key",
} as const;

export type IdKind = keyof typeof ID_PREFIX;

interface IdTypes {
  readonly conversation: ConversationId;
  readonly run: RunId;
  readonly message: MessageId;
  readonly item: ItemId;
  readonly agent: AgentId;
  readonly hold: HoldId;
  readonly toolCall: ToolCallId;
  readonly modelCall: ModelCallId;
  readonly turn: TurnId;
  readonly request: RequestId;
  readonly apiKey: string;
}

const HEX_32 = /^[0-9a-f]{32}$/;

/** Whether `text` has the form of an id of this kind. Says nothing about whether such a thing exists. */
export function isId<K extends IdKind>(kind: K, text: string): text is IdTypes[K] & string {
  const prefix = `${ID_PREFIX[kind]}_`;
  return text.startsWith(prefix) && HEX_32.test(text.slice(prefix.length));
}

/** Makes an id of a kind from 16 UUIDv7 bytes (see `uuidV7Bytes`). */
export function makeId<K extends IdKind>(kind: K, bytes: Uint8Array): IdTypes[K] {
  let hex = "";
  for (const byte of bytes) hex += byte.toString(16).padStart(2, "0");
  // The brand is a compile-time mark; this function is one of the places where ids are made.
  return `${ID_PREFIX[kind]}_${hex}` as IdTypes[K];
}

/** The id in `text`, or `null` when its form is wrong. */
export function parseId<K extends IdKind>(kind: K, text: string): IdTypes[K] | null {
  return isId(kind, text) ? text : null;
}

/** UUIDv7 (RFC 9562 §5.7): 48 bits of Unix milliseconds, then randomness. `random` is 10 bytes. */
export function uuidV7Bytes(atMs: number, random: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(16);
  let rest = Math.floor(atMs);
  for (let index = 5; index >= 0; index -= 1) {
    bytes[index] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  bytes.set(random.subarray(0, 10), 6);
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  return bytes;
}
