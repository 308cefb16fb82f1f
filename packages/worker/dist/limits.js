/** Every bound of a worker. Bytes are UTF-8 bytes, times are milliseconds on the monotonic clock. */
/**
 * One message of the worker protocol, either way, and one call of the record gate. Larger bodies travel through the
 * record gate, in as many calls as they need; a single text beyond it ends its step with `payload_too_large`.
 */
export const MESSAGE_BYTES_MAX = 4 * 1024 * 1024;
/** Left of a message for everything that is not its one large text or body. */
export const MESSAGE_OVERHEAD_BYTES = 16 * 1024;
/** Events a slow reader may be behind before the engine is made to wait. */
export const EVENTS_WAITING_MAX = 256;
/** Text a slow reader may be behind, in UTF-16 units, before the engine is made to wait. */
export const TEXT_WAITING_MAX = 256 * 1024;
/** How long an interrupted step may take to end by itself. */
export const INTERRUPT_BOUND_MS = 2_000;
/** How long an engine may take to put itself away before it is given up and logged. */
export const DISPOSE_BOUND_MS = 5_000;
/** How long running steps may go on after a drain began, before they are interrupted. */
export const DRAIN_BOUND_MS = 5_000;
/** A session without a step for this long is parked: the record has everything it needs to be opened again. */
export const SESSION_IDLE_MAX_MS = 10 * 60_000;
/** A session this old is parked at its next pause, so that no engine's memory grows for ever. */
export const SESSION_AGE_MAX_MS = 12 * 60 * 60_000;
/** How often idle and old sessions are looked for. */
export const REAP_EVERY_MS = 15_000;
/** Conversations whose highest generation is remembered after their session ended. */
export const GENERATIONS_KEPT_MAX = 10_000;
/** Used until the platform has said how long its lease is. */
export const LEASE_DEFAULT_MS = 10_000;
/** Without a call from a supervisor for this long a worker announces itself again. */
export const SILENCE_BEFORE_REGISTER_MS = 3_000;
export const REGISTER_BACKOFF_MIN_MS = 100;
export const REGISTER_BACKOFF_MAX_MS = 5_000;
export const REGISTER_TIMEOUT_MS = 5_000;
/** One call of the record gate, and how often a call that may be repeated is. */
export const RECORD_TIMEOUT_MS = 30_000;
export const RECORD_TRIES_MAX = 4;
export const RECORD_BACKOFF_MIN_MS = 50;
export const RECORD_BACKOFF_MAX_MS = 1_000;
/** Steps a worker runs at once unless told otherwise. */
export const ROOM_DEFAULT = 64;
//# sourceMappingURL=limits.js.map