import { describe, expect, it } from "vitest";
import { toolResult, userMessage, type Message } from "./message.ts";
import { requestBody, requestHead, wireMessages } from "./model-request.ts";

const MODEL = "sim/one";

function assistant(...content: Message["content"]): Message {
  return { role: "assistant", content, model: MODEL };
}

function uses(...ids: readonly string[]): Message {
  return assistant(...ids.map((id) => ({ type: "tool_use", id, name: "t", input: {} }) as const));
}

function result(id: string, text: string): Message {
  return toolResult(id, { content: [{ type: "text", text }], isError: false });
}

/** `user: text, ←id text` a message. */
function shape(messages: readonly Message[]): readonly string[] {
  return wireMessages(messages, MODEL).map(({ role, content }) => {
    const parts = content.map((block) => {
      const { type, text, id, tool_use_id: answers, content: inner } = block as Record<string, unknown>;
      const said = ((inner ?? []) as { readonly text: string }[]).map((each) => each.text).join("");
      return type === "text"
        ? text
        : type === "tool_use"
          ? `→${String(id)}`
          : type === "tool_result"
            ? `←${String(answers)} ${said}`
            : type;
    });
    return `${role}: ${parts.join(", ")}`;
  });
}

describe("messages as a provider accepts them", () => {
  it("puts results right behind their calls, in the order of the calls, before anything else is said", () => {
    expect(
      shape([userMessage(["go"]), uses("a", "b"), result("b", "B"), result("a", "A"), userMessage(["next"])]),
    ).toEqual(["user: go", "assistant: →a, →b", "user: ←a A, ←b B, next"]);
  });

  it("says of a call without result that its outcome is not known", () => {
    const [, , third] = shape([userMessage(["go"]), uses("a", "b"), result("b", "B"), userMessage(["next"])]);
    expect(third).toMatch(/^user: ←a The outcome of this call is not known.*, ←b B, next$/);
  });

  it("leaves out a result without call, empty texts and messages that are nothing", () => {
    expect(
      shape([
        userMessage(["", "hi", " \n"]),
        result("gone", "x"),
        assistant({ type: "text", text: "" }),
        userMessage(["still me"]),
      ]),
    ).toEqual(["user: hi, still me"]);
  });

  it("joins what one side said in several messages, and begins with the user", () => {
    const first = assistant({ type: "text", text: "As I said" });
    expect(shape([first, assistant({ type: "text", text: "so" }), userMessage(["ok"])])).toEqual([
      "user: (The conversation began before this point.)",
      "assistant: As I said, so",
      "user: ok",
    ]);
  });

  it("replays thinking whole, signed, and only to the model that thought it", () => {
    const thoughts: Message["content"] = [
      { type: "thinking", thinking: "Hm.", signature: "s" },
      { type: "thinking", thinking: "unsigned", signature: "" },
      { type: "redacted_thinking", data: "d" },
      { type: "text", text: "Yes" },
    ];
    const other: Message = { role: "assistant", content: thoughts, model: "sim/other" };
    expect(shape([userMessage(["a"]), assistant(...thoughts), userMessage(["b"])])[1]).toBe(
      "assistant: thinking, redacted_thinking, Yes",
    );
    expect(shape([userMessage(["a"]), other, userMessage(["b"])])[1]).toBe("assistant: Yes");
  });

  it("changes nothing that is stored", () => {
    const messages = [userMessage(["go", ""]), uses("a"), userMessage(["next"])];
    const before = JSON.stringify(messages);
    wireMessages(messages, MODEL);
    expect(JSON.stringify(messages)).toBe(before);
  });

  it("marks the last thing said to the model for the provider's cache, never an empty one", () => {
    const wire = wireMessages(
      [userMessage(["a"]), assistant({ type: "text", text: "b" }), userMessage(["c", ""])],
      MODEL,
    );
    expect(wire.at(-1)?.content).toEqual([{ type: "text", text: "c", cache_control: { type: "ephemeral" } }]);
    expect(JSON.stringify(wire.slice(0, -1))).not.toContain("cache_control");
  });
});

describe("the head of a request", () => {
  const snapshot = {
    agentId: "a",
    agentName: "a",
    revision: 1,
    runtime: "langgraph",
    instructions: "Be kind.",
    model: MODEL,
    maxOutputTokens: 7,
    tools: [],
    limits: { modelCallCount: 1, toolCallCount: 1, wallClockMs: 1 },
  };

  it("is valid JSON together with its messages", () => {
    const body: unknown = JSON.parse(requestBody(requestHead(snapshot), [userMessage(["hi"])], MODEL));
    expect(body).toMatchObject({ model: MODEL, max_tokens: 7, stream: true, messages: [{ role: "user" }] });
  });

  it("has no empty system text and no empty list of tools", () => {
    const head = `${requestHead({ ...snapshot, instructions: " \n" })}}`;
    expect(Object.keys(JSON.parse(head) as object)).toEqual(["model", "max_tokens", "stream"]);
  });
});
