/** Puts the events of a recorded stream together to the answer a caller gets who did not ask for a stream. */
import type { WireName } from "../conversation.ts";
import { type JsonObject, objectOf, objectsOf, parseArguments, stringOf } from "../json.ts";

export function wholeOfEvents(wire: WireName, events: readonly JsonObject[]): JsonObject {
  switch (wire) {
    case "anthropic":
      return anthropicWhole(events);
    case "completions":
      return completionsWhole(events);
    case "responses":
      return objectOf(events.findLast((event) => event.response !== undefined)?.response);
  }
}

function anthropicWhole(events: readonly JsonObject[]): JsonObject {
  let message: JsonObject = {};
  const blocks = new Map<unknown, Record<string, unknown>>();
  const json = new Map<unknown, string>();
  for (const event of events) {
    const delta = objectOf(event.delta);
    const block = blocks.get(event.index);
    switch (event.type) {
      case "message_start":
        message = objectOf(event.message);
        break;
      case "content_block_start":
        blocks.set(event.index, { ...objectOf(event.content_block) });
        break;
      case "content_block_delta":
        for (const field of ["text", "thinking", "signature"].filter((name) => typeof delta[name] === "string")) {
          if (block !== undefined) {
            block[field] = stringOf(block[field]) + stringOf(delta[field]);
          }
        }
        json.set(event.index, (json.get(event.index) ?? "") + stringOf(delta.partial_json));
        break;
      case "content_block_stop":
        if (block?.type === "tool_use") {
          block.input = parseArguments(json.get(event.index) ?? "");
        }
        break;
      case "message_delta":
        message = { ...message, ...delta, usage: { ...objectOf(message.usage), ...objectOf(event.usage) } };
        break;
      default:
        break;
    }
  }
  return { ...message, content: [...blocks.values()] };
}

function completionsWhole(events: readonly JsonObject[]): JsonObject {
  const deltas = events.map((event) => objectOf(objectsOf(event.choices)[0]));
  const calls: { id: string; type: "function"; function: { name: string; arguments: string } }[] = [];
  for (const call of deltas.flatMap((choice) => objectsOf(objectOf(choice.delta).tool_calls))) {
    const named = objectOf(call.function);
    const place = typeof call.index === "number" ? call.index : calls.length;
    const known = (calls[place] ??= { id: stringOf(call.id), type: "function", function: { name: "", arguments: "" } });
    known.function.name += stringOf(named.name);
    known.function.arguments += stringOf(named.arguments);
  }
  const text = deltas.map((choice) => stringOf(objectOf(choice.delta).content)).join("");
  const message = {
    role: "assistant",
    content: text === "" ? null : text,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  const finish = deltas.map((choice) => choice.finish_reason).findLast((reason) => typeof reason === "string") ?? null;
  return {
    ...events[0],
    object: "chat.completion",
    choices: [{ index: 0, message, finish_reason: finish }],
    usage: events.findLast((event) => event.usage !== undefined && event.usage !== null)?.usage ?? null,
  };
}
