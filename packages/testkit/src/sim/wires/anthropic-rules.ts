/**
 * What the Messages API refuses although the JSON is well formed. A double that takes everything would let a history
 * through that the real provider answers with 400 for ever.
 */
import { isForged } from "../ids.ts";
import type { JsonObject } from "../json.ts";
import { isObject, objectsOf, stringOf } from "../json.ts";
import { WireError } from "../wire-error.ts";

const TOOL_NAME = /^[a-zA-Z0-9_-]{1,128}$/;
const ROLES: ReadonlySet<unknown> = new Set(["user", "assistant", "system"]);

export function checkTools(tools: readonly JsonObject[]): void {
  const seen = new Set<string>();
  for (const [place, tool] of tools.entries()) {
    const name = stringOf(tool.name);
    if (!TOOL_NAME.test(name)) {
      throw new WireError(400, `tools.${place}.name: must match ${TOOL_NAME.source}`);
    }
    if (seen.has(name)) {
      throw new WireError(400, "tools: tool names must be unique");
    }
    seen.add(name);
    const ownKind = tool.type === undefined || tool.type === "custom";
    if (ownKind && (!isObject(tool.input_schema) || tool.input_schema.type !== "object")) {
      throw new WireError(400, `tools.${place}.input_schema.type: must be "object"`);
    }
  }
}

export function checkHistory(messages: readonly JsonObject[]): void {
  let open: ReadonlySet<string> = new Set();
  let isFirst = true;
  for (const [place, message] of messages.entries()) {
    checkMessage(message, { place, isLast: place === messages.length - 1 });
    if (message.role === "system") {
      continue;
    }
    if (isFirst && message.role !== "user") {
      throw new WireError(400, "messages: the first message must have the role user");
    }
    isFirst = false;
    open = checkResults(message, { place, open });
  }
  if (open.size > 0) {
    throw missingResults(messages.length - 1, open);
  }
}

interface Place {
  readonly place: number;
  readonly isLast: boolean;
}

function checkMessage(message: JsonObject, { place, isLast }: Place): void {
  if (!ROLES.has(message.role)) {
    throw new WireError(400, `messages.${place}.role: must be user or assistant`);
  }
  const { content } = message;
  const isEmpty =
    content === undefined || content === null || content === "" || (Array.isArray(content) && content.length === 0);
  if (isEmpty && !(isLast && message.role === "assistant")) {
    throw new WireError(400, `messages.${place}: content must not be empty`);
  }
  for (const [at, block] of objectsOf(content).entries()) {
    if (block.type === "text" && stringOf(block.text) === "") {
      throw new WireError(400, `messages.${place}.content.${at}: text content blocks must not be empty`);
    }
    if (block.type === "text" && stringOf(block.text).trim() === "") {
      throw new WireError(
        400,
        `messages.${place}.content.${at}: text content blocks must contain more than white space`,
      );
    }
    if (block.type === "thinking" && stringOf(block.signature) === "") {
      throw new WireError(400, `messages.${place}.content.${at}.thinking.signature: field required`);
    }
    if (block.type === "thinking" && isForged(stringOf(block.thinking), stringOf(block.signature))) {
      throw new WireError(400, `messages.${place}.content.${at}: invalid signature in thinking block`);
    }
  }
}

/** The ids of the calls this message leaves unanswered; ends with a `WireError` when it did not answer the earlier ones. */
function checkResults(
  message: JsonObject,
  { place, open }: { readonly place: number; readonly open: ReadonlySet<string> },
): ReadonlySet<string> {
  const blocks = objectsOf(message.content);
  const unanswered = new Set(open);
  for (const block of blocks) {
    if (block.type === "tool_result" && !unanswered.delete(stringOf(block.tool_use_id))) {
      throw new WireError(
        400,
        `messages.${place}: tool_result ${stringOf(block.tool_use_id)} has no tool_use block in the message before it`,
      );
    }
  }
  if (unanswered.size > 0) {
    throw missingResults(place - 1, unanswered);
  }
  return new Set(blocks.filter((block) => block.type === "tool_use").map((block) => stringOf(block.id)));
}

function missingResults(place: number, ids: ReadonlySet<string>): WireError {
  const named = [...ids].join(", ");
  return new WireError(400, `messages.${place}: tool_use ids without tool_result blocks right after: ${named}`);
}
