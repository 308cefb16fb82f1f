import type { SDKUserMessage } from "@anthropic-ai/claude-agent-sdk";
import { expect, test } from "vitest";
import { MessageInput } from "./message-input.ts";

const message = (text: string): SDKUserMessage => ({
  type: "user",
  parent_tool_use_id: null,
  message: { role: "user", content: text },
});

test("messages come out one by one, whether they or the reader were first, until it is closed", async () => {
  const input = new MessageInput();
  const reader = input[Symbol.asyncIterator]();
  input.push(message("first"));
  expect(await reader.next()).toEqual({ done: false, value: message("first") });
  const waiting = reader.next();
  input.push(message("second"));
  expect(await waiting).toEqual({ done: false, value: message("second") });
  const last = reader.next();
  input.close();
  expect(await last).toEqual({ done: true, value: undefined });
});

test("there is room for one", () => {
  const input = new MessageInput();
  input.push(message("first"));
  expect(() => input.push(message("second"))).toThrow("has not taken");
});
