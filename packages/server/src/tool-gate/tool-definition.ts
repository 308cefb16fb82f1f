/** What a server says about a tool, the form of it that is pinned, and the name a model knows it by. */
import { canonicalJson, clip, wellFormedJson } from "@signalbox/contract";
import type { Digest } from "@signalbox/core";
import { isObject, type Json } from "./mcp-protocol.ts";

export interface ListedTool {
  readonly tool: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: Json;
  readonly definition: Json;
  readonly definitionHash: string;
}

/** What a pin covers: everything a model or a person goes by. `_meta` and icons may change freely. */
const PINNED_MEMBERS: readonly string[] = [
  "name",
  "title",
  "description",
  "inputSchema",
  "outputSchema",
  "annotations",
];
const DEFINITION_CHARS_MAX = 64 * 1024;
const TITLE_CHARS_MAX = 200;
/** With the prefix of the Claude CLI before it a name must still fit into the 64 characters that providers take. */
const WIRE_NAME = /^[a-zA-Z0-9_-]{1,48}$/;

/** `null` for an entry of a listing that is no usable tool. */
export function readListedTool(entry: Json, digest: Digest): ListedTool | null {
  const { name, title, description, inputSchema, annotations } = entry;
  if (typeof name !== "string" || name === "" || !isObject(inputSchema)) return null;
  const present = PINNED_MEMBERS.filter((member) => entry[member] !== undefined);
  const definition = wellFormedJson(Object.fromEntries(present.map((member) => [member, entry[member]])));
  let canonical: string;
  try {
    canonical = canonicalJson(definition);
  } catch {
    return null;
  }
  if (canonical.length > DEFINITION_CHARS_MAX) return null;
  const shown = [title, isObject(annotations) ? annotations.title : null, name].find(
    (each) => typeof each === "string",
  );
  return {
    tool: name,
    title: clip(String(shown), TITLE_CHARS_MAX),
    description: typeof description === "string" ? wellFormedJson(description) : "",
    inputSchema: wellFormedJson(inputSchema),
    definition,
    definitionHash: digest.sha256Hex(canonical),
  };
}

/** `server__tool`, or `null` when that is no name every provider takes. */
export function wireName(server: string, tool: string): string | null {
  const name = `${server}__${tool}`;
  return WIRE_NAME.test(name) ? name : null;
}
