/** A command of the binary: its words, its options, and what it does. Exit codes: 0 done, 1 failed, 2 usage. */
import type { ParseArgsOptionsConfig } from "node:util";
import type { Environment } from "../config/environment.ts";
import type { Terminal } from "./terminal.ts";

export const EXIT = { done: 0, failed: 1, usage: 2 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export type FlagValue = string | boolean | (string | boolean)[] | undefined;

export interface CommandCall {
  readonly flags: Readonly<Record<string, FlagValue>>;
  readonly words: readonly string[];
  readonly environment: Environment;
  readonly terminal: Terminal;
  /** Aborts on the first SIGINT or SIGTERM. */
  readonly interrupted: AbortSignal;
}

export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly usage: string;
  readonly options: ParseArgsOptionsConfig;
  readonly run: (call: CommandCall) => Promise<ExitCode>;
}

/** The call's words are off; answered with the usage and exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

export function textFlag(call: CommandCall, name: string): string | undefined {
  const value = call.flags[name];
  return typeof value === "string" ? value : undefined;
}

export function isSet(call: CommandCall, name: string): boolean {
  return call.flags[name] === true;
}

/** Options of every command that talks to a running platform. */
export const CONNECTION_OPTIONS = {
  url: { type: "string" },
  "api-key": { type: "string" },
  user: { type: "string" },
  "data-dir": { type: "string" },
  json: { type: "boolean" },
} as const satisfies ParseArgsOptionsConfig;
