/**
 * Structured log lines on standard error: one JSON object a line, or plain text where a person reads. A line is one
 * line whatever is in it, and no secret is written, whatever it stands under.
 */
import type { Log } from "@signalbox/core";
import { PlatformError } from "@signalbox/contract";
import { redactFacts, redactText } from "./redaction.ts";

export type LogLevel = "info" | "warn" | "error" | "silent";

const RANK: Readonly<Record<LogLevel, number>> = { info: 0, warn: 1, error: 2, silent: 3 };
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
    const line = { at, level, message: redactText(message) };
    const safe = redactFacts(facts);
    options.write(
      options.format === "json"
        ? `${JSON.stringify({ ...line, ...safe, ...line })}\n`
        : `${at.slice(11, 23)} ${level.padEnd(5)} ${oneLine(line.message)}${renderFacts(safe)}\n`,
    );
  };
  return {
    info: (message, facts = {}) => put("info", message, facts),
    warn: (message, facts = {}) => put("warn", message, facts),
    error: (message, error, facts = {}) => put("error", message, { ...facts, ...describe(error) }),
  };
}

/** The chain of causes, outermost first (a message never repeats its cause), and where the innermost was thrown. */
function describe(error: unknown): Readonly<Record<string, unknown>> {
  const chain = chainOf(error);
  const thrown = chain.findLast((each) => each instanceof Error && !(each instanceof PlatformError));
  const stack = thrown instanceof Error ? thrown.stack : undefined;
  return { error: chain.map(sentenceOf), ...(stack === undefined ? {} : { stack }) };
}

function chainOf(error: unknown): readonly unknown[] {
  const chain: unknown[] = [];
  const pending: unknown[] = [error];
  while (pending.length > 0 && chain.length < CAUSE_LIMIT) {
    const each = pending.shift();
    if (each === undefined || each === null || chain.includes(each)) continue;
    chain.push(each);
    const several: readonly unknown[] = each instanceof AggregateError ? each.errors : [];
    if (each instanceof Error) pending.push(each.cause, ...several);
  }
  return chain;
}

function sentenceOf(each: unknown): string {
  if (each instanceof PlatformError) return `${each.code}: ${each.detail}`;
  return each instanceof Error ? `${each.name}: ${each.message}` : String(each);
}

function renderFacts(facts: Readonly<Record<string, unknown>>): string {
  return Object.entries(facts)
    .map(([key, value]) => ` ${oneLine(key)}=${typeof value === "string" ? oneLine(value) : JSON.stringify(value)}`)
    .join("");
}

/** Text that would end the line, or change what a terminal shows, is written as JSON. */
function oneLine(text: string): string {
  return /[\p{Cc}\u2028\u2029]/u.test(text) ? JSON.stringify(text) : text;
}
