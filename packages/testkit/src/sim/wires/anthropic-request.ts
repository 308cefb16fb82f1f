/** `POST /v1/messages` and `/v1/messages/count_tokens`: from the wire's body to a conversation. */
import type { Entry, OfferedTool, SimRequest, ToolCall, ToolChoice, ToolResult } from "../conversation.ts";
import type { JsonObject } from "../json.ts";
import { isObject, objectOf, objectsOf, stringOf, stringsOf } from "../json.ts";
import { WireError } from "../wire-error.ts";
import { checkHistory, checkTools } from "./anthropic-rules.ts";
import { readContent, requiredList, requiredModel, tokenLimit } from "./request-fields.ts";

export function parseMessages(body: JsonObject): SimRequest {
  const maxOutputTokens = tokenLimit(body, "max_tokens");
  if (maxOutputTokens === null) {
    throw new WireError(400, "max_tokens: field required");
  }
  return { ...parseConversation(body), maxOutputTokens };
}

/** Without `max_tokens`: counting tokens asks for the conversation alone. */
export function parseConversation(body: JsonObject): SimRequest {
  const model = requiredModel(body);
  const messages = requiredList(body, "messages");
  checkHistory(messages);
  const tools = objectsOf(body.tools);
  checkTools(tools);
  const contents = messages.map((message) => readContent(message.content));
  const thinking = stringOf(objectOf(body.thinking).type);
  return {
    wire: "anthropic",
    model,
    stream: body.stream === true,
    streamsUsage: true,
    maxOutputTokens: null,
    stopSequences: stringsOf(body.stop_sequences),
    thinking: thinking === "enabled" || thinking === "adaptive",
    toolChoice: toolChoice(body.tool_choice),
    outputSchema: outputSchema(body),
    system: readContent(body.system).texts.join("\n"),
    tools: tools.filter((tool) => isObject(tool.input_schema)).map(offeredTool),
    entries: messages.map(entryOf),
    cached: isCached(body, [...messages, ...tools]),
    attachmentCount: contents.reduce((sum, content) => sum + content.attachmentCount, 0),
  };
}

function entryOf(message: JsonObject): Entry {
  const blocks = objectsOf(message.content);
  const role = message.role === "assistant" || message.role === "system" ? message.role : "user";
  return {
    role,
    texts: readContent(message.content).texts,
    calls: blocks.filter((block) => block.type === "tool_use").map(toolCall),
    results: blocks.filter((block) => block.type === "tool_result").map(toolResult),
  };
}

function toolCall(block: JsonObject): ToolCall {
  return { id: stringOf(block.id), name: stringOf(block.name), input: objectOf(block.input) };
}

function toolResult(block: JsonObject): ToolResult {
  return {
    callId: stringOf(block.tool_use_id),
    text: readContent(block.content).texts.join("\n"),
    isError: block.is_error === true,
  };
}

function offeredTool(tool: JsonObject): OfferedTool {
  return {
    name: stringOf(tool.name),
    description: stringOf(tool.description),
    inputSchema: objectOf(tool.input_schema),
  };
}

function toolChoice(value: unknown): ToolChoice {
  const { type, name } = objectOf(value);
  if (type === "tool") {
    return { name: stringOf(name) };
  }
  return type === "any" || type === "none" ? type : "auto";
}

function outputSchema(body: JsonObject): JsonObject | null {
  const format = objectOf(objectOf(body.output_config).format ?? body.output_format);
  return format.type === "json_schema" ? objectOf(format.schema) : null;
}

function isCached(body: JsonObject, holders: readonly JsonObject[]): boolean {
  const marked = (value: JsonObject) => isObject(value.cache_control);
  return (
    marked(body) ||
    objectsOf(body.system).some(marked) ||
    holders.some((holder) => marked(holder) || objectsOf(holder.content).some(marked))
  );
}
