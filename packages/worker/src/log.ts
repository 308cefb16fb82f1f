import { inspect } from "node:util";

/** Structured log lines of a worker. Facts must not carry tokens or message text. Fits the platform's log port. */
export interface WorkerLog {
  info(message: string, facts?: Readonly<Record<string, unknown>>): void;
  warn(message: string, facts?: Readonly<Record<string, unknown>>): void;
  /** Logs an error once, with its chain of causes. */
  error(message: string, error: unknown, facts?: Readonly<Record<string, unknown>>): void;
}

const CAUSES_MAX = 8;

const RANK = { info: 0, warn: 1, error: 2, silent: 3 } as const;
/** The least that is written; `silent` writes nothing. */
export type WorkerLogLevel = keyof typeof RANK;

/** One JSON object a line, handed to `write`. */
export function lineLog(write: (line: string) => void, nowMs: () => number, least: WorkerLogLevel = "info"): WorkerLog {
  const line = (
    level: Exclude<WorkerLogLevel, "silent">,
    message: string,
    facts: Readonly<Record<string, unknown>>,
  ): void => {
    if (RANK[level] < RANK[least]) return;
    write(`${JSON.stringify({ at: new Date(nowMs()).toISOString(), level, message, ...facts })}\n`);
  };
  return {
    info: (message, facts = {}) => line("info", message, facts),
    warn: (message, facts = {}) => line("warn", message, facts),
    error: (message, error, facts = {}) => line("error", message, { ...facts, error: chainOf(error) }),
  };
}

/** What each error of the chain says, from the outermost to the first cause. */
function chainOf(error: unknown): readonly string[] {
  const chain: string[] = [];
  let next: unknown = error;
  while (next !== undefined && next !== null && chain.length < CAUSES_MAX) {
    chain.push(next instanceof Error ? (next.stack ?? `${next.name}: ${next.message}`) : inspect(next));
    next = next instanceof Error ? next.cause : undefined;
  }
  return chain;
}
