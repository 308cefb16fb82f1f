/** `POST /v1/chat/completions`: from the wire's body to a conversation. */
import type { Entry, OfferedTool, SimRequest, ToolCall, ToolChoice } from "../conversation.ts";
import type { JsonObject } from "../json.ts";
import { objectOf, objectsOf, parseArguments, stringOf, stringsOf } from "../json.ts";
import { WireError } from "../wire-error.ts";
import {
  checkCallsAnswered,
  joinEntries,
  readContent,
  requiredList,
  requiredModel,
  tokenLimit,
} from "./request-fields.ts";

export function parseCompletions(body: JsonObject): SimRequest {
  const model = requiredModel(body);
  const messages = requiredList(body, "messages");
  if (body.n !== undefined && body.n !== null && body.n !== 1) {
    throw new WireError(400, "n: only one choice is served");
  }
  const entries = joinEntries(messages.map(entryOf));
  checkCallsAnswered(entries);
  return {
    wire: "completions",
    model,
    stream: body.stream === true,
    streamsUsage: objectOf(body.stream_options).include_usage === true,
    maxOutputTokens: tokenLimit(body, "max_completion_tokens") ?? tokenLimit(body, "max_tokens"),
    stopSequences: typeof body.stop === "string" ? [body.stop] : stringsOf(body.stop),
    thinking: false,
    toolChoice: toolChoice(body.tool_choice),
    outputSchema: outputSchema(objectOf(body.response_format)),
    system: "",
    tools: objectsOf(body.tools)
      .filter((tool) => tool.type === "function")
      .map(offeredTool),
    entries,
    cached: false,
    attachmentCount: messages.reduce((sum, message) => sum + readContent(message.content).attachmentCount, 0),
  };
}

function entryOf(message: JsonObject, place: number): Entry {
  const { texts } = readContent(message.content);
  const nothing = { texts, calls: [], results: [] };
  switch (message.role) {
    case "system":
    case "developer":
      return { role: "system", ...nothing };
    case "user":
      return { role: "user", ...nothing };
    case "assistant":
      return { role: "assistant", ...nothing, calls: objectsOf(message.tool_calls).map(toolCall) };
    case "tool": {
      const result = { callId: stringOf(message.tool_call_id), text: texts.join("\n"), isError: false };
      return { role: "user", texts: [], calls: [], results: [result] };
    }
    default:
      throw new WireError(400, `messages.${place}.role: must be system, developer, user, assistant or tool`);
  }
}

function toolCall(call: JsonObject): ToolCall {
  const called = objectOf(call.function);
  return { id: stringOf(call.id), name: stringOf(called.name), input: parseArguments(stringOf(called.arguments)) };
}

function offeredTool(tool: JsonObject): OfferedTool {
  const offered = objectOf(tool.function);
  return {
    name: stringOf(offered.name),
    description: stringOf(offered.description),
    inputSchema: objectOf(offered.parameters),
  };
}

export function toolChoice(value: unknown): ToolChoice {
  if (value === "none") {
    return "none";
  }
  if (value === "required") {
    return "any";
  }
  const chosen = objectOf(value);
  const name = stringOf(objectOf(chosen.function).name ?? chosen.name);
  return name === "" ? "auto" : { name };
}

/** `json_object` asks for any object at all. */
export function outputSchema(format: JsonObject): JsonObject | null {
  if (format.type === "json_schema") {
    return objectOf(objectOf(format.json_schema).schema ?? format.schema);
  }
  return format.type === "json_object" ? { type: "object" } : null;
}
