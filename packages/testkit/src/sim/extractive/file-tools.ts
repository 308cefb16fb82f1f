/** Recognises the tools of a file server among the offered ones, whatever prefix a gateway put before their names. */
import type { OfferedTool } from "../conversation.ts";
import { type JsonObject, objectOf, stringsOf } from "../json.ts";

export type FileToolKind = "roots" | "list" | "tree" | "search" | "read";

/** In order of preference within a kind. */
const KINDS: Readonly<Record<FileToolKind, readonly string[]>> = {
  roots: ["list_allowed_directories"],
  list: ["list_directory", "list_dir", "list_files", "list_directory_with_sizes"],
  tree: ["directory_tree"],
  search: ["search_files", "find_files"],
  read: ["read_text_file", "read_file", "get_file_contents"],
};

export interface FileTools {
  readonly roots: OfferedTool | null;
  readonly list: OfferedTool | null;
  readonly tree: OfferedTool | null;
  readonly search: OfferedTool | null;
  readonly read: OfferedTool | null;
}

/** The part of a name behind the server's: `mcp__unit__docs__read_file` and `docs.read_file` are both `read_file`. */
export function baseName(name: string): string {
  return name.slice(prefixOf(name).length);
}

function prefixOf(name: string): string {
  const double = name.lastIndexOf("__");
  const other = Math.max(name.lastIndexOf("."), name.lastIndexOf("/"), name.lastIndexOf(":"));
  return name.slice(0, Math.max(double < 0 ? 0 : double + 2, other + 1));
}

export function kindOf(name: string): FileToolKind | null {
  const base = baseName(name);
  for (const kind of ["roots", "list", "tree", "search", "read"] as const) {
    if (KINDS[kind].includes(base)) {
      return kind;
    }
  }
  return null;
}

/** The tools of one server, the one that offers most of them. Null when no offered tool can read a file. */
export function fileTools(tools: readonly OfferedTool[]): FileTools | null {
  const servers = new Map<string, OfferedTool[]>();
  for (const tool of tools.filter((each) => kindOf(each.name) !== null)) {
    const server = prefixOf(tool.name);
    servers.set(server, [...(servers.get(server) ?? []), tool]);
  }
  let best: FileTools | null = null;
  let most = 0;
  for (const offered of servers.values()) {
    const found = ofServer(offered);
    if (found.read !== null && offered.length > most) {
      best = found;
      most = offered.length;
    }
  }
  return best;
}

function ofServer(offered: readonly OfferedTool[]): FileTools {
  const pick = (kind: FileToolKind) =>
    KINDS[kind]
      .map((base) => offered.find((tool) => baseName(tool.name) === base))
      .find((tool) => tool !== undefined) ?? null;
  return { roots: pick("roots"), list: pick("list"), tree: pick("tree"), search: pick("search"), read: pick("read") };
}

const PATH_NAMES = ["path", "file_path", "filePath", "filename", "file", "dir", "directory"] as const;
const PATTERN_NAMES = ["pattern", "query", "glob"] as const;

/** `{path}` under the name this tool gives it. */
export function pathInput(tool: OfferedTool, path: string): JsonObject {
  return { [argumentName(tool, PATH_NAMES)]: path };
}

export function searchInput(
  tool: OfferedTool,
  search: { readonly path: string; readonly pattern: string },
): JsonObject {
  return { ...pathInput(tool, search.path), [argumentName(tool, PATTERN_NAMES)]: search.pattern };
}

export function pathOf(input: JsonObject): string | null {
  const value = PATH_NAMES.map((name) => input[name]).find((each) => typeof each === "string");
  return typeof value === "string" ? value : null;
}

function argumentName(tool: OfferedTool, names: readonly string[]): string {
  const offered = Object.keys(objectOf(tool.inputSchema.properties));
  const known = names.find((name) => offered.includes(name));
  return known ?? stringsOf(tool.inputSchema.required)[0] ?? names[0] ?? "path";
}
