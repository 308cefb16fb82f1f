/** What the tool results of a conversation have shown so far. Everything is read from the request: nothing is remembered. */
import { lastMessageAt, type SimRequest, type ToolCall, type ToolResult } from "../conversation.ts";
import { baseName, kindOf, pathOf } from "./file-tools.ts";
import { type Listing, plainResult, readListing, readMatches, readRoots, readTree } from "./listing.ts";
import type { Source } from "./message.ts";

export interface Failure {
  readonly tool: string;
  readonly reason: string;
}

export interface Findings {
  readonly roots: readonly string[];
  readonly files: readonly string[];
  readonly directories: readonly string[];
  /** Directories whose listing is known. */
  readonly listed: ReadonlySet<string>;
  readonly readPaths: ReadonlySet<string>;
  /** Texts that were read, oldest first. */
  readonly sources: readonly Source[];
  /** Calls since the last message, as `callKey` writes them. */
  readonly attempts: ReadonlySet<string>;
  readonly failures: readonly Failure[];
  /** Results since the last message, by the tool's full name. */
  readonly answered: ReadonlyMap<string, string>;
}

export function callKey(call: { readonly name: string; readonly input: unknown }): string {
  return `${call.name} ${JSON.stringify(call.input)}`;
}

interface Draft {
  readonly roots: string[];
  readonly files: Set<string>;
  readonly directories: Set<string>;
  readonly listed: Set<string>;
  readonly sources: Map<string, Source>;
}

export function findingsOf(request: SimRequest): Findings {
  const calls = new Map<string, ToolCall>();
  const draft: Draft = { roots: [], files: new Set(), directories: new Set(), listed: new Set(), sources: new Map() };
  const attempts = new Set<string>();
  const failures: Failure[] = [];
  const answered = new Map<string, string>();
  const asked = lastMessageAt(request.entries);
  for (const [place, entry] of request.entries.entries()) {
    for (const call of entry.calls) {
      calls.set(call.id, call);
      if (place > asked) {
        attempts.add(callKey(call));
      }
    }
    for (const result of entry.results) {
      const call = calls.get(result.callId);
      if (call === undefined) {
        continue;
      }
      const text = plainResult(result.text);
      const failed = isFailure(result, text);
      if (!failed) {
        learn(draft, call, text);
      }
      if (place > asked) {
        answered.set(call.name, text);
        if (failed) {
          failures.push({ tool: baseName(call.name), reason: text });
        }
      }
    }
  }
  return {
    ...draft,
    files: [...draft.files],
    directories: [...draft.directories],
    readPaths: new Set(draft.sources.keys()),
    sources: [...draft.sources.values()],
    attempts,
    failures,
    answered,
  };
}

function isFailure(result: ToolResult, text: string): boolean {
  return result.isError || /^\s*(?:<tool_use_error>|error\b|access denied\b|mcp error\b|enoent\b)/i.test(text);
}

function learn(draft: Draft, call: ToolCall, text: string): void {
  const path = pathOf(call.input) ?? ".";
  switch (kindOf(call.name)) {
    case "roots":
      draft.roots.push(...readRoots(text));
      break;
    case "list":
      learnNames(draft, readListing(text, path));
      draft.listed.add(path);
      break;
    case "tree":
      learnNames(draft, readTree(text, path));
      draft.listed.add(path);
      break;
    case "search":
      learnNames(draft, readMatches(text));
      break;
    case "read":
      draft.sources.set(path, { name: nameOf(path, draft.roots), text });
      break;
    case null:
      draft.sources.set(callKey(call), { name: baseName(call.name), text });
      break;
  }
}

function learnNames(draft: Draft, listing: Listing): void {
  for (const file of listing.files) {
    draft.files.add(file);
  }
  for (const directory of listing.directories) {
    draft.directories.add(directory);
  }
}

/** The path inside its root, or the last name of it. */
function nameOf(path: string, roots: readonly string[]): string {
  const root = roots.find((each) => path.startsWith(`${each}/`));
  return root === undefined ? (path.split("/").at(-1) ?? path) : path.slice(root.length + 1);
}
