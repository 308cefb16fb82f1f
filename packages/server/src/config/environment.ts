/** The process environment, read once. Every secret may also come from the file that `NAME_FILE` names. */
import { readFileSync } from "node:fs";

/** What the operator has to change before anything can start; a sentence that says so. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** The value of `name`, or of the file in `name_FILE`; an empty value counts as absent, an empty file does not. */
export function secretOf(environment: Environment, name: string): string | null {
  const value = textOf(environment, name);
  const path = textOf(environment, `${name}_FILE`);
  if (path === null) return value;
  if (value !== null) throw new ConfigurationError(`Both ${name} and ${name}_FILE are set; leave one of them out.`);
  let content: string;
  try {
    content = readFileSync(path, "utf8").trim();
  } catch (cause) {
    throw new ConfigurationError(`${name}_FILE names ${path}, which cannot be read.`, { cause });
  }
  if (content === "") throw new ConfigurationError(`${name}_FILE names ${path}, which is empty.`);
  return content;
}

/** The value without space around it; `null` when there is none. */
export function textOf(environment: Environment, name: string): string | null {
  const value = environment[name];
  return value === undefined || value.trim() === "" ? null : value.trim();
}

const PORT_MAX = 65_535;

export function portOf(text: string, name: string): number {
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(port <= PORT_MAX)) {
    throw new ConfigurationError(`${name} must be a port number from 0 to ${PORT_MAX}, not "${text}".`);
  }
  return port;
}

const COUNT_MAX = 1_000_000;

/** A limit that may be set, from 1 up. */
export function countOf(environment: Environment, name: string, fallback: number): number {
  const text = textOf(environment, name);
  const count = text === null ? fallback : /^[0-9]{1,7}$/.test(text) ? Number(text) : Number.NaN;
  if (!(count >= 1 && count <= COUNT_MAX)) {
    throw new ConfigurationError(`${name} must be a whole number from 1 to ${COUNT_MAX}, not "${text ?? ""}".`);
  }
  return count;
}
