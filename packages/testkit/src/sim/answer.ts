/** Decides what a request is answered with: a script, a marker in the message, the fixed answer or the extractive model. */
import { entryText, lastMessageAt, type SimRequest } from "./conversation.ts";
import { type Directives, type Limited, chosenScript, readDirectives, withoutMarkers } from "./directives.ts";
import { baseName } from "./extractive/file-tools.ts";
import { decide } from "./extractive/decide.ts";
import { findingsOf } from "./extractive/findings.ts";
import { readMessage } from "./extractive/message.ts";
import { numberFrom } from "./ids.ts";
import {
  answerAt,
  type NamedScript,
  type PlayedAnswer,
  type Script,
  type ScriptedAnswer,
  type ScriptPart,
} from "./script.ts";
import type { Tally } from "./tally.ts";

/** The same short answer for everybody, for measurements. */
export interface InstantAnswer {
  readonly tokens: number;
  readonly timestamps: boolean;
}

export interface AnswerSettings {
  readonly seed: number;
  readonly script: Script | null;
  readonly scripts: ReadonlyMap<string, NamedScript>;
  readonly instant: InstantAnswer | null;
  readonly thinking: boolean;
  readonly mostCalls: number;
}

export interface AnswerContext {
  readonly settings: AnswerSettings;
  readonly tally: Tally;
  /** The request's number among those of the script the server was opened with. */
  readonly place: () => number;
}

export type ReadyAnswer = Exclude<ScriptedAnswer, { readonly extractive: true }>;

export function answerFor(request: SimRequest, context: AnswerContext): ReadyAnswer {
  const { settings } = context;
  if (settings.instant !== null) {
    return { parts: [{ ...settings.instant }] };
  }
  const scripted = scriptedAnswer(request, context);
  return scripted === null || "extractive" in scripted ? ownAnswer(request, context) : scripted;
}

function scriptedAnswer(request: SimRequest, { settings, tally, place }: AnswerContext): ScriptedAnswer | null {
  const choice = chosenScript(request.entries);
  if (choice === null) {
    return settings.script === null ? null : answerAt(settings.script, request, place());
  }
  const script = settings.scripts.get(choice.name);
  if (script === undefined) {
    return { status: 400, error: { message: `There is no script named ${choice.name}.` } };
  }
  const at = script.by === "request" ? tally.next(`script ${choice.name} ${choice.key}`) : choice.replies;
  return answerAt(script.answers, request, at);
}

function ownAnswer(request: SimRequest, { settings, tally }: AnswerContext): ReadyAnswer {
  const at = lastMessageAt(request.entries);
  const entry = request.entries[at];
  const message = entry === undefined ? "" : readMessage(entry).question;
  const directives = readDirectives(message);
  const question = withoutMarkers(message);
  const happens = (name: string, limited: Limited | null): number | null => {
    if (limited === null) {
      return null;
    }
    const key = `${name} ${request.entries
      .slice(0, at + 1)
      .map(entryText)
      .join("\n")}`;
    return limited.times === null || tally.next(key) < limited.times ? limited.value : null;
  };
  const status = happens("error", directives.error);
  if (status !== null) {
    return {
      status: status >= 400 && status <= 599 ? status : 400,
      error: { message: "This error was asked for by a marker." },
    };
  }
  const thinks = settings.thinking;
  const options = { variety: numberFrom(settings.seed, question), mostCalls: settings.mostCalls, thinks, question };
  const plain = markedParts(request, directives) ?? decide(request, options).parts;
  // A message of calls alone is let through: what is cut is the answer.
  const isAnswer = plain.some((part) => "text" in part || "tokens" in part);
  const breaks = {
    cut: isAnswer ? happens("cut", directives.cut) : null,
    hang: isAnswer ? happens("hang", directives.hang) : null,
  };
  return withDirectives(plain, { directives, breaks });
}

/** What a marker asks for instead of an answer of our own; null when it asks for none. */
function markedParts(request: SimRequest, directives: Directives): readonly ScriptPart[] | null {
  if (directives.unknown.length > 0) {
    return [{ text: `(simulated model: I do not know the marker ${directives.unknown.join(", ")}.)` }];
  }
  if (directives.tokens !== null) {
    return [{ tokens: directives.tokens }];
  }
  const { answered } = findingsOf(request);
  const asked = directives.calls.map(({ tool, input }) => ({
    tool: request.tools.find((each) => each.name === tool || baseName(each.name) === tool)?.name ?? tool,
    input,
  }));
  const open = asked.filter(({ tool }) => !answered.has(tool));
  if (asked.length === 0) {
    return null;
  }
  if (open.length > 0) {
    return open;
  }
  const said = asked.map(
    ({ tool }) => `The tool ${baseName(tool)} answered: “${(answered.get(tool) ?? "").slice(0, 400).toWellFormed()}”.`,
  );
  return [{ text: `${said.join(" ")} (simulated model: the calls were asked for by a marker.)` }];
}

interface Marked {
  readonly directives: Directives;
  /** Tokens after which the answer is cut or hangs. */
  readonly breaks: { readonly cut: number | null; readonly hang: number | null };
}

function withDirectives(parts: readonly ScriptPart[], { directives, breaks }: Marked): PlayedAnswer {
  const thinking: readonly ScriptPart[] =
    directives.thinkTokens === null
      ? []
      : [{ thinking: Array.from({ length: directives.thinkTokens }, (_, place) => `thought${place} `).join("") }];
  const after = breaks.cut ?? breaks.hang;
  const last = parts.length - 1;
  const broken = parts.map((part, place) =>
    after === null || place !== last || "waitMs" in part
      ? part
      : { ...part, break: breaks.cut === null ? ("hang" as const) : ("cut" as const), breakAfterTokens: after },
  );
  return {
    parts: [...thinking, ...broken],
    ...(directives.tokenDelayMs === null ? {} : { tokenDelayMs: directives.tokenDelayMs }),
    ...(directives.firstTokenDelayMs === null ? {} : { firstTokenDelayMs: directives.firstTokenDelayMs }),
  };
}
