/** The extractive model over a small folder of documents, driven by a loop like an agent's: call, result, again. */
import { renderTurnInput, type TurnInput } from "@signalbox/contract";
import { afterEach, describe, expect, test } from "vitest";
import type { JsonObject } from "../json.ts";
import { type Sim, startSim } from "../server.ts";

let sim: Sim | null = null;
afterEach(() => sim?.close());

const root = "/srv/handbook";
const folder: ReadonlyMap<string, string> = new Map([
  ["README.md", "# Handbook\n\n- [leases.md](leases.md): who may drive a conversation\n- [deep](deep): the rest\n"],
  [
    "leases.md",
    "# Leases\nA lease belongs to a *process*. It is renewed by a heartbeat every three seconds\nand ends ten seconds after the last heartbeat.\n\nWhen a lease has ended, another process takes over.",
  ],
  ["budgets.md", "# Budgets\nA budget is reserved before a model call. Money is counted in micro-dollars."],
  ["logo.png", "not text"],
  ["deep/storks.md", "Storks deliver parcels on Tuesdays. They never deliver on Sundays."],
]);

const schemas: Readonly<Record<string, readonly string[]>> = {
  list_allowed_directories: [],
  list_directory: ["path"],
  search_files: ["path", "pattern"],
  read_text_file: ["path"],
  write_file: ["path", "content"],
};

function toolsOf(names: readonly string[], prefix: string): readonly JsonObject[] {
  return names.map((name) => {
    const properties = Object.fromEntries((schemas[name] ?? []).map((each) => [each, { type: "string" }]));
    return {
      name: prefix + name,
      description: name,
      input_schema: { type: "object", properties, required: schemas[name] ?? [] },
    };
  });
}

/** A file server of a few lines: what it answers has the form of the real one. */
function perform(name: string, input: Readonly<Record<string, string>>): { text: string; isError: boolean } {
  const path = (input.path ?? "").replace(`${root}/`, "");
  if (name.endsWith("list_allowed_directories")) {
    return { text: `Allowed directories:\n${root}`, isError: false };
  }
  if (name.endsWith("list_directory")) {
    const at = input.path === root ? "" : `${path}/`;
    const names = [...folder.keys()]
      .filter((each) => each.startsWith(at))
      .map((each) => each.slice(at.length).split("/"));
    const lines = new Set(
      names.map((parts) => (parts.length > 1 ? `[DIR] ${parts[0] ?? ""}` : `[FILE] ${parts[0] ?? ""}`)),
    );
    return { text: [...lines].join("\n"), isError: false };
  }
  if (name.endsWith("search_files")) {
    const words = /\{(.*)\}|\*\*\/\*(.*)\*/.exec(input.pattern ?? "");
    const wanted = (words?.[1] ?? words?.[2] ?? "").split(",");
    const found = [...folder.keys()].filter((each) => wanted.some((word) => each.toLowerCase().includes(word)));
    return {
      text: found.length === 0 ? "No matches found" : found.map((each) => `${root}/${each}`).join("\n"),
      isError: false,
    };
  }
  const text = folder.get(path);
  return text === undefined ? { text: `ENOENT: no such file ${path}`, isError: true } : { text, isError: false };
}

interface Talk {
  readonly answer: string;
  /** Base name and path of each call, in order. */
  readonly calls: readonly string[];
  readonly messages: readonly JsonObject[];
}

interface TalkOptions {
  readonly prefix?: string;
  readonly offered?: readonly string[];
  readonly earlier?: readonly JsonObject[];
  readonly fields?: JsonObject;
  readonly act?: typeof perform;
  readonly wrap?: (text: string) => string;
}

interface Block {
  readonly type: string;
  readonly text: string;
  readonly id: string;
  readonly name: string;
  readonly input: Readonly<Record<string, string>>;
}

