/** Reads what listing and searching tools answer into paths. */
import { isObject, type JsonObject, objectsOf, parseJson, stringOf } from "../json.ts";

export interface Listing {
  readonly files: readonly string[];
  readonly directories: readonly string[];
}

/** A server of any size may answer; more names than these are not looked at. */
const MOST_NAMES = 5_000;

/** Some hosts hand on the structured form of a result, `{"content": "…"}` or blocks of text, instead of the text. */
export function plainResult(text: string): string {
  const trimmed = text.trimStart();
  if (!trimmed.startsWith("{") && !trimmed.startsWith("[{")) {
    return text;
  }
  const value = parseJson(text);
  const content = isObject(value) ? value.content : value;
  if (typeof content === "string") {
    return content;
  }
  const texts = objectsOf(content)
    .map((block) => stringOf(block.text))
    .filter((each) => each !== "");
  return texts.length === 0 ? text : texts.join("\n");
}

/** `Allowed directories:` and one path a line. */
export function readRoots(text: string): readonly string[] {
  return lines(text).filter((line) => line !== "" && !line.endsWith(":") && /[/\\.]/.test(line));
}

/** Lines of `[FILE] name` and `[DIR] name`; sizes behind a name are dropped. Bare lines count as files. */
export function readListing(text: string, path: string): Listing {
  const files: string[] = [];
  const directories: string[] = [];
  for (const line of lines(text)) {
    const marked = /^\[(FILE|DIR)\]\s+(.+?)(?:\s{2,}\S.*)?$/.exec(line);
    const name = marked?.[2] ?? line;
    if (marked?.[1] === "DIR" || (marked === null && name.endsWith("/"))) {
      directories.push(joinPath(path, name.replace(/\/$/, "")));
    } else if (marked !== null || (/^[^\s:][^:]*\.\w{1,8}$/.test(name) && name.length < 255)) {
      files.push(joinPath(path, name));
    }
  }
  return { files, directories };
}

/** JSON of `{name, type, children}`. */
export function readTree(text: string, path: string): Listing {
  const files: string[] = [];
  const walk = (nodes: readonly JsonObject[], at: string) => {
    for (const node of nodes) {
      const name = joinPath(at, stringOf(node.name));
      if (Array.isArray(node.children)) {
        walk(objectsOf(node.children), name);
      } else if (files.length < MOST_NAMES) {
        files.push(name);
      }
    }
  };
  walk(objectsOf(parseJson(text)), path);
  return { files, directories: [] };
}

/** One path a line, or a sentence that nothing was found. */
export function readMatches(text: string): Listing {
  const found = lines(text).filter((line) => /\.\w{1,8}$/.test(line) && !/\s{2,}|^No matches/i.test(line));
  return { files: found, directories: [] };
}

function joinPath(base: string, name: string): string {
  if (base === "" || base === "." || name.startsWith("/")) {
    return name;
  }
  return `${base.replace(/\/$/, "")}/${name}`;
}

function lines(text: string): readonly string[] {
  return text.split(/\r?\n/, MOST_NAMES).map((line) => line.trim());
}
