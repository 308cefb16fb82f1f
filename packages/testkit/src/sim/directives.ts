/**
 * Markers in a user message by which a running server is told how to behave:
 *
 *   [[script:name]] or [[script:name key]]   play a named script from here on; [[script:off]] ends it
 *   [[sim:slow 200]]        pause of 200 ms before each token
 *   [[sim:wait 300]]        pause before the first token
 *   [[sim:tokens 500]]      answer with 500 tokens of filler
 *   [[sim:think 30]]        think for 30 tokens first
 *   [[sim:cut 20]]          close the socket after 20 tokens; [[sim:cut 20 1]] only the first time
 *   [[sim:hang 20]]         write nothing more after 20 tokens; also with a count
 *   [[sim:error 529]]       answer with this status; also with a count
 *   [[sim:tool name {…}]]   call this tool once with these arguments; several make one message of several calls
 *
 * A `sim` marker holds for the message that carries it, a script for the rest of the conversation.
 */
import { lastMessageAt, type Entry } from "./conversation.ts";
import { readMessage } from "./extractive/message.ts";
import { isObject, type JsonObject, parseJson } from "./json.ts";

/** Something that goes wrong the first `times` times; always when that is null. */
export interface Limited {
  readonly value: number;
  readonly times: number | null;
}

export interface AskedCall {
  readonly tool: string;
  readonly input: JsonObject;
}

export interface Directives {
  readonly tokenDelayMs: number | null;
  readonly firstTokenDelayMs: number | null;
  readonly tokens: number | null;
  readonly thinkTokens: number | null;
  readonly cut: Limited | null;
  readonly hang: Limited | null;
  readonly error: Limited | null;
  readonly calls: readonly AskedCall[];
  /** Markers that mean nothing, as they were written. */
  readonly unknown: readonly string[];
}

export interface ScriptChoice {
  readonly name: string;
  readonly key: string;
  /** Replies since the message that chose it. */
  readonly replies: number;
}

const MARKER_START = /\[\[sim:([a-z]+)/g;
const SCRIPT_MARKER = /\[\[script:([\w.-]+)(?:\s+([\w.-]+))?\]\]/g;
const NUMBERS = /^(\d{1,9})(?:\s+(\d{1,9}))?$/;
/** Arguments may hold `]]` themselves; so many ends are tried. */
const MOST_ENDS = 50;

interface Marker {
  readonly name: string;
  readonly rest: string;
  readonly from: number;
  readonly to: number;
}

function simMarkers(text: string): readonly Marker[] {
  const markers: Marker[] = [];
  for (const match of text.matchAll(MARKER_START)) {
    const name = match[1] ?? "";
    const begin = match.index + match[0].length;
    const first = text.indexOf("]]", begin);
    let end = first;
    for (let tried = 0; name === "tool" && end >= 0 && tried < MOST_ENDS; tried += 1) {
      if (askedCall(text.slice(begin, end).trim()) !== null) {
        break;
      }
      end = text.indexOf("]]", end + 1);
    }
    const last = end < 0 ? first : end;
    if (last >= 0) {
      markers.push({ name, rest: text.slice(begin, last).trim(), from: match.index, to: last + 2 });
    }
  }
  return markers;
}

export function withoutMarkers(text: string): string {
  let kept = "";
  let from = 0;
  for (const marker of simMarkers(text)) {
    kept += text.slice(from, Math.max(from, marker.from));
    from = Math.max(from, marker.to);
  }
  return (kept + text.slice(from))
    .replace(SCRIPT_MARKER, "")
    .replace(/[ \t]{2,}/g, " ")
    .trim();
}

export function readDirectives(text: string): Directives {
  const numbers = new Map<string, Limited>();
  const calls: AskedCall[] = [];
  const unknown: string[] = [];
  for (const { name, rest, from, to } of simMarkers(text)) {
    const match = NUMBERS.exec(name === "hang" && rest === "" ? "0" : rest);
    const call = name === "tool" ? askedCall(rest) : null;
    if (call !== null) {
      calls.push(call);
    } else if (match !== null && NUMBERED.has(name)) {
      numbers.set(name, { value: Number(match[1]), times: match[2] === undefined ? null : Number(match[2]) });
    } else {
      unknown.push(text.slice(from, to));
    }
  }
  const value = (name: string) => numbers.get(name)?.value ?? null;
  return {
    tokenDelayMs: value("slow"),
    firstTokenDelayMs: value("wait"),
    tokens: value("tokens"),
    thinkTokens: value("think"),
    cut: numbers.get("cut") ?? null,
    hang: numbers.get("hang") ?? null,
    error: numbers.get("error") ?? null,
    calls,
    unknown,
  };
}

const NUMBERED: ReadonlySet<string> = new Set(["slow", "wait", "tokens", "think", "cut", "hang", "error"]);

function askedCall(text: string): AskedCall | null {
  const match = /^([\w.-]+)\s*(\{[\s\S]*\})?$/.exec(text);
  const input = match?.[2] === undefined ? {} : parseJson(match[2]);
  return match === null || !isObject(input) ? null : { tool: match[1] ?? "", input };
}

/** The script the newest marker of the conversation names, null when there is none. */
export function chosenScript(entries: readonly Entry[]): ScriptChoice | null {
  for (let at = lastMessageAt(entries); at >= 0; at -= 1) {
    const entry = entries[at];
    if (entry?.role !== "user") {
      continue;
    }
    const marker = [...readMessage(entry).question.matchAll(SCRIPT_MARKER)].at(-1);
    if (marker !== undefined) {
      const [, name = "", key = ""] = marker;
      return name === "off" ? null : { name, key, replies: repliesAfter(entries, at) };
    }
  }
  return null;
}

/** Assistant entries in a row are one reply. */
function repliesAfter(entries: readonly Entry[], at: number): number {
  const roles = entries
    .slice(at + 1)
    .filter((entry) => entry.role !== "system")
    .map((entry) => entry.role);
  return roles.filter((role, place) => role === "assistant" && roles[place - 1] !== "assistant").length;
}