async function talk(question: unknown, options: TalkOptions = {}): Promise<Talk> {
  const {
    prefix = "mcp__unit__docs__",
    offered = Object.keys(schemas),
    act = perform,
    wrap = (text) => text,
  } = options;
  const messages: JsonObject[] = [...(options.earlier ?? []), { role: "user", content: question }];
  const calls: string[] = [];
  for (let turn = 0; turn < 20; turn += 1) {
    const response = await fetch(`${sim?.url ?? ""}/v1/messages`, {
      method: "POST",
      headers: { "anthropic-version": "2023-06-01" },
      body: JSON.stringify({
        model: "sim",
        max_tokens: 9_000,
        tools: toolsOf(offered, prefix),
        messages,
        ...options.fields,
      }),
    });
    const { content } = (await response.json()) as { content: readonly Block[] };
    messages.push({ role: "assistant", content });
    const called = content.filter((block) => block.type === "tool_use");
    if (called.length === 0) {
      return { answer: content.map((block) => block.text).join(""), calls, messages };
    }
    const results = called.map(({ id, name, input }) => {
      calls.push(`${name.slice(prefix.length)} ${input.path ?? ""}`.trim());
      const { text, isError } = act(name, input);
      return { type: "tool_result", tool_use_id: id, content: wrap(text), is_error: isError };
    });
    messages.push({ role: "user", content: results });
  }
  throw new Error("the model never answered");
}

/** Sentences of an answer, the note about the simulation not counted. */
function sentenceCount(answer: string): number {
  return answer.replace(/\(simulated model: .*\)/, "").match(/[.!?]”?\.?(?:\s|$)/g)?.length ?? 0;
}

describe("questions about documents", () => {
  test("looks where it may, lists, reads what the name promises, and quotes it with its file", async () => {
    sim = await startSim();
    const { answer, calls } = await talk("How long does a lease last after the last heartbeat?");
    expect(calls).toEqual(["list_allowed_directories", `list_directory ${root}`, `read_text_file ${root}/leases.md`]);
    expect(answer).toContain("leases.md");
    expect(answer).toContain(
      "“It is renewed by a heartbeat every three seconds and ends ten seconds after the last heartbeat.”",
    );
    expect(answer.match(/simulated model/g)).toHaveLength(1);
    expect(sentenceCount(answer)).toBeGreaterThanOrEqual(1);
    expect(sentenceCount(answer)).toBeLessThanOrEqual(5);
  });

  test.each(["", "docs__", "docs-2__", "mcp__x__"])("knows the tools under the prefix %j", async (prefix) => {
    sim = await startSim();
    const { answer } = await talk("How is money counted?", { prefix });
    expect(answer).toContain("“Money is counted in micro-dollars.”");
  });

  test("finds what lies deeper by searching", async () => {
    sim = await startSim();
    const { answer, calls } = await talk("On which day do storks deliver parcels?");
    expect(calls).toContain(`search_files ${root}`);
    expect(answer).toContain("Storks deliver parcels on Tuesdays.");
    expect(answer).toContain("deep/storks.md");
  });

  test("descends into folders when it cannot search", async () => {
    sim = await startSim();
    const offered = ["list_directory", "read_text_file"];
    const { answer, calls } = await talk(`On which day do storks deliver parcels, says ${root}?`, { offered });
    expect(calls).toContain(`list_directory ${root}/deep`);
    expect(answer).toContain("Tuesdays");
  });

  test("reads a file that is named by its path at once", async () => {
    sim = await startSim();
    const { answer, calls } = await talk(`How is money counted, according to ${root}/budgets.md?`);
    expect(calls).toEqual([`read_text_file ${root}/budgets.md`]);
    expect(answer).toContain("micro-dollars");
  });

  test("understands results in their structured form", async () => {
    sim = await startSim();
    const { answer } = await talk("How is money counted?", { wrap: (text) => JSON.stringify({ content: text }) });
    expect(answer).toContain("micro-dollars");
  });

  test("asks a few times only, never the same twice, never for an effect, and says so when there is nothing", async () => {
    sim = await startSim();
    const { answer, calls } = await talk("Who invented the zeppelin gearbox?");
    expect(new Set(calls).size).toBe(calls.length);
    expect(calls.length).toBeLessThanOrEqual(8);
    expect(calls.join()).not.toMatch(/write_file|logo\.png/);
    expect(answer).toContain("found nothing about “Who invented the zeppelin gearbox?”");
  });

  test("stops when the tools refuse, and says why", async () => {
    sim = await startSim();
    const act = () => ({ text: "not allowed by the policy of this unit", isError: true });
    const { answer, calls } = await talk("How is money counted?", { act });
    expect(calls.length).toBeLessThanOrEqual(2);
    expect(answer).toContain("not allowed by the policy of this unit");
  });

  test("a follow-up is answered from what was read before, without another call", async () => {
    sim = await startSim();
    const first = await talk("How long does a lease last after the last heartbeat?");
    const second = await talk("Who takes over when a lease has ended?", { earlier: first.messages });
    expect(second.calls).toEqual([]);
    expect(second.answer).toContain("another process takes over");
  });

  test("tool_choice none is obeyed, a named tool is called with arguments that fit", async () => {
    sim = await startSim();
    expect((await talk("How is money counted?", { fields: { tool_choice: { type: "none" } } })).calls).toEqual([]);
    const forced = { tool_choice: { type: "tool", name: "submit_plan" }, tools: [planTool] };
    const body = { model: "sim", max_tokens: 900, messages: [{ role: "user", content: "Plan the week" }], ...forced };
    const response = await fetch(`${sim.url}/v1/messages`, {
      method: "POST",
      headers: { "anthropic-version": "2023-06-01" },
      body: JSON.stringify(body),
    });
    const { content } = (await response.json()) as { content: readonly JsonObject[] };
    expect(content).toMatchObject([
      {
        type: "tool_use",
        name: "submit_plan",
        input: { todos: [{ title: "Plan the week", state: "open", weight: 1 }] },
      },
    ]);
  });
});

