/** Whether a caller would rather have the event stream than the document. */

const STREAM = "text/event-stream";
const DOCUMENT = "application/json";

/** True when `Accept` names `text/event-stream` and likes `application/json` no better. Wildcards name nothing. */
export function prefersStream(accept: string | undefined): boolean {
  const weights = new Map<string, number>();
  for (const each of (accept ?? "").split(",")) {
    const [type = "", ...parameters] = each.split(";").map((part) => part.trim().toLowerCase());
    const weight = Number(parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? "1");
    weights.set(type, Math.max(weights.get(type) ?? 0, Number.isFinite(weight) ? weight : 0));
  }
  const stream = weights.get(STREAM) ?? 0;
  return stream > 0 && stream >= (weights.get(DOCUMENT) ?? 0);
}
