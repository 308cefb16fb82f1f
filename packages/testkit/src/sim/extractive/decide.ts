/**
 * The extractive model: from a request to the next tool call or the answer. It reasons about nothing; it looks where
 * the words of the question lead and quotes what it finds.
 */
import { lastMessageAt, type SimRequest } from "../conversation.ts";
import { objectOf, parseJson } from "../json.ts";
import type { PlayedAnswer, ScriptPart } from "../script.ts";
import { baseName, fileTools, kindOf } from "./file-tools.ts";
import { callKey, type Findings, findingsOf } from "./findings.ts";
import { ENOUGH_COVERAGE, type LookupState, type NextCall, nextLookup } from "./lookup.ts";
import { recall, tellsSomething } from "./memory.ts";
import { readMessage, type Source } from "./message.ts";
import { firstQuotes, pickQuotes, type Quotes } from "./quotes.ts";
import { valueFor } from "./schema-value.ts";
import { subjectWords } from "./words.ts";
import { echoed, greeted, nothingFound, noted, quotedAnswer, refused, remembered, toolAnswered } from "./wording.ts";

export interface DecideOptions {
  /** Chooses among wordings that mean the same. */
  readonly variety: number;
  /** Tool calls for one message, at most. */
  readonly mostCalls: number;
  /** Write a thinking block first when the request allows it. */
  readonly thinks: boolean;
  /** The message without markers. */
  readonly question: string;
}

/** Everything a decision looks at. */
interface Situation {
  readonly request: SimRequest;
  readonly question: string;
  readonly wanted: readonly string[];
  readonly findings: Findings;
  readonly sources: readonly Source[];
  readonly quotes: Quotes;
  readonly options: DecideOptions;
}

export function decide(request: SimRequest, options: DecideOptions): PlayedAnswer {
  const situation = situationOf(request, options);
  const call = request.toolChoice === "none" ? null : (forcedCall(situation) ?? chosenCall(situation));
  const parts: ScriptPart[] = [];
  if (options.thinks && request.thinking) {
    const about = situation.wanted.slice(0, 5).join(", ") || "nothing in particular";
    parts.push({
      thinking: `The message is about: ${about}. ${call === null ? "I answer now." : `I call ${call.tool}.`}`,
    });
  }
  if (call !== null) {
    parts.push({ tool: call.tool, input: call.input });
    return { parts };
  }
  const text = answerText(situation);
  const schema = request.outputSchema;
  parts.push({ text: schema === null ? text : JSON.stringify(valueFor(schema, { text, root: schema })) });
  return { parts };
}

function situationOf(request: SimRequest, options: DecideOptions): Situation {
  const at = lastMessageAt(request.entries);
  const messages = request.entries
    .slice(0, at + 1)
    .filter((entry) => entry.role === "user")
    .map(readMessage);
  const { question } = options;
  const findings = findingsOf(request);
  const passages = messages.toReversed().flatMap((message) => message.passages);
  const sources = [...passages, ...findings.sources.toReversed()];
  const own = subjectWords(question.replaceAll(PATH, lastName));
  // "And why?" is about what the message before it was about.
  const before = messages.at(-2)?.question ?? "";
  const wanted = own.length > 0 || before === "" ? own : subjectWords(before);
  return { request, question, wanted, findings, sources, quotes: pickQuotes(sources, wanted), options };
}

function recalled({ request, question, sources }: Situation): string | null {
  const earlier = request.entries.slice(0, Math.max(0, lastMessageAt(request.entries)));
  const canLookUp = sources.length > 0 || fileTools(request.tools) !== null;
  return recall(question, { earlier, canLookUp });
}

/** A call the caller demands: a tool by name, or any at all. */
function forcedCall(situation: Situation): NextCall | null {
  const { request } = situation;
  if (request.toolChoice === "auto" || request.toolChoice === "none") {
    return null;
  }
  if (request.toolChoice === "any") {
    return chosenCall(situation) ?? filledCall(situation, request.tools[0]?.name ?? "");
  }
  return filledCall(situation, request.toolChoice.name);
}

