import type { Finding } from "../finding.ts";
import { isGenerated, isPackageSource, type Repository } from "../repository.ts";
import { plainSql } from "../sql-text.ts";

/**
 * One word for one thing. `tools/tidy/words.json` lists words our own names never use, and the few places that
 * may because the name is somebody else's. Only names the code declares are judged (and table and column names
 * in SQL, and file names): what it merely calls belongs to whoever named it.
 */
export interface Words {
  readonly never: readonly { readonly word: string; readonly say: string }[];
  readonly allowed: readonly Allowance[];
}

export interface Allowance {
  readonly word: string;
  /** A file, or a folder ending in a slash. */
  readonly where: string;
  readonly reason: string;
}

const RULE = "words";
const WORDS_FILE = "tools/tidy/words.json";

export function checkWords(repository: Repository): readonly Finding[] {
  const text = repository.files.get(WORDS_FILE);
  if (text === undefined) {
    return [{ file: WORDS_FILE, line: 0, rule: RULE, message: "is missing" }];
  }
  // The file is ours and its shape is what this module documents.
  const words = JSON.parse(text) as Words;
  const used = new Set<Allowance>();
  const findings: Finding[] = [];
  for (const found of namesIn(repository)) {
    const parts = wordParts(found.name);
    for (const { word, say } of words.never.filter((one) => includesWord(parts, wordParts(one.word)))) {
      const allowance = words.allowed.find((one) => one.word === word && isWithin(found.file, one.where));
      if (allowance === undefined) {
        const message = `"${found.name}" says "${word}"; say ${say}`;
        findings.push({ file: found.file, line: found.line, rule: RULE, message });
      } else {
        used.add(allowance);
      }
    }
  }
  for (const { word, where } of words.allowed.filter((one) => !used.has(one))) {
    findings.push({
      file: WORDS_FILE,
      line: 0,
      rule: RULE,
      message: `allows "${word}" in ${where}, where nothing says it`,
    });
  }
  return findings;
}

interface Found {
  readonly file: string;
  readonly line: number;
  readonly name: string;
}

function* namesIn(repository: Repository): Generator<Found> {
  for (const [file, text] of repository.files) {
    if (!file.startsWith("packages/") || isGenerated(file)) {
      continue;
    }
    const stem = file.split("/").at(-1)?.replace(/\..*$/, "") ?? "";
    yield { file, line: 0, name: stem };
    if (isPackageSource(file)) {
      yield* repository.source(file).declaredNames.map(({ name, line }) => ({ file, line, name }));
    } else if (file.endsWith(".sql")) {
      yield* sqlNames(text).map(({ name, line }) => ({ file, line, name }));
    }
  }
}

function sqlNames(text: string): readonly { readonly name: string; readonly line: number }[] {
  return plainSql(text)
    .replaceAll(/extract\s*\(\s*epoch/gi, "")
    .split("\n")
    .flatMap((line, at) => [...line.matchAll(/[a-z_][a-z0-9_]*/gi)].map(([name]) => ({ name, line: at + 1 })));
}

/** `threadIds`, `thread_ids` and `thread-ids` are all `thread`, `id`. */
export function wordParts(name: string): readonly string[] {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replaceAll(/([A-Z]+)([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((part) => part !== "")
    .map((part) => (part.length > 2 ? part.replace(/s$/, "") : part));
}

function includesWord(parts: readonly string[], word: readonly string[]): boolean {
  return parts.some((_, at) => word.every((part, offset) => parts[at + offset] === part));
}

function isWithin(file: string, where: string): boolean {
  return where.endsWith("/") ? file.startsWith(where) : file === where;
}
