/** What one process of a platform does. Roles are mixed freely; each starts only what it needs. */
import { ConfigurationError } from "./environment.ts";

/**
 * `api` answers clients and admits; `gates` stands on every way out of an engine; `supervisor` claims runs and dials
 * workers; `worker` runs engines in processes of their own.
 */
export const PROCESS_ROLES = ["api", "gates", "supervisor", "worker"] as const;
export type ProcessRole = (typeof PROCESS_ROLES)[number];

export const DEFAULT_ROLES: readonly ProcessRole[] = ["api", "gates", "supervisor"];

export function rolesOf(text: string | null): readonly ProcessRole[] {
  if (text === null) return DEFAULT_ROLES;
  const named = text.split(",").map((name) => name.trim());
  for (const name of named) {
    if (!PROCESS_ROLES.some((role) => role === name)) {
      const known = PROCESS_ROLES.join(", ");
      throw new ConfigurationError(`There is no role "${name}". A process takes any of ${known}, with commas between.`);
    }
  }
  return PROCESS_ROLES.filter((role) => named.includes(role));
}

export interface Surroundings {
  readonly roles: readonly ProcessRole[];
  readonly gatesUrl: string | null;
  readonly platformUrl: string | null;
  readonly joinToken: string | null;
}

/** A mix that lacks the address of what runs elsewhere is refused before anything starts. */
export function demandNeighbours({ roles, gatesUrl, platformUrl, joinToken }: Surroundings): void {
  const has = (role: ProcessRole): boolean => roles.includes(role);
  if (has("supervisor") && !has("gates") && gatesUrl === null) {
    throw new ConfigurationError(
      "A supervisor without gates must tell its workers where the gates are: set SIGNALBOX_GATES_URL, such as http://gates:4621.",
    );
  }
  if (has("worker") && !has("supervisor") && platformUrl === null) {
    throw new ConfigurationError(
      "Workers without a supervisor in their process must know one: set SIGNALBOX_PLATFORM_URL to a supervisor's listener, such as http://supervisor:4621.",
    );
  }
  if (has("worker") && !has("supervisor") && joinToken === null) {
    throw new ConfigurationError(
      "Workers of another process's supervisor need its join token: set SIGNALBOX_JOIN_TOKEN, the same on both.",
    );
  }
}
