/** From what the record keeps and what the operator says of tools to what a call is judged by. */
import type { Actor, ApproveMode, EffectClass, Posture } from "@signalbox/contract";
import type { CallToJudge, JsonObject, PastCall, RunFacts, Source } from "./facts.ts";

/** What an operator says of a tool. */
export interface ToolWord {
  readonly effect: EffectClass;
  readonly isClassified: boolean;
  readonly approve: ApproveMode;
  /** Whether the operator vouches for what its results say. */
  readonly isTrusted: boolean;
  readonly unit: string | null;
  readonly clearance: number;
}

/** Of a tool that nobody has said anything about. */
export const NO_WORD: ToolWord = {
  effect: "irreversible",
  isClassified: false,
  approve: "policy",
  isTrusted: false,
  unit: null,
  clearance: 0,
};

/** What the operator says of the tools of a tenant, at the moment. */
export type ToolWords = (server: string, tool: string) => ToolWord;

/** A text of the conversation, as the record keeps it. */
export interface KeptText {
  readonly kind: "user" | "tool";
  readonly server: string | null;
  readonly tool: string | null;
  readonly effect: EffectClass | null;
  readonly text: string;
}

export interface KeptFacts {
  readonly texts: readonly KeptText[];
  /** Whether there were more, or longer ones. */
  readonly areTextsCut: boolean;
  readonly history: readonly PastCall[];
  readonly nowMs: number;
}

export interface RunInQuestion {
  readonly tenantId: string;
  readonly actor: Actor;
  readonly agentName: string;
  readonly runtime: string;
  readonly instructions: string;
}

export interface FactParts {
  readonly run: RunInQuestion;
  readonly kept: KeptFacts;
  readonly words: ToolWords;
  readonly posture: Posture;
}

export function assembleFacts({ run, kept, words, posture }: FactParts): RunFacts {
  const { tenantId, actor, agentName, runtime, instructions } = run;
  const system: Source = {
    kind: "system",
    tool: null,
    isTrusted: true,
    isPrivate: false,
    clearance: 0,
    text: instructions,
  };
  return {
    principal: { tenantId, user: actor.user, roles: actor.roles, units: actor.units, clearance: 0 },
    agent: agentName,
    runtime,
    posture,
    sources: [system, ...kept.texts.map((text) => sourceOf(text, words))],
    areSourcesCut: kept.areTextsCut,
    history: kept.history,
    nowMs: kept.nowMs,
  };
}

function sourceOf({ kind, server, tool, effect, text }: KeptText, words: ToolWords): Source {
  if (kind === "user") return { kind, tool: null, isTrusted: true, isPrivate: false, clearance: 0, text };
  const word = words(server ?? "", tool ?? "");
  return {
    kind,
    tool: `${server ?? ""}__${tool ?? ""}`,
    isTrusted: word.isTrusted,
    isPrivate: effect !== "egress_read",
    clearance: word.clearance,
    text: textOfResult(text),
  };
}

/** A tool as a snapshot has it, under what the operator says of it today. */
export function callToJudge(
  tool: Pick<CallToJudge["tool"], "name" | "server" | "tool" | "definitionHash" | "inputSchema">,
  given: { readonly toolCallId: string; readonly arguments: JsonObject },
  word: ToolWord,
): CallToJudge {
  const { name, server, tool: plain, definitionHash, inputSchema } = tool;
  const { effect, isClassified, approve, unit, clearance } = word;
  const judged = { name, server, tool: plain, effect, definitionHash, inputSchema, unit, clearance };
  return { toolCallId: given.toolCallId, tool: judged, approve, isClassified, arguments: given.arguments };
}

const DEPTH_MAX = 32;
const ESCAPES = /\\[nrtbf]/g;

/** Every text and number in a result: how it is written in JSON must not hide what it says. */
export function textOfResult(result: string): string {
  const parts: string[] = [];
  collect(parsed(result) ?? result, parts, 0);
  return parts.join("\n");
}

function collect(value: unknown, parts: string[], depth: number): void {
  if (depth > DEPTH_MAX) {
    parts.push(JSON.stringify(value) ?? "");
  } else if (typeof value === "string") {
    const inner = parsed(value);
    if (inner === null) parts.push(value.replace(ESCAPES, " "));
    else collect(inner, parts, depth + 1);
  } else if (typeof value === "number") {
    parts.push(String(value));
  } else if (Array.isArray(value)) {
    for (const each of value) collect(each, parts, depth + 1);
  } else if (typeof value === "object" && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      parts.push(name);
      collect(member, parts, depth + 1);
    }
  }
}

/** The object or list that a text is, or `null`. */
function parsed(text: string): object | null {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
