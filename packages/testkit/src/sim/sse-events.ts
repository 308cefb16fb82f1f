/** Reads recorded event streams: whole texts, not live ones. */
import { isObject, type JsonObject, parseJson } from "./json.ts";

/** The JSON objects in the data lines of a stream, in order; anything else, such as `[DONE]` or half a line, is left out. */
export function dataObjects(text: string): readonly JsonObject[] {
  return text
    .split(/\r\n|\n|\r/)
    .filter((line) => line.startsWith("data:"))
    .map((line) => parseJson(line.slice("data:".length)))
    .filter(isObject);
}