const planTool = {
  name: "submit_plan",
  description: "plan",
  input_schema: {
    type: "object",
    required: ["todos"],
    properties: { todos: { type: "array", minItems: 1, items: { $ref: "#/$defs/todo" } } },
    $defs: {
      todo: {
        type: "object",
        required: ["title", "state", "weight"],
        properties: {
          title: { type: "string", maxLength: 40 },
          state: { enum: ["open", "done"] },
          weight: { type: "integer", minimum: 1 },
          note: { type: "string" },
        },
      },
    },
  },
};

describe("without tools", () => {
  const none: TalkOptions = { offered: [] };

  test("passages in the message are quoted, wherever they were put", async () => {
    sim = await startSim();
    const text = "Trains wait at red. A signal at danger stops a train. Cows have four legs.";
    const turn: TurnInput = {
      version: 1,
      trigger: "user",
      mode: null,
      now: "2026-01-01T00:00:00.000Z",
      lastUserMessageAgeMs: 10,
      lastUserSnippet: "What stops a train? [[sim:error 500]]",
      actor: { user: "u_1", roles: [] },
      channel: null,
      context: [],
      passages: [{ id: "p1", source: "rules.md", text }],
      facts: ["The box opens at six."],
    };
    const question = (passage: string) => [
      { type: "text", text: passage },
      { type: "text", text: "What does a signal at danger do to a train?" },
    ];
    for (const passage of [
      renderTurnInput(turn),
      JSON.stringify({ passages: turn.passages }),
      `<passages><passage source="rules.md">${text}</passage></passages>`,
      `<document title="rules.md">${text}</document>`,
    ]) {
      const { answer } = await talk(question(passage), none);
      expect(answer).toContain("rules.md");
      expect(answer).toContain("“A signal at danger stops a train.”");
      expect(answer).not.toContain("Cows");
    }
    const facts = await talk(
      [question(renderTurnInput(turn))[0], { type: "text", text: "When does the box open?" }],
      none,
    );
    expect(facts.answer).toContain("The box opens at six.");
  });

  test("without passages it says what it is", async () => {
    sim = await startSim();
    const { answer } = await talk("Is there life on Mars?", none);
    expect(answer).toContain("Is there life on Mars?");
    expect(answer).toContain("simulated model");
  });

  test.each([
    ["My name is Ada Lovelace.", "What is my name?", "Ada Lovelace"],
    ["Call me Grace, please.", "Do you know who I am? What is my name?", "Grace"],
    ["my favourite colour is deep blue", "What's my favourite colour again?", "deep blue"],
    ["Remember that the code word is heron.", "What did I ask you to remember?", "the code word is heron"],
    ["Is there life on Mars?", "What was my first question?", "Is there life on Mars?"],
    ["我的名字: my name is 李雷。", "What is my name?", "李雷"],
  ])("follows the conversation: %s", async (told, asked, expected) => {
    sim = await startSim();
    const first = await talk(told, none);
    const second = await talk(asked, { ...none, earlier: first.messages });
    expect(second.answer).toContain(expected);
    expect((await talk(asked, none)).answer).not.toContain(expected);
  });

  test("a name told before is known although there are tools, and nothing is called for it", async () => {
    sim = await startSim();
    const first = await talk("My name is Ada.");
    const second = await talk("What is my name?", { earlier: first.messages });
    expect([first.calls, second.calls]).toEqual([[], []]);
    expect(second.answer).toContain("Your name is Ada");
  });

  test("an answer that must be JSON is JSON of that form", async () => {
    sim = await startSim();
    const schema = {
      type: "object",
      required: ["title", "sure"],
      properties: { title: { type: "string" }, sure: { type: "boolean" } },
    };
    const { answer } = await talk("Is there life?", {
      ...none,
      fields: { output_config: { format: { type: "json_schema", schema } } },
    });
    expect(JSON.parse(answer)).toEqual({ title: expect.stringContaining("Is there life?"), sure: true });
  });
});

