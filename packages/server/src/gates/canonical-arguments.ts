import { canonicalJson, wellFormedJson } from "@signalbox/contract";

/**
 * Canonical JSON of well-formed arguments, or `null` when they are no JSON object that can be written down. Model gate
 * and tool gate both take it from here, so that a call that is executed can be matched with the one proposed.
 */
export function canonicalArguments(value: unknown): string | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  try {
    return canonicalJson(wellFormedJson(value));
  } catch {
    // Nested deeper than the stack, or a number that is not finite.
    return null;
  }
}
