import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseSource, type Source } from "./source.ts";

/** The text files of the repository by their path from its root, always with forward slashes. */
export interface Repository {
  readonly files: ReadonlyMap<string, string>;
  /** The parsed form of a TypeScript or JavaScript file; parsed once. */
  source(path: string): Source;
}

const SKIPPED_FOLDERS: ReadonlySet<string> = new Set([".git", ".signalbox", "coverage", "dist", "node_modules"]);
const TEXT = /\.(ts|mts|js|mjs|json|jsonc|md|sql|proto|yaml|yml|txt|html|css)$|(^|\/)(LICENSE|run)$/;
const CODE = /\.(ts|mts|mjs|js)$/;
const TEST = /\.test\.ts$/;

export function readRepository(root: string): Repository {
  const files = new Map<string, string>();
  const pending: string[] = [""];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory() && !SKIPPED_FOLDERS.has(entry.name)) {
        pending.push(path);
      } else if (entry.isFile() && TEXT.test(path)) {
        files.set(path, readFileSync(join(root, path), "utf8"));
      }
    }
  }
  return repositoryOf(files);
}

export function repositoryOf(files: ReadonlyMap<string, string>): Repository {
  const parsed = new Map<string, Source>();
  return {
    files,
    source(path) {
      const known = parsed.get(path);
      if (known !== undefined) {
        return known;
      }
      const source = parseSource(path, files.get(path) ?? "");
      parsed.set(path, source);
      return source;
    },
  };
}

export function isCode(path: string): boolean {
  return CODE.test(path);
}

export function isTest(path: string): boolean {
  return TEST.test(path);
}

/** Generated files are committed but nobody writes them: style rules do not apply. */
export function isGenerated(path: string): boolean {
  return /(^|\/)gen\//.test(path) || path.startsWith("docs/reference/") || path === "package-lock.json";
}

/** Files people write that ship in a package: not tests, not generated. */
export function isPackageSource(path: string): boolean {
  return /^packages\/[^/]+\/src\//.test(path) && isCode(path) && !isTest(path) && !isGenerated(path);
}