function chosenCall(situation: Situation): NextCall | null {
  const { request, question, findings, wanted, quotes, options } = situation;
  const named = namedCall(situation);
  if (named !== null || calledByName(situation).length > 0) {
    return named;
  }
  if (wanted.length === 0 || tellsSomething(question) || recalled(situation) !== null) {
    return null;
  }
  const tools = fileTools(request.tools);
  if (tools === null) {
    return quotes.coverage >= ENOUGH_COVERAGE ? null : queryCall(situation);
  }
  return nextLookup({
    tools,
    findings,
    wanted,
    coverage: quotes.coverage,
    named: namedPaths(`${question}\n${request.system}`),
    mostCalls: options.mostCalls,
  });
}

/** Absolute paths. Where to look is not what the question is about, only the last name may be. */
const PATH = /(?<=^|[\s"'`(])(?:\/[\w.-]+)+\/?(?=[\s"'`),.?!:;]|$)/gm;

function lastName(path: string): string {
  return path.split("/").findLast((name) => name !== "") ?? "";
}

function namedPaths(text: string): LookupState["named"] {
  const paths = (text.match(PATH) ?? []).map((path) => path.replace(/[./]+$/, ""));
  const isFile = (path: string) => /\.\w{1,8}$/.test(path);
  return { file: paths.find(isFile) ?? null, folder: paths.find((path) => !isFile(path)) ?? null };
}

/** Tools the message asks for by name: "call refund_order", "use the weather tool". */
function calledByName({ request, question }: Situation): readonly string[] {
  if (!/\b(?:call|use|run|invoke|execute)\b/i.test(question)) {
    return [];
  }
  const words = new Set(question.match(/[\w.-]+/g) ?? []);
  return request.tools
    .map((tool) => tool.name)
    .filter((name) => words.has(name) || words.has(baseName(name)) || words.has(`${baseName(name)}.`));
}

function namedCall(situation: Situation): NextCall | null {
  const next = calledByName(situation).find((name) => !situation.findings.answered.has(name));
  return next === undefined ? null : filledCall(situation, next);
}

/** Arguments from a JSON object in the message, else from the schema. */
function filledCall({ request, question }: Situation, name: string): NextCall | null {
  const tool = request.tools.find((each) => each.name === name);
  if (tool === undefined) {
    return null;
  }
  const from = question.indexOf("{");
  const given = from < 0 ? undefined : parseJson(question.slice(from, question.lastIndexOf("}") + 1));
  const input = given ?? valueFor(tool.inputSchema, { text: question, root: tool.inputSchema });
  return { tool: name, input: objectOf(input) };
}

const QUERY_NAMES = ["query", "q", "question", "search", "keywords", "text", "topic", "term"];

/** A tool that is no file tool but takes one question: asked once. */
function queryCall({ request, question, findings }: Situation): NextCall | null {
  for (const tool of request.tools) {
    const field = QUERY_NAMES.find((name) => objectOf(tool.inputSchema.properties)[name] !== undefined);
    const isReading = /^(?:search|find|look_?up|query|retrieve|fetch|get)/i.test(baseName(tool.name));
    if (field === undefined || !isReading) {
      continue;
    }
    const input = { [field]: question };
    if (!findings.attempts.has(callKey({ name: tool.name, input }))) {
      return { tool: tool.name, input };
    }
  }
  return null;
}

function answerText(situation: Situation): string {
  const { question, findings, sources, quotes, wanted, request, options } = situation;
  const named = calledByName(situation).filter((name) => findings.answered.has(name));
  if (named.length > 0) {
    return toolAnswered(named.map((name) => ({ tool: baseName(name), text: findings.answered.get(name) ?? "" })));
  }
  const memory = recalled(situation);
  if (memory !== null) {
    return remembered(memory);
  }
  if (tellsSomething(question)) {
    return noted(question);
  }
  if (quotes.quotes.length > 0) {
    return quotedAnswer(quotes.quotes, options.variety);
  }
  if (findings.failures.length > 0) {
    return refused(findings.failures);
  }
  const overview = wanted.length === 0 && sources.length > 0 ? firstQuotes(sources) : [];
  if (overview.length > 0) {
    return quotedAnswer(overview, options.variety);
  }
  const looked = request.tools.some((tool) => kindOf(tool.name) !== null);
  if (looked && wanted.length === 0) {
    return greeted();
  }
  return findings.attempts.size > 0
    ? nothingFound(
        question,
        findings.sources.map((source) => source.name),
      )
    : echoed(question);
}
