/** Every bound of `core` in one place. A queue, loop, retry, payload or wait without a line here is a mistake. */
import { INPUT_LIMITS } from "@signalbox/contract";
import { DAY_MS, HOUR_MS, KIB, MINUTE_MS, SECOND_MS } from "./units.ts";

export const LIMITS = {
  // What a message may bring.
  messageChars: 200_000,
  metadataCount: INPUT_LIMITS.metadataCount,
  metadataKeyChars: INPUT_LIMITS.metadataKeyChars,
  metadataValueChars: INPUT_LIMITS.metadataValueChars,
  idempotencyKeyChars: 255,
  /** Runs that may wait behind the active one of a conversation. */
  queueCount: 20,
  /** Messages that one conversation may be sent within a minute. */
  messagesPerMinuteCount: 600,
  /** Runs of one tenant that may be open at once: waiting in line or being answered. */
  tenantRunCount: 10_000,
  /** A search of conversations that takes longer is refused. */
  searchMs: 2 * SECOND_MS,
  /** Part of the previous user message that the turn form repeats. */
  snippetChars: 160,

  // What an agent may ask for, per run.
  instructionsChars: INPUT_LIMITS.instructionsChars,
  toolCount: INPUT_LIMITS.toolCount,
  modelCallCount: 200,
  toolCallCount: 500,
  maxOutputTokens: INPUT_LIMITS.maxOutputTokens,
  runWallClockMs: HOUR_MS,

  // The turn.
  /** Owners and workers one run may use up before it ends as `retries_exhausted`. */
  attemptCount: 5,
  /** How long a new owner waits for calls that the one before has open at a gate; each ends within its own time. */
  inheritedCallWaitMs: HOUR_MS,
  /** Steps that may end with `continue` in one turn. */
  continueCount: 16,
  /** Messages of the history that seed a rebuilt session. */
  historyCount: 200,
  /** How long a step may take to end after it was interrupted, before its session is terminated. */
  interruptWaitMs: 2 * SECOND_MS,
  /** How long a claimed run waits for a place on a worker before it is given back. */
  seatWaitMs: 10 * SECOND_MS,
  seatRetryMs: 100,
  seatRetryCapMs: 2 * SECOND_MS,
  /** Whole length of one text or thinking item. */
  itemChars: 2_000_000,

  // The emitter: parts of an item become rows about this often …
  flushEveryMs: 100,
  /** … and a worker waits while this much text is not durable. */
  unflushedChars: 256 * KIB,
  appendCount: 256,

  // Holds.
  /** How long a call is kept at its gate before its run is suspended. */
  holdPatienceMs: 20 * SECOND_MS,
  /** How often a kept call looks at its hold when no bell rings. */
  holdPollMs: 500,
  /** How often a suspension is tried again while a call of the run is outside. */
  suspendRetryMs: 200,
  decisionBytes: 64 * KIB,
  /** How long an approval may take, and be used after it was given, unless its tool says otherwise … */
  approvalExpiryMs: 7 * DAY_MS,
  /** … and at most. */
  approvalExpiryCapMs: 90 * DAY_MS,
  /** How long the person may take to answer what the model asks. */
  questionPatienceMs: 7 * DAY_MS,
  /** Time that may be set for calls of a tool: at least, and at most. */
  toolTimeoutMinMs: 100,
  toolTimeoutCapMs: HOUR_MS,
  /** How long the policy may take to judge the calls of a message. */
  judgeMs: 2 * SECOND_MS,

  // Finalization.
  /** How long a sealed run waits for calls that are still open at a gate. */
  openCallWaitMs: 5 * SECOND_MS,
  openCallPollMs: 50,
  openCallPollCapMs: 500,

  // What the record forgets.
  /** Events of runs that ended longer ago go, unless the platform is told otherwise. */
  eventRetentionMs: 90 * DAY_MS,
  idempotencyKeyMs: 7 * DAY_MS,
  /** A slot that was bound to nothing for this long. */
  unusedSlotMs: DAY_MS,
  /** One process of all looks this often … */
  upkeepEveryMs: MINUTE_MS,
  /** … and does this much in one transaction, this many times for each thing there is to forget. */
  upkeepRowCount: 500,
  upkeepBatchCount: 200,

  // What is owed to webhooks.
  webhookCount: 50,
  /** Attempts under way in one process, and to one webhook at once. */
  deliveryParallelCount: 32,
  deliveryEachCount: 8,
  /** How often what is due is looked for when no bell rings, and how often at most. */
  deliveryEveryMs: SECOND_MS,
  deliveryGapMs: 100,
  /** How long a receiver may take to answer … */
  deliveryTimeoutMs: 15 * SECOND_MS,
  /** … and when an attempt that was not noted is given up. */
  deliveryPatienceMs: MINUTE_MS,
  /** How much of an answer is kept. */
  deliveryResponseBytes: 1 * KIB,
  /** How long attempts that are under way may take when the process ends. */
  deliveryGraceMs: 2 * SECOND_MS,
  /** A webhook at which nothing arrived for this long is disabled when a delivery to it is given up. */
  webhookFailingMs: 2 * DAY_MS,
  /** How long deliveries that ended are kept. */
  deliveryKeptMs: 30 * DAY_MS,

  // The record does not answer.
  recordRetryMs: 50,
  recordRetryCapMs: 2 * SECOND_MS,
  recordRetryCount: 12,

  // The supervisor.
  /** A lease counts as lost this long before the record may judge it so. */
  leaseMarginMs: SECOND_MS,
  /** Heartbeats per lease. */
  heartbeatsPerLease: 5,
  sweepEveryMs: 500,
  claimEveryMs: SECOND_MS,
  cancelPollMs: 500,
  claimCount: 32,
  /** Runs and holds that one look ends or lets go on, and how often it looks before it leaves the rest to the sweep. */
  carryOutCount: 200,
  carryOutLooks: 50,
  drainMs: 20 * SECOND_MS,
  /** How long a halted drive may take to stop, before the supervisor goes on without it. */
  haltWaitMs: 5 * SECOND_MS,
  loopRetryMs: 200,
  loopRetryCapMs: 5 * SECOND_MS,
  /** No wait of a loop is longer, so that a lost bell is never the end. */
  loopWaitCapMs: MINUTE_MS,
} as const;

export type Limits = { readonly [Name in keyof typeof LIMITS]: number };
