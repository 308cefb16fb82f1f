/** Every bound of a worker. Bytes are UTF-8 bytes, times are milliseconds on the monotonic clock. */
/**
 * One message of the worker protocol, either way, and one call of the record gate. Larger bodies travel through the
 * record gate, in as many calls as they need; a single text beyond it ends its step with `payload_too_large`.
 */
export declare const MESSAGE_BYTES_MAX: number;
/** Left of a message for everything that is not its one large text or body. */
export declare const MESSAGE_OVERHEAD_BYTES: number;
/** Events a slow reader may be behind before the engine is made to wait. */
export declare const EVENTS_WAITING_MAX = 256;
/** Text a slow reader may be behind, in UTF-16 units, before the engine is made to wait. */
export declare const TEXT_WAITING_MAX: number;
/** How long an interrupted step may take to end by itself. */
export declare const INTERRUPT_BOUND_MS = 2000;
/** How long an engine may take to put itself away before it is given up and logged. */
export declare const DISPOSE_BOUND_MS = 5000;
/** How long running steps may go on after a drain began, before they are interrupted. */
export declare const DRAIN_BOUND_MS = 5000;
/** A session without a step for this long is parked: the record has everything it needs to be opened again. */
export declare const SESSION_IDLE_MAX_MS: number;
/** A session this old is parked at its next pause, so that no engine's memory grows for ever. */
export declare const SESSION_AGE_MAX_MS: number;
/** How often idle and old sessions are looked for. */
export declare const REAP_EVERY_MS = 15000;
/** Conversations whose highest generation is remembered after their session ended. */
export declare const GENERATIONS_KEPT_MAX = 10000;
/** Used until the platform has said how long its lease is. */
export declare const LEASE_DEFAULT_MS = 10000;
/** Without a call from a supervisor for this long a worker announces itself again. */
export declare const SILENCE_BEFORE_REGISTER_MS = 3000;
export declare const REGISTER_BACKOFF_MIN_MS = 100;
export declare const REGISTER_BACKOFF_MAX_MS = 5000;
export declare const REGISTER_TIMEOUT_MS = 5000;
/** One call of the record gate, and how often a call that may be repeated is. */
export declare const RECORD_TIMEOUT_MS = 30000;
export declare const RECORD_TRIES_MAX = 4;
export declare const RECORD_BACKOFF_MIN_MS = 50;
export declare const RECORD_BACKOFF_MAX_MS = 1000;
/** Steps a worker runs at once unless told otherwise. */
export declare const ROOM_DEFAULT = 64;
