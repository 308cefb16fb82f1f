/** A model that does what the newest message says: `«name verb verb»`. It answers `to name`. */
import type { ScriptedAnswer, SimRequest } from "@signalbox/testkit";

/**
 * `wait` calls the tool of that name first; `again` calls it until another message comes in; `long` speaks slowly;
 * `fail` is refused by the provider after everything else.
 */
export type Verb = "wait" | "again" | "long" | "fail" | "hang";

export function told(name: string, ...verbs: readonly Verb[]): string {
  return `«${[name, ...verbs].join(" ")}»`;
}

export function toldModel(request: SimRequest): ScriptedAnswer {
  const at = request.entries.findLastIndex(({ role, texts }) => role === "user" && lastOf(texts.join("\n")) !== null);
  const [name = "nobody", ...verbs] = lastOf(request.entries[at]?.texts.join("\n") ?? "") ?? [];
  const called = request.entries.slice(at).some(({ results }) => results.length > 0);
  const tool = request.tools.find((each) => each.name.endsWith("wait"))?.name;
  if (tool !== undefined && (verbs.includes("again") || (verbs.includes("wait") && !called))) {
    return { parts: [{ tool, input: {} }] };
  }
  if (verbs.includes("fail")) return { status: 400 };
  if (verbs.includes("hang")) return { parts: [{ text: `to ${name} and `, break: "hang" }] };
  if (verbs.includes("long")) return { parts: [{ text: `to ${name} `.repeat(200) }], tokenDelayMs: 50 };
  return { parts: [{ text: `to ${name}` }] };
}

/** The words of the last `«…»`, or null. */
function lastOf(text: string): readonly string[] | null {
  return [...text.matchAll(/«([^»]+)»/g)].at(-1)?.[1]?.split(" ") ?? null;
}
