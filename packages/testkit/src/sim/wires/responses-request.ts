/** `POST /v1/responses`: from the wire's body to a conversation. Nothing is stored between requests. */
import type { Entry, SimRequest } from "../conversation.ts";
import type { JsonObject } from "../json.ts";
import { isObject, objectOf, objectsOf, parseArguments, stringOf } from "../json.ts";
import { WireError } from "../wire-error.ts";
import { outputSchema, toolChoice } from "./completions-request.ts";
import {
  checkCallsAnswered,
  joinEntries,
  readContent,
  requiredList,
  requiredModel,
  tokenLimit,
} from "./request-fields.ts";

export function parseResponses(body: JsonObject): SimRequest {
  refuseStored(body);
  const model = requiredModel(body);
  const items: readonly JsonObject[] =
    typeof body.input === "string" ? [{ role: "user", content: body.input }] : requiredList(body, "input");
  const entries = joinEntries(items.flatMap(entriesOf));
  checkCallsAnswered(entries);
  return {
    wire: "responses",
    model,
    stream: body.stream === true,
    streamsUsage: true,
    maxOutputTokens: tokenLimit(body, "max_output_tokens"),
    stopSequences: [],
    thinking: isObject(body.reasoning),
    toolChoice: toolChoice(body.tool_choice),
    outputSchema: outputSchema(objectOf(objectOf(body.text).format)),
    system: stringOf(body.instructions),
    tools: objectsOf(body.tools)
      .filter((tool) => tool.type === "function")
      .map((tool) => ({
        name: stringOf(tool.name),
        description: stringOf(tool.description),
        inputSchema: objectOf(tool.parameters),
      })),
    entries,
    cached: false,
    attachmentCount: items.reduce((sum, item) => sum + readContent(item.content).attachmentCount, 0),
  };
}

function refuseStored(body: JsonObject): void {
  if (typeof body.previous_response_id === "string") {
    throw new WireError(400, `Previous response with id '${body.previous_response_id}' not found.`);
  }
  for (const field of ["background", "conversation"]) {
    const value = body[field];
    if (value !== undefined && value !== null && value !== false) {
      throw new WireError(400, `${field}: not served by the simulated model`);
    }
  }
}

function entriesOf(item: JsonObject, place: number): readonly Entry[] {
  switch (item.type ?? "message") {
    case "message": {
      const role = item.role === "assistant" || item.role === "user" ? item.role : "system";
      return [{ role, texts: readContent(item.content).texts, calls: [], results: [] }];
    }
    case "function_call": {
      const input = parseArguments(stringOf(item.arguments));
      const call = { id: stringOf(item.call_id), name: stringOf(item.name), input };
      return [{ role: "assistant", texts: [], calls: [call], results: [] }];
    }
    case "function_call_output": {
      const result = {
        callId: stringOf(item.call_id),
        text: readContent(item.output).texts.join("\n"),
        isError: false,
      };
      return [{ role: "user", texts: [], calls: [], results: [result] }];
    }
    case "reasoning":
      return [];
    default:
      throw new WireError(400, `input.${place}.type: '${stringOf(item.type)}' is not served by the simulated model`);
  }
}
