import { describe, expect, it } from "vitest";
import { actorClaimSchema } from "./actor-claim.ts";
import { createAgentSchema } from "./agents.ts";
import { createConversationSchema } from "./conversations.ts";
import { sendMessageSchema } from "./messages.ts";
import { pageQuerySchema } from "./page.ts";

describe("the query of a list", () => {
  it("has defaults", () => {
    expect(pageQuerySchema.parse({})).toEqual({ limit: 50, order: "desc" });
  });

  it.each(["1", "50", "200", "0050"])("takes a limit of %j", (limit) => {
    expect(pageQuerySchema.parse({ limit }).limit).toBe(Number(limit));
  });

  it.each(["0", "201", "-1", "1.5", "1e2", "0x10", " 5", "", "NaN", "99999999999999999999", "five", ["1", "2"]])(
    "refuses a limit of %j",
    (limit) => {
      expect(pageQuerySchema.safeParse({ limit }).error?.issues[0]?.path).toEqual(["limit"]);
    },
  );

  it.each([{ order: "up" }, { cursor: "" }, { cursor: "x".repeat(513) }, { page: "2" }])("refuses %j", (query) => {
    expect(pageQuerySchema.safeParse(query).success).toBe(false);
  });
});

describe("a new agent", () => {
  it("needs a name and a model", () => {
    expect(createAgentSchema.parse({ name: "support", model: "sim/quote" })).toEqual({
      name: "support",
      runtime: "langgraph",
      model: "sim/quote",
      instructions: "",
      tools: [],
      clientTools: [],
      askUser: false,
      maxOutputTokens: 8_192,
      whenBusy: "enqueue",
    });
  });

  it.each([
    ["name", "Support"],
    ["name", "-support"],
    ["name", "a".repeat(64)],
    ["name", ""],
    ["model", "sonnet"],
    ["model", "/sonnet"],
    ["model", "anthropic/"],
    ["tools", ["search"]],
    ["tools", ["files/"]],
    ["maxOutputTokens", 0],
    ["maxOutputTokens", 1.5],
    ["maxOutputTokens", "8192"],
    ["runtime", ""],
    ["effort", "high"],
  ])("refuses %s = %j", (field, value) => {
    expect(createAgentSchema.safeParse({ name: "support", model: "sim/quote", [field]: value }).success).toBe(false);
  });
});

describe("a new conversation", () => {
  it("takes at most 16 labels", () => {
    const labels = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, "v"]));
    expect(createConversationSchema.safeParse({ agent: "support", metadata: labels(16) }).success).toBe(true);
    expect(createConversationSchema.safeParse({ agent: "support", metadata: labels(17) }).success).toBe(false);
    expect(createConversationSchema.safeParse({ agent: "support", metadata: { k: 1 } }).success).toBe(false);
  });
});

describe("a message", () => {
  it("is text, or parts of text", () => {
    expect(sendMessageSchema.safeParse({ content: "hello" }).success).toBe(true);
    expect(sendMessageSchema.safeParse({ content: [{ type: "text", text: "hello" }] }).success).toBe(true);
    expect(sendMessageSchema.safeParse({ content: [] }).success).toBe(false);
    expect(sendMessageSchema.safeParse({ content: [{ type: "image", url: "x" }] }).success).toBe(false);
    expect(sendMessageSchema.safeParse({}).success).toBe(false);
  });

  it("may name what is not served yet, so that admission can refuse it by name", () => {
    expect(sendMessageSchema.safeParse({ content: "hello", effort: "high", attachments: [] }).success).toBe(true);
    expect(sendMessageSchema.safeParse({ content: "hello", mood: "good" }).success).toBe(false);
  });
});

describe("an actor's claim", () => {
  it("needs a user and nothing more", () => {
    expect(actorClaimSchema.parse({ user: "u_42" })).toEqual({ user: "u_42", roles: [], units: [] });
    for (const claim of [{}, { user: "" }, { user: "u", admin: true }, { user: "u", roles: "boss" }, null, []]) {
      expect(actorClaimSchema.safeParse(claim).success).toBe(false);
    }
  });
});
