/** Reading the fields a model request has on every wire, refusing what a provider would refuse. */
import type { Entry } from "../conversation.ts";
import type { JsonObject } from "../json.ts";
import { isObject, objectsOf, stringOf } from "../json.ts";
import { WireError } from "../wire-error.ts";

export function requiredModel(body: JsonObject): string {
  const model = body.model;
  if (typeof model !== "string" || model === "") {
    throw new WireError(400, "model: field required");
  }
  return model;
}

/** A positive whole number, `null` when absent. */
export function tokenLimit(body: JsonObject, field: string): number | null {
  const value = body[field];
  if (value === undefined || value === null) {
    return null;
  }
  if (typeof value !== "number" || !Number.isInteger(value) || value < 1) {
    throw new WireError(400, `${field}: must be a whole number of at least 1`);
  }
  return value;
}

export function requiredList(body: JsonObject, field: string): readonly JsonObject[] {
  const value = body[field];
  if (!Array.isArray(value) || value.length === 0) {
    throw new WireError(400, `${field}: at least one entry is required`);
  }
  if (!value.every(isObject)) {
    throw new WireError(400, `${field}: every entry must be an object`);
  }
  return objectsOf(value);
}

export interface Content {
  readonly texts: readonly string[];
  readonly attachmentCount: number;
}

const TEXT_TYPES: ReadonlySet<string> = new Set(["text", "input_text", "output_text", "refusal"]);
const ATTACHMENT_TYPES: ReadonlySet<string> = new Set([
  "image",
  "document",
  "image_url",
  "input_image",
  "input_file",
  "file",
  "input_audio",
]);

/** A string or a list of typed blocks; blocks of other types are none of its business. */
export function readContent(content: unknown): Content {
  if (typeof content === "string") {
    return { texts: content === "" ? [] : [content], attachmentCount: 0 };
  }
  const blocks = objectsOf(content);
  return {
    texts: blocks
      .filter((block) => TEXT_TYPES.has(stringOf(block.type)))
      .map((block) => stringOf(block.text ?? block.refusal)),
    attachmentCount: blocks.filter((block) => ATTACHMENT_TYPES.has(stringOf(block.type))).length,
  };
}

/** Entries of the same kind in a row (calls one by one, results one by one) are one entry of the conversation. */
export function joinEntries(entries: readonly Entry[]): readonly Entry[] {
  const joined: Entry[] = [];
  for (const entry of entries) {
    const last = joined.at(-1);
    const bothResults = entry.role === "user" && entry.results.length > 0 && (last?.results.length ?? 0) > 0;
    if (last !== undefined && last.role === entry.role && (entry.role === "assistant" || bothResults)) {
      joined[joined.length - 1] = {
        role: last.role,
        texts: [...last.texts, ...entry.texts],
        calls: [...last.calls, ...entry.calls],
        results: [...last.results, ...entry.results],
      };
    } else {
      joined.push(entry);
    }
  }
  return joined;
}

/** For wires on which each call and each result is named by an id: every call has its result and the other way round. */
export function checkCallsAnswered(entries: readonly Entry[]): void {
  const open = new Set<string>();
  for (const entry of entries) {
    if (entry.results.length === 0 && entry.role !== "system" && open.size > 0) {
      throw new WireError(400, `No tool output found for function call ${[...open].join(", ")}.`);
    }
    for (const result of entry.results) {
      if (!open.delete(result.callId)) {
        throw new WireError(400, `No tool call found for function call output with call_id ${result.callId}.`);
      }
    }
    for (const call of entry.calls) {
      open.add(call.id);
    }
  }
  if (open.size > 0) {
    throw new WireError(400, `No tool output found for function call ${[...open].join(", ")}.`);
  }
}