describe("anything at all", () => {
  const strings = [
    "",
    " ",
    "?",
    "👩‍👩‍👧",
    "e\u0301",
    "\u2028",
    "\u0000",
    "<a>".repeat(5_000),
    "[[sim:",
    "{{{",
    "a".repeat(50_000),
    "日本語で？",
    "\u202Eright to left?",
  ];

  test.each(strings.map((text, place) => [place, text] as const))("message %i is answered", async (_, text) => {
    sim = await startSim();
    const { answer } = await talk([{ type: "text", text: `x${text}` }], { offered: [] });
    expect(answer.isWellFormed()).toBe(true);
    expect(answer).toContain("simulated model");
  });

  test("huge results are read in time and quoted in short", async () => {
    sim = await startSim();
    const line = "Nothing of interest stands here at all, only filler text. ";
    const act: typeof perform = (name, input) =>
      name.endsWith("read_text_file")
        ? { text: `${line.repeat(40_000)}\nMoney is counted in micro-dollars.`, isError: false }
        : perform(name, input);
    const beganAtMs = performance.now();
    const { answer } = await talk("What filler text stands in budgets?", { act });
    expect(answer.length).toBeLessThan(2_000);
    expect(performance.now() - beganAtMs).toBeLessThan(4_000);
  });

  test("documents in scripts without spaces are found by their characters", async () => {
    sim = await startSim();
    const text = "信号箱は列車を守ります。猫は魚を食べます。";
    const { answer } = await talk(`<document title="jp.md">${text}</document> 列車を守るのは何ですか`, { offered: [] });
    expect(answer).toContain("信号箱は列車を守ります。");
    expect(answer).not.toContain("猫");
  });
});
