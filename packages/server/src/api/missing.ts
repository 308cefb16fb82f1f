/** What an address names and nobody may see, in a sentence. One and the same for what is not there and what is another's. */
import { clip, ERROR_CODES, ID_PREFIX, isId, PlatformError, wellFormed, type IdKind } from "@signalbox/contract";

const NAME_LIMIT_CHARS = 80;

/** Parameters of addresses that are ids; the others are names, or either. */
const KINDS: Readonly<Record<string, { readonly word: string; readonly kind: IdKind }>> = {
  run: { word: "run", kind: "run" },
  conversation: { word: "conversation", kind: "conversation" },
  hold: { word: "hold", kind: "hold" },
  approval: { word: "approval", kind: "hold" },
  call: { word: "tool call", kind: "toolCall" },
  stop: { word: "stop", kind: "stop" },
  webhook: { word: "webhook", kind: "webhook" },
  delivery: { word: "delivery", kind: "delivery" },
};

/** The same error; where it is a bare `not_found`, with what the address names as its detail. */
export function namingMissing(error: PlatformError, params: unknown): PlatformError {
  if (error.code !== "not_found" || error.detail !== ERROR_CODES.not_found.title) return error;
  const named = Object.entries(typeof params === "object" && params !== null ? params : {}).filter(
    (pair): pair is [string, string] => typeof pair[1] === "string" && pair[0] !== "*",
  );
  if (named.length === 0) return error;
  const hints = named.flatMap(([name, value]) => {
    const known = KINDS[name];
    return known === undefined || isId(known.kind, value)
      ? []
      : [` The id of a ${known.word} begins with ${ID_PREFIX[known.kind]}_ and has 32 digits after it.`];
  });
  const things = named.reverse().map(([name, value]) => {
    return `${KINDS[name]?.word ?? name} "${clip(wellFormed(value), NAME_LIMIT_CHARS)}"`;
  });
  return new PlatformError("not_found", `There is no ${things.join(" of ")}.${hints.join("")}`, { cause: error });
}
