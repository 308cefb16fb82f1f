/**
 * Which tool to call next, if any: find out where one may look, list or search, read what the names promise most for,
 * and stop as soon as what was read covers the question or the rounds are used up.
 */
import type { OfferedTool } from "../conversation.ts";
import type { JsonObject } from "../json.ts";
import { type FileTools, pathInput, searchInput } from "./file-tools.ts";
import { callKey, type Findings } from "./findings.ts";
import type { Source } from "./message.ts";
import { overlap, subjectWords, wordsOf } from "./words.ts";

export interface NextCall {
  readonly tool: string;
  readonly input: JsonObject;
}

export interface LookupState {
  readonly tools: FileTools;
  readonly findings: Findings;
  /** What the question is about. */
  readonly wanted: readonly string[];
  /** How much of the question is answered by what is known, 0 to 1. */
  readonly coverage: number;
  /** Paths the message or the instructions name: a file to read, a folder to look in when no tool says where. */
  readonly named: { readonly file: string | null; readonly folder: string | null };
  readonly mostCalls: number;
}

export const ENOUGH_COVERAGE = 0.6;
const MOST_READS = 3;
const MOST_LISTS = 3;
const MOST_FAILURES = 2;
const READABLE = /\.(?:md|mdx|txt|rst|adoc|json|ya?ml|toml|csv|html?|ts|js|mjs|py|sql|proto|log)$|\/[^./]+$|^[^./]+$/i;

export function nextLookup(state: LookupState): NextCall | null {
  const { findings, coverage, mostCalls } = state;
  const isDone =
    coverage >= ENOUGH_COVERAGE || findings.attempts.size >= mostCalls || findings.failures.length >= MOST_FAILURES;
  if (isDone) {
    return null;
  }
  for (const choose of [
    readNamed,
    askRoots,
    readPromising,
    listRoot,
    search,
    readOverview,
    listDirectory,
    readAnything,
  ]) {
    const call = choose(state);
    if (call !== null) {
      return call;
    }
  }
  return null;
}

function attempt(state: LookupState, tool: OfferedTool | null, input: JsonObject): NextCall | null {
  if (tool === null) {
    return null;
  }
  const call = { tool: tool.name, input };
  return state.findings.attempts.has(callKey({ name: tool.name, input })) ? null : call;
}

function askRoots(state: LookupState): NextCall | null {
  return state.findings.roots.length > 0 ? null : attempt(state, state.tools.roots, {});
}

function rootsOf({ findings, named }: LookupState): readonly string[] {
  return findings.roots.length > 0 ? findings.roots : [named.folder ?? "."];
}

function readNamed(state: LookupState): NextCall | null {
  const { file } = state.named;
  return file === null || state.findings.readPaths.has(file) ? null : read(state, file);
}

function listRoot(state: LookupState): NextCall | null {
  const lister = state.tools.list ?? state.tools.tree;
  const root = rootsOf(state).find((each) => !state.findings.listed.has(each));
  return lister === null || root === undefined ? null : attempt(state, lister, pathInput(lister, root));
}

/** One search below the first root, for any of the words the question is about, when there is something not listed yet. */
function search(state: LookupState): NextCall | null {
  const { findings } = state;
  const isListed = findings.listed.size > 0 && findings.directories.every((path) => findings.listed.has(path));
  const tool = isListed ? null : state.tools.search;
  const root = rootsOf(state)[0];
  const words = state.wanted.filter((word) => /^[\p{L}\p{N}]{3,}$/u.test(word)).slice(0, 6);
  if (tool === null || root === undefined || words.length === 0) {
    return null;
  }
  const pattern = words.length === 1 ? `**/*${words[0] ?? ""}*` : `**/*{${words.join(",")}}*`;
  return attempt(state, tool, searchInput(tool, { path: root, pattern }));
}

/** The unlisted folder whose name says most, else the first one; a few of them, not a whole tree. */
function listDirectory(state: LookupState): NextCall | null {
  const lister = state.tools.list ?? state.tools.tree;
  const unlisted = state.findings.directories.filter(
    (path) => !state.findings.listed.has(path) && !/(?:^|\/)(?:\.|node_modules|dist)/.test(path),
  );
  const best = ranked(unlisted, state)[0];
  if (lister === null || best === undefined || attemptsOf(state, lister) >= MOST_LISTS) {
    return null;
  }
  return attempt(state, lister, pathInput(lister, best.path));
}

function readPromising(state: LookupState): NextCall | null {
  const best = ranked(unreadFiles(state), state)[0];
  return best === undefined || best.score === 0 ? null : read(state, best.path);
}

/** Nothing promises anything: an overview may say where to look. */
function readOverview(state: LookupState): NextCall | null {
  const path = unreadFiles(state).find((file) => /(?:^|\/)(?:readme|index|overview)\.\w+$/i.test(file));
  return path === undefined ? null : read(state, path);
}

/** In order, but never a whole folder. */
function readAnything(state: LookupState): NextCall | null {
  const path = unreadFiles(state)[0];
  return path === undefined ? null : read(state, path);
}

function read(state: LookupState, path: string): NextCall | null {
  const reader = state.tools.read;
  return reader === null || attemptsOf(state, reader) >= MOST_READS
    ? null
    : attempt(state, reader, pathInput(reader, path));
}

function attemptsOf({ findings }: LookupState, tool: OfferedTool): number {
  return [...findings.attempts].filter((key) => key.startsWith(`${tool.name} `)).length;
}

function unreadFiles({ findings, tools }: LookupState): readonly string[] {
  const { read: reader } = tools;
  return findings.files
    .filter((file) => READABLE.test(file) && !findings.readPaths.has(file))
    .filter(
      (file) =>
        reader === null || !findings.attempts.has(callKey({ name: reader.name, input: pathInput(reader, file) })),
    )
    .toSorted();
}

interface Ranked {
  readonly path: string;
  readonly score: number;
}

/** By the words of the name and of lines that mention it, most first; a name with fewer other words wins a tie. */
function ranked(paths: readonly string[], { wanted, findings }: LookupState): readonly Ranked[] {
  return paths
    .map((path) => {
      const name = path.split("/").at(-1) ?? path;
      const words = new Set(wordsOf(name.replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll("_", " ")));
      const named = overlap(wanted, words);
      const mentioned = overlap(wanted, new Set(mentions(name, findings.sources)));
      return { path, score: 2 * named + mentioned, extra: words.size - named };
    })
    .toSorted((one, other) => other.score - one.score || one.extra - other.extra || (one.path < other.path ? -1 : 1));
}

const MOST_MENTIONING = 50_000;

function mentions(name: string, sources: readonly Source[]): readonly string[] {
  return sources.flatMap(({ text }) =>
    text.length > MOST_MENTIONING
      ? []
      : text
          .split("\n")
          .filter((line) => line.includes(name))
          .flatMap((line) => subjectWords(line)),
  );
}
