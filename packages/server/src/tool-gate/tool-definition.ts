/** What a server says about a tool, the form of it that is pinned, and the name a model knows it by. */
import { canonicalJson, clip, wellFormedJson } from "@signalbox/contract";
import type { Digest } from "@signalbox/core";
import { isObject, type Json } from "./mcp-protocol.ts";

export interface ListedTool {
  readonly tool: string;
  readonly title: string;
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
const NAME_CHARS_MAX = 128;

/** The tool of an entry of a listing, or in words why it is none that can be used. */
export function readListedTool(entry: Json, digest: Digest): ListedTool | string {
  const { name, title, inputSchema, annotations } = entry;
  if (typeof name !== "string" || name.trim() === "") return "it has no name";
  if (name.length > NAME_CHARS_MAX) return `its name is longer than ${NAME_CHARS_MAX} characters`;
  if (!name.isWellFormed() || /\p{C}/u.test(name)) return "its name has characters that nobody can see";
  if (!isObject(inputSchema)) return "it has no schema of its arguments";
  const present = PINNED_MEMBERS.filter((member) => entry[member] !== undefined);
  const definition = wellFormedJson(Object.fromEntries(present.map((member) => [member, entry[member]])));
  let canonical: string;
  try {
    canonical = canonicalJson(definition);
  } catch {
    return "its definition cannot be read";
  }
  if (canonical.length > DEFINITION_CHARS_MAX) {
    return `its definition is longer than ${DEFINITION_CHARS_MAX} characters`;
  }
  const shown = [title, isObject(annotations) ? annotations.title : null, name].find(
    (each) => typeof each === "string",
  );
  return {
    tool: name,
    title: clip(String(shown), TITLE_CHARS_MAX),
    definition,
    definitionHash: digest.sha256Hex(canonical),
  };
}

/** With the prefix of the Claude CLI before it a name must still fit into the 64 characters that providers take. */
const WIRE_CHARS_MAX = 48;
const WIRE_NAME = /^[a-zA-Z0-9_-]{1,48}$/;
const MARK_CHARS = 8;
/** Such an end marks a name that was made here; no server can offer one that is taken for it. */
const MARKED = /_[0-9a-f]{8}$/;
const SERVER_CHARS_KEPT = 16;

/**
 * `server__tool` where every provider takes that, else a name of the same look that ends with a mark of both. Two tools
 * never share a name, and a tool has the same one for ever.
 */
export function wireName(server: string, tool: string, digest: Digest): string {
  const plain = `${server}__${tool}`;
  if (WIRE_NAME.test(plain) && !MARKED.test(plain)) return plain;
  const mark = digest.sha256Hex(`${server}\n${tool}`).slice(0, MARK_CHARS);
  const room = WIRE_CHARS_MAX - MARK_CHARS - "___".length;
  const said = tool.replaceAll(/[^a-zA-Z0-9_-]/gu, "_");
  const from = server.length + said.length <= room ? server : server.slice(0, SERVER_CHARS_KEPT);
  return `${from}__${said.slice(0, room - from.length)}_${mark}`;
}
