/**
 * Plain JSON and nothing else, both ways. LangGraph's own serializer turns certain plain objects back into class
 * instances, so that a tool could plant a system message in the state; here an object is never more than its members.
 */
import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";

export const strictSerializer: SerializerProtocol = {
  dumpsTyped: (value: unknown) =>
    Promise.resolve(
      value instanceof Uint8Array ? ["bytes", value] : ["json", new TextEncoder().encode(strictJson(value))],
    ),
  loadsTyped: (type: string, data: Uint8Array | string) => {
    if (type === "bytes") {
      return Promise.resolve(typeof data === "string" ? new TextEncoder().encode(data) : data);
    }
    const read: unknown = JSON.parse(typeof data === "string" ? data : new TextDecoder().decode(data));
    return Promise.resolve(read);
  },
};

/** JSON text of a value made only of what JSON can say. Throws a `TypeError` for anything else. */
export function strictJson(value: unknown): string {
  // For undefined itself there is no text, which the library's type leaves out.
  const text = JSON.stringify(value, refuseForeign) as string | undefined;
  if (text === undefined) {
    throw new TypeError("A checkpoint has no place for undefined.");
  }
  return text;
}

function refuseForeign(this: unknown, key: string, value: unknown): unknown {
  // `value` may already be what a toJSON made of it; the holder still has the original.
  const original = (this as Record<string, unknown>)[key];
  if (typeof original === "object" && original !== null && !Array.isArray(original)) {
    const kind: unknown = Object.getPrototypeOf(original);
    if (kind !== Object.prototype && kind !== null) {
      throw new TypeError(`A checkpoint has no place for a ${original.constructor.name}.`);
    }
  }
  if (typeof original === "function" || typeof original === "bigint" || typeof original === "symbol") {
    throw new TypeError(`A checkpoint has no place for a ${typeof original}.`);
  }
  return value;
}
