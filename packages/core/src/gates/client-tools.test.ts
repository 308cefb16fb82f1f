import { expect, it } from "vitest";
import { clientSnapshotTools, isClientTool, refusedAnswer, wordAbout } from "./client-tools.ts";
import { NO_WORD } from "./policy/assemble.ts";

const OPEN_APP = {
  name: "open_app",
  description: "Open a page.",
  inputSchema: { type: "object" as const },
  effect: "write" as const,
  patienceMs: 60_000,
};
const hash = (text: string): string => `#${text.length}`;

it("freezes what an agent declares, and its question to the person where it may ask one", () => {
  expect(clientSnapshotTools({ clientTools: [], askUser: false }, hash)).toEqual([]);
  const tools = clientSnapshotTools({ clientTools: [OPEN_APP], askUser: true }, hash);
  expect(tools).toMatchObject([
    { name: "open_app", tool: "open_app", server: "@client", effect: "write", patienceMs: 60_000 },
    { name: "ask_user", effect: "read" },
  ]);
  expect(tools.every(isClientTool)).toBe(true);
  expect(isClientTool({ server: "client" })).toBe(false);
});

it("is classified by its agent, and no other tool is", () => {
  expect(wordAbout({ server: "@client", effect: "write" }, NO_WORD)).toMatchObject({
    effect: "write",
    isClassified: true,
  });
  expect(wordAbout({ server: "shop", effect: "write" }, NO_WORD)).toBe(NO_WORD);
  expect(wordAbout(undefined, NO_WORD)).toBe(NO_WORD);
});

it("has another definition when anything that the model reads changes", () => {
  const hashOf = (tool: Partial<typeof OPEN_APP>) =>
    clientSnapshotTools({ clientTools: [{ ...OPEN_APP, ...tool }], askUser: false }, (text) => text)[0]?.definitionHash;
  expect(hashOf({ description: "Open another page." })).not.toBe(hashOf({}));
  expect(hashOf({ patienceMs: 1 })).toBe(hashOf({}));
});

it("takes an answer in anybody's words, unless there are choices", () => {
  expect(refusedAnswer({ question: "Which?" }, "whatever")).toBeNull();
  expect(refusedAnswer({ question: "Which?", choices: ["red", "blue"] }, "red")).toBeNull();
  expect(refusedAnswer({ question: "Which?", choices: ["red", "blue"] }, "green")).toMatch(
    /one of the choices: "red", "blue"/,
  );
  expect(refusedAnswer({ question: "Which?", choices: ["red", "blue"] }, undefined)).not.toBeNull();
});

it("of a question of its own demands words, unless a schema says what an answer is", () => {
  const asked = { tool: "ask_user", question: "How many?" };
  expect(refusedAnswer(asked, "three")).toBeNull();
  for (const none of [undefined, null, "", "  ", 3, { text: "three" }, "x".repeat(40_001)]) {
    expect(refusedAnswer(asked, none)).not.toBeNull();
  }
  expect(refusedAnswer({ ...asked, schema: { type: "integer" } }, 3)).toBeNull();
});
