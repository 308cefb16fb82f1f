/** What a client reads of a result, what the ledger says of it in short, and what goes on to the next exchange about it. */
import { clip } from "@signalbox/contract";
import { isObject, type Json } from "../mcp-protocol.ts";
import type { McpRequest } from "../mcp-request.ts";
import type { CarriedState } from "./carried-state.ts";

export const TEXT_BYTES_MAX = 40 * 1024;
export const SUMMARY_CHARS = 200;

interface Edited {
  readonly isEdited: boolean;
  readonly argumentsJson: string;
}

/** The client's model goes on from the arguments it wrote; that others were used it learns here. */
export function told({ isEdited, argumentsJson }: Edited, result: Json): Json {
  if (!isEdited) return result;
  const text = `A person changed the arguments of this call before it was made: ${argumentsJson}`;
  const content: readonly unknown[] = Array.isArray(result.content) ? result.content : [];
  return { ...result, content: [{ type: "text", text }, ...content] };
}

/** What of a client's answers goes to its server: nothing of what was between the client and this gate. */
export function carriedOf({ params, modern }: McpRequest, state: CarriedState | null): Json {
  if (!modern) return {};
  const { inputResponses } = params;
  const requestState = state === null ? params.requestState : (state.upstream ?? undefined);
  return {
    ...(inputResponses === undefined ? {} : { inputResponses }),
    ...(requestState === undefined ? {} : { requestState }),
  };
}

/** Whether the result passes as it is. */
export function isShort(result: Json, bytesMax: number): boolean {
  const blocks = Array.isArray(result.content) ? result.content.filter(isObject) : [];
  const structured = result.structuredContent === undefined ? "" : JSON.stringify(result.structuredContent);
  let bytes = Buffer.byteLength(structured);
  for (const block of blocks) {
    const inner = isObject(block.resource) ? block.resource.text : block.text;
    if (typeof inner === "string") bytes += Buffer.byteLength(inner);
  }
  return bytes <= bytesMax;
}

export function summaryOf(result: Json): string {
  const blocks = Array.isArray(result.content) ? result.content.filter(isObject) : [];
  const text = blocks.find((block) => block.type === "text")?.text;
  if (typeof text === "string") return clip(text, SUMMARY_CHARS);
  return result.resultType === "input_required" ? "It asked for input." : "";
}
