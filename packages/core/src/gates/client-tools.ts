/** Tools that the caller carries out, and the one that asks the person: as a snapshot has them. Pure. */
import { canonicalJson, CLIENT_SERVER, type ClientTool, type SnapshotTool } from "@signalbox/contract";
import { LIMITS } from "../kernel/limits.ts";
import type { ToolWord } from "./policy/assemble.ts";

const ANSWER_CHARS_MAX = 40_000;

/** What `askUser` gives an agent. */
const ASK_USER: ClientTool = {
  name: "ask_user",
  description:
    "Ask the person a question and wait for the answer. Use it when you cannot go on without a decision or a fact that only the person has.",
  inputSchema: {
    type: "object",
    properties: {
      question: { type: "string", minLength: 1, maxLength: 4_000, description: "One question, in plain words." },
      choices: {
        type: "array",
        items: { type: "string", minLength: 1, maxLength: 200 },
        minItems: 2,
        maxItems: 20,
        description: "Answers to choose from. Left out, the person answers in their own words.",
      },
      schema: {
        type: "object",
        description: "JSON Schema that the answer must fit, for more than a text. Left out, the answer is a text.",
      },
    },
    required: ["question"],
    additionalProperties: false,
  },
  effect: "read",
  patienceMs: LIMITS.questionPatienceMs,
};

/** What is said of a tool. One that the caller carries out is classified by whoever made its agent: no operator names it. */
export function wordAbout(tool: Pick<SnapshotTool, "server" | "effect"> | undefined, word: ToolWord): ToolWord {
  return tool !== undefined && isClientTool(tool) ? { ...word, effect: tool.effect, isClassified: true } : word;
}

/** Whether the caller carries out what this tool does. */
export function isClientTool(tool: Pick<SnapshotTool, "server">): boolean {
  return tool.server === CLIENT_SERVER;
}

export function clientSnapshotTools(
  agent: { readonly clientTools: readonly ClientTool[]; readonly askUser: boolean },
  sha256Hex: (text: string) => string,
): readonly SnapshotTool[] {
  const tools = agent.askUser ? [...agent.clientTools, ASK_USER] : agent.clientTools;
  return tools.map(({ name, description, inputSchema, effect, patienceMs }) => ({
    name,
    server: CLIENT_SERVER,
    tool: name,
    title: name,
    description,
    effect,
    definitionHash: sha256Hex(canonicalJson({ name, description, inputSchema })),
    inputSchema,
    patienceMs,
  }));
}

/** Why a question is not answered so, or `null`. An answer that is to fit a schema is checked by whoever reads schemas. */
export function refusedAnswer(subject: Readonly<Record<string, unknown>>, response: unknown): string | null {
  const { choices, tool, schema } = subject;
  if (Array.isArray(choices) && choices.length > 0) {
    if (choices.includes(response)) return null;
    return `must be one of the choices: ${choices.map((choice) => JSON.stringify(choice)).join(", ")}`;
  }
  if (tool !== ASK_USER.name || schema !== undefined) return null;
  if (typeof response !== "string" || response.trim() === "") return "must be a text that answers the question";
  return response.length > ANSWER_CHARS_MAX ? `must have at most ${ANSWER_CHARS_MAX} characters` : null;
}
