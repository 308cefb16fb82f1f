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
  /** Where a person types, or what was piped in. */
  readonly input: NodeJS.ReadStream;
  /** For what draws its own line, such as a prompt; everything else goes through `terminal`. */
  readonly output: NodeJS.WriteStream;
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

/** A flag that may be given several times; `undefined` when it was not given at all. */
export function textFlags(call: CommandCall, name: string): readonly string[] | undefined {
  const value = call.flags[name];
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : undefined;
}

/** For commands that take no words. */
export function refuseWords(call: CommandCall): void {
  const [word] = call.words;
  if (word !== undefined) throw new UsageError(`"${word}" means nothing here`);
}

/** Flags that mean nothing here are refused, not passed over. */
export function refuseFlags(call: CommandCall, names: readonly string[], belongTo: string): void {
  const given = names.filter((name) => call.flags[name] !== undefined);
  if (given.length > 0) throw new UsageError(`${given.map((name) => `--${name}`).join(", ")} is for \`${belongTo}\``);
}

/** Options of every command that talks to a running platform. */
export const CONNECTION_OPTIONS = {
  url: { type: "string" },
  "api-key": { type: "string" },
  user: { type: "string" },
  "data-dir": { type: "string" },
  json: { type: "boolean" },
} as const satisfies ParseArgsOptionsConfig;

/** Options of every command that lists something. */
export const LIST_OPTIONS = {
  limit: { type: "string" },
  cursor: { type: "string" },
} as const satisfies ParseArgsOptionsConfig;

export interface ListFlags {
  readonly limit?: number;
  readonly cursor?: string;
}

/** Which page of a list; the API says what is wrong with a cursor. */
export function listFlags(call: CommandCall): ListFlags {
  const limit = textFlag(call, "limit");
  const cursor = textFlag(call, "cursor");
  if (limit !== undefined && !/^[1-9][0-9]{0,2}$/.test(limit)) {
    throw new UsageError("--limit takes a number from 1 to 200");
  }
  return {
    ...(limit === undefined ? {} : { limit: Number(limit) }),
    ...(cursor === undefined ? {} : { cursor }),
  };
}
