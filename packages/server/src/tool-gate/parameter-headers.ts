/**
 * Parameters that a tool's schema wants repeated as headers (`x-mcp-header`), for servers over HTTP. Only those that
 * are reached from the root by `properties` alone count, as the protocol says.
 */
import { headerValue, isObject, type Json } from "./mcp-protocol.ts";

const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$/;
const DEPTH_MAX = 8;

export function parameterHeaders(schema: Json, input: unknown): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  collect(headers, { schema, input, depth: 0 });
  return headers;
}

function collect(
  headers: Record<string, string>,
  at: { readonly schema: Json; readonly input: unknown; readonly depth: number },
): void {
  const { schema, input, depth } = at;
  if (!isObject(schema.properties) || !isObject(input) || depth > DEPTH_MAX) return;
  for (const [name, property] of Object.entries(schema.properties)) {
    const value = input[name];
    if (!isObject(property) || value === undefined || value === null) continue;
    const header = property["x-mcp-header"];
    if (typeof header === "string" && HEADER_NAME.test(header) && isPlain(value)) {
      headers[`mcp-param-${header.toLowerCase()}`] = headerValue(String(value));
    } else {
      collect(headers, { schema: property, input: value, depth: depth + 1 });
    }
  }
}

function isPlain(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "boolean" || Number.isSafeInteger(value);
}
