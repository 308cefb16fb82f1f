/** What form of an answer a caller would rather have. */

const STREAM = "text/event-stream";
const DOCUMENT = "application/json";
const PAGE = "text/html";

/** True when `Accept` names `text/event-stream` and likes `application/json` no better. Wildcards name nothing. */
export function prefersStream(accept: string | undefined): boolean {
  return prefers(accept, STREAM);
}

/** True for a browser that was pointed at the address: it names `text/html`, and a program that reads JSON does not. */
export function prefersPage(accept: string | undefined): boolean {
  return prefers(accept, PAGE);
}

function prefers(accept: string | undefined, wanted: string): boolean {
  const weights = new Map<string, number>();
  for (const each of (accept ?? "").split(",")) {
    const [type = "", ...parameters] = each.split(";").map((part) => part.trim().toLowerCase());
    const weight = Number(parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? "1");
    weights.set(type, Math.max(weights.get(type) ?? 0, Number.isFinite(weight) ? weight : 0));
  }
  const weight = weights.get(wanted) ?? 0;
  return weight > 0 && weight >= (weights.get(DOCUMENT) ?? 0);
}
