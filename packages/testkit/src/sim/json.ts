/** Reading JSON that somebody else wrote: every accessor says what it does with a value of the wrong kind. */
export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function objectsOf(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function stringsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];
}

export function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** The parsed value, or `undefined` (which JSON cannot say) when the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return value;
  } catch {
    return undefined;
  }
}

/** A JSON object out of a string of arguments; models send `""` for "no arguments". */
export function parseArguments(text: string): JsonObject {
  return objectOf(parseJson(text));
}
