/** Tools that the caller carries out, and the one that asks the person: as a snapshot has them. Pure. */
import { canonicalJson, CLIENT_SERVER, type ClientTool, type SnapshotTool } from "@signalbox/contract";

const ASK_USER_PATIENCE_MS = 7 * 24 * 3_600_000;

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
    },
    required: ["question"],
    additionalProperties: false,
  },
  effect: "read",
  patienceMs: ASK_USER_PATIENCE_MS,
};

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

/** Why a question is not answered so, or `null`. */
export function refusedAnswer(subject: Readonly<Record<string, unknown>>, response: unknown): string | null {
  const { choices } = subject;
  if (!Array.isArray(choices) || choices.length === 0 || choices.includes(response)) return null;
  return `The answer must be one of the choices: ${choices.map((choice) => JSON.stringify(choice)).join(", ")}.`;
}
