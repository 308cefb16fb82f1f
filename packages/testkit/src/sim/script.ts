/**
 * What a scripted model answers: one `ScriptedAnswer` per request, the same on every wire. Durations are milliseconds,
 * tokens are those of `tokens.ts`.
 */
import type { SimRequest } from "./conversation.ts";
import type { JsonObject } from "./json.ts";
import type { ErrorBody } from "./wire-error.ts";

/**
 * How an answer stops short. `cut` closes the socket between two events, `cut_inside_event` in the middle of a data
 * line, `hang` keeps it open and writes nothing more, an error is written as the wire's own error event and ends the stream.
 */
export type Breakage = "cut" | "cut_inside_event" | "hang" | { readonly error: ErrorBody };

interface Breakable {
  /** Pause before each token of this part; the answer's `tokenDelayMs` when absent. */
  readonly tokenDelayMs?: number;
  /** Break inside this part, while its block is open. */
  readonly break?: Breakage;
  /** How many tokens of the part are written before it breaks; all of them when absent. */
  readonly breakAfterTokens?: number;
}

export interface TextPart extends Breakable {
  readonly text: string;
}

/** Generated text of exactly so many tokens. */
export interface FillerPart extends Breakable {
  readonly tokens: number;
  /** Each token is the time it was written: see `tokenTimes`. */
  readonly timestamps?: boolean;
}

/** A thinking block. Left out on the chat completions wire, which has no place for it. */
export interface ThinkingPart extends Breakable {
  readonly thinking: string;
  readonly signature?: string;
}

export interface ToolPart extends Breakable {
  readonly tool: string;
  readonly input: JsonObject;
  readonly id?: string;
  /** Write only so many characters of the arguments and close the block all the same. */
  readonly cutJsonAt?: number;
}

export interface WaitPart {
  readonly waitMs: number;
}

/** Breaks between two blocks. */
export interface BreakPart {
  readonly break: Breakage;
}

/** One piece of an answer, played in order: a block of text, of thinking or of a tool call, a pause, or a break. */
export type ScriptPart = TextPart | FillerPart | ThinkingPart | ToolPart | WaitPart | BreakPart;

/** Any other text is written as it stands, for a stop reason of a provider to come. */
export type StopReason =
  | "end"
  | "tool_use"
  | "max_tokens"
  | "stop_sequence"
  | "refusal"
  | (string & Record<never, never>);

/** Token counts of one answer, as the wire reports them. */
export interface Usage {
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheCreationTokens: number;
  readonly outputTokens: number;
  readonly thinkingTokens: number;
}

/** An answer played part by part; delays are those of the server where the answer names none. */
export interface PlayedAnswer {
  readonly parts: readonly ScriptPart[];
  /** `tool_use` when a tool is called, otherwise `end`, when absent. */
  readonly stop?: StopReason;
  /** Overrides what `sim` counts. */
  readonly usage?: Partial<Usage>;
  /** The served model's name; the asked one when absent. */
  readonly model?: string;
  readonly firstTokenDelayMs?: number;
  readonly tokenDelayMs?: number;
}

/** An HTTP error instead of an answer. */
export interface RefusedAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly error?: Partial<ErrorBody>;
  /** The whole body, instead of the wire's own error shape. */
  readonly body?: unknown;
  readonly waitMs?: number;
}

/** Bytes as they are: what a recorded provider sent. */
export interface RawAnswer {
  readonly raw: {
    readonly status?: number;
    readonly headers?: Readonly<Record<string, string>>;
    readonly chunks: readonly RawChunk[];
  };
}

export type RawChunk =
  | { readonly utf8: string }
  | { readonly b64: string }
  | { readonly delayMs: number }
  | { readonly cut: true }
  | { readonly hang: true };

/** Not even response headers: the request is taken and nothing comes, or the socket closes. */
export interface NoAnswer {
  readonly noAnswer: "hang" | "cut";
}

/** What `sim` would have said by itself. */
export interface ExtractiveAnswer {
  readonly extractive: true;
}

/** What becomes of one request: an answer, a refusal, bytes as they are, silence, or what `sim` says by itself. */
export type ScriptedAnswer = PlayedAnswer | RefusedAnswer | RawAnswer | NoAnswer | ExtractiveAnswer;

/** The answers in order, the last one repeating; or a function of the request and its place in the script, from 0. */
export type Script = readonly ScriptedAnswer[] | ((request: SimRequest, place: number) => ScriptedAnswer);

/** A script that a message chooses with `[[script:name]]`. */
export interface NamedScript {
  readonly answers: Script;
  /**
   * What moves the script on. `reply` (default): the assistant entries since the message that named it, so a repeated
   * request gets the same answer again. `request`: every request, so that a retry finds the next answer.
   */
  readonly by?: "reply" | "request";
}

export function answerAt(script: Script, request: SimRequest, place: number): ScriptedAnswer {
  if (typeof script === "function") {
    return script(request, place);
  }
  return script[Math.min(place, script.length - 1)] ?? { extractive: true };
}
