/** The process environment, read once. Every secret may also come from the file that `NAME_FILE` names. */
import { readFileSync } from "node:fs";

export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError";
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** The value of `name`, or of the file in `name_FILE`; an empty value counts as absent. */
export function secretOf(environment: Environment, name: string): string | null {
  const value = textOf(environment, name);
  if (value !== null) return value;
  const path = textOf(environment, `${name}_FILE`);
  if (path === null) return null;
  try {
    const content = readFileSync(path, "utf8").trim();
    return content === "" ? null : content;
  } catch (cause) {
    throw new ConfigurationError(`${name}_FILE names ${path}, which cannot be read.`, { cause });
  }
}

export function textOf(environment: Environment, name: string): string | null {
  const value = environment[name];
  return value === undefined || value.trim() === "" ? null : value.trim();
}

export function portOf(text: string, name: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new ConfigurationError(`${name} must be a port number from 0 to 65535, not "${text}".`);
  }
  return port;
}
