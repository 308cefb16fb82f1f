/**
 * Branded ids. An id is `prefix_` + a UUIDv7 written as 32 lower-case hex digits, so ids of one kind sort by
 * creation time. Brands are put on only where data enters (HTTP, worker protocol, database rows).
 */
declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** Names a conversation: `cnv_…`. */
export type ConversationId = Branded<"ConversationId">;
/** Names a run: `run_…`. */
export type RunId = Branded<"RunId">;
/** Names a message of the history: `msg_…`. */
export type MessageId = Branded<"MessageId">;
/** Names what events speak about, such as one text of an answer: `itm_…`. */
export type ItemId = Branded<"ItemId">;
/** Names an agent over all its revisions: `agt_…`. */
export type AgentId = Branded<"AgentId">;
/** Names a hold; an approval has its hold's id: `hld_…`. */
export type HoldId = Branded<"HoldId">;
/** Names a pause or a stop of an operator: `stp_…`. */
export type StopId = Branded<"StopId">;
/** Names a policy of the tool gate: `pol_…`. */
export type PolicyId = Branded<"PolicyId">;
/** Names a row of the tool ledger: `tc_…`. Not the provider's tool-use id, which is only unique within a run. */
export type ToolCallId = Branded<"ToolCallId">;
/** Names a row of the ledger of calls that clients of the gateway make without a run: `gtc_…`. */
export type GatewayCallId = Branded<"GatewayCallId">;
/** Names one call at the model gate: `mc_…`. */
export type ModelCallId = Branded<"ModelCallId">;
/** Names one attempt to perform a turn: `trn_…`. */
export type TurnId = Branded<"TurnId">;
/** Names one HTTP request, in its response and in the log: `req_…`. */
export type RequestId = Branded<"RequestId">;
/** Names a tenant. Given by the operator, so it has no prefix. */
export type TenantId = Branded<"TenantId">;

/** What stands before the underscore, by kind of thing. */
export const ID_PREFIX = {
  conversation: "cnv",
  run: "run",
  message: "msg",
  item: "itm",
  agent: "agt",
  hold: "hld",
  stop: "stp",
  policy: "pol",
  toolCall: "tc",
  gatewayCall: "gtc",
  modelCall: "mc",
  turn: "trn",
  request: "req",
  apiKey: "key",
  webhook: "whk",
  delivery: "dlv",
} as const;

/** Kinds of things that have an id of ours. */
export type IdKind = keyof typeof ID_PREFIX;

interface IdTypes {
  readonly conversation: ConversationId;
  readonly run: RunId;
  readonly message: MessageId;
  readonly item: ItemId;
  readonly agent: AgentId;
  readonly hold: HoldId;
  readonly stop: StopId;
  readonly policy: PolicyId;
  readonly toolCall: ToolCallId;
  readonly gatewayCall: GatewayCallId;
  readonly modelCall: ModelCallId;
  readonly turn: TurnId;
  readonly request: RequestId;
  readonly apiKey: string;
  readonly webhook: string;
  readonly delivery: string;
}

const HEX_32 = /^[0-9a-f]{32}$/;
const UUID_BYTES = 16;
const RANDOM_BYTES = 10;
const LATEST_MS = 2 ** 48 - 1;

/** Whether `text` has the form of an id of this kind. Says nothing about whether such a thing exists. */
export function isId<K extends IdKind>(kind: K, text: string): text is IdTypes[K] & string {
  const prefix = `${ID_PREFIX[kind]}_`;
  return text.startsWith(prefix) && HEX_32.test(text.slice(prefix.length));
}

/** Makes an id of a kind from 16 UUIDv7 bytes (see `uuidV7Bytes`). Throws a `RangeError` for any other number of bytes. */
export function makeId<K extends IdKind>(kind: K, bytes: Uint8Array): IdTypes[K] {
  if (bytes.length !== UUID_BYTES) throw new RangeError(`an id is made of ${UUID_BYTES} bytes, not ${bytes.length}`);
  let hex = "";
  for (const byte of bytes) hex += byte.toString(16).padStart(2, "0");
  // The brand is a compile-time mark; this function is one of the places where ids are made.
  return `${ID_PREFIX[kind]}_${hex}` as IdTypes[K];
}

/** The id in `text`, or `null` when its form is wrong. */
export function parseId<K extends IdKind>(kind: K, text: string): IdTypes[K] | null {
  return isId(kind, text) ? text : null;
}

/**
 * UUIDv7 (RFC 9562 §5.7): 48 bits of Unix milliseconds, then randomness. `random` is at least 10 bytes. Throws a
 * `RangeError` for less randomness, which would make ids that can be guessed, and for a time that does not fit.
 */
export function uuidV7Bytes(atMs: number, random: Uint8Array): Uint8Array {
  if (random.length < RANDOM_BYTES) throw new RangeError(`an id needs ${RANDOM_BYTES} random bytes`);
  if (!(atMs >= 0 && atMs <= LATEST_MS)) throw new RangeError("an id needs a time that fits into 48 bits");
  const bytes = new Uint8Array(UUID_BYTES);
  let rest = Math.floor(atMs);
  for (let index = 5; index >= 0; index -= 1) {
    bytes[index] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  bytes.set(random.subarray(0, RANDOM_BYTES), 6);
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  return bytes;
}
