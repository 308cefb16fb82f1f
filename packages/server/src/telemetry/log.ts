/**
 * Structured log lines on standard error: one JSON object a line, or plain text where a person reads. Values under
 * keys that name a secret are never written, whatever they hold.
 */
import type { Log } from "@signalbox/core";
import { PlatformError } from "@signalbox/contract";

export type LogLevel = "info" | "warn" | "error" | "silent";

const RANK: Readonly<Record<LogLevel, number>> = { info: 0, warn: 1, error: 2, silent: 3 };
const SECRET_KEY = /token|secret|password|api_?key|authorization|credential/i;
const CAUSE_LIMIT = 8;

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: "json" | "text";
  readonly write: (line: string) => void;
  readonly nowMs: () => number;
}

export function createLog(options: LogOptions): Log {
  const put = (level: Exclude<LogLevel, "silent">, message: string, facts: Readonly<Record<string, unknown>>): void => {
    if (RANK[level] < RANK[options.level]) return;
    const at = new Date(options.nowMs()).toISOString();
    const safe = redact(facts);
    options.write(
      options.format === "json"
        ? `${JSON.stringify({ at, level, message, ...safe })}\n`
        : `${at.slice(11, 23)} ${level.padEnd(5)} ${message}${renderFacts(safe)}\n`,
    );
  };
  return {
    info: (message, facts = {}) => put("info", message, facts),
    warn: (message, facts = {}) => put("warn", message, facts),
    error: (message, error, facts = {}) => put("error", message, { ...facts, ...describe(error) }),
  };
}

/** The chain of causes, outermost first; a message never repeats its cause. */
function describe(error: unknown): Readonly<Record<string, unknown>> {
  const chain: string[] = [];
  let each: unknown = error;
  while (each !== undefined && each !== null && chain.length < CAUSE_LIMIT) {
    if (each instanceof PlatformError) chain.push(`${each.code}: ${each.detail}`);
    else if (each instanceof Error) chain.push(`${each.name}: ${each.message}`);
    else chain.push(String(each));
    each = each instanceof Error ? each.cause : undefined;
  }
  const stack = error instanceof Error && !(error instanceof PlatformError) ? error.stack : undefined;
  return stack === undefined ? { error: chain } : { error: chain, stack };
}

function redact(facts: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const safe: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(facts)) safe[key] = SECRET_KEY.test(key) ? "[redacted]" : value;
  return safe;
}

function renderFacts(facts: Readonly<Record<string, unknown>>): string {
  return Object.entries(facts)
    .map(([key, value]) => ` ${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join("");
}
