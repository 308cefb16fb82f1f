/** Commands that answer with what they changed: with an idempotency key, what was answered first is answered again. */
import type { Once, Recorded } from "./api-record.ts";
import { postKey, replay } from "./idempotency.ts";
import type { Answer, RouteCall } from "./route.ts";
import type { ApiServices } from "./services.ts";

export function keyed<T extends object>(
  call: Pick<RouteCall<unknown, null>, "caller" | "headers" | "params" | "given">,
  of: { readonly route: string; readonly digest: ApiServices["digest"] },
): Once<T> | null {
  const key = postKey({
    header: call.headers["idempotency-key"],
    route: [of.route, ...Object.values(call.params)].join(" "),
    body: call.given,
    scope: call.caller.scope,
    digest: of.digest,
  });
  return key === null ? null : { ...key, answer: (value) => ({ status: 200, body: JSON.stringify(value) }) };
}

export function answerOf<T extends object>(recorded: Recorded<T>): Answer {
  return recorded.kind === "replayed" ? replay(recorded) : { status: 200, body: recorded.value };
}
