/** Every wait and every size of this package, in one place. */
export const LIMITS = {
  /** From starting the engine process to its answer to the first handshake. */
  startMs: 60_000,
  /** Beyond the five seconds the engine itself waits for its tool server while it starts. */
  toolConnectMs: 1_000,
  toolConnectPollMs: 50,
  /** An interrupt that arrives before the engine has read the message is lost, so it is repeated. */
  interruptRepeatMs: 200,
  /** After this an interrupted turn that has not ended is killed with its process. */
  interruptMs: 1_600,
  /** How long an interrupted turn may delay the end of its session. */
  leaveTurnMs: 2_000,
  /** How long a process may take to leave by itself once its input is closed. */
  closeMs: 1_500,
  /** How long the operating system may need to report a killed process. */
  killMs: 1_000,
  /** How long rows in flight may still become durable after an engine was killed. */
  settleMs: 300,
  /** Attempts of the engine for one model call; falling back between providers is the gate's work. */
  modelRetryCount: 2,
  /** What Anthropic's models read at least; the engine summarizes what was said before it comes to that. */
  windowTokens: 200_000,
  /** The same for other models, whose windows differ: that of many. */
  plainWindowTokens: 128_000,
  hookSeconds: 30,
  detailLength: 300,
  /** Of an engine's error output, the last part is kept for the report of its death. */
  complaintLength: 2_000,
  /** Calls that are made again while a session opens; the platform gives up on an opening after a minute. */
  lostCallsMs: 45_000,
} as const;
