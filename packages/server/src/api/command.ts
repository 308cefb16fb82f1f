/**
 * A POST that acts on something that exists. With an `Idempotency-Key`, key, effect and answer are one transaction:
 * what was answered once is answered again, and a request that died half way left nothing. What is refused is not kept.
 */
import type { AdmissionFlow, OperatorFlow } from "@signalbox/core";
import type { FieldError, Hold } from "@signalbox/contract";
import type { z } from "zod";
import type { ApiRecord, Once, Recorded, Scope } from "./api-record.ts";
import { postKey, replay } from "./idempotency.ts";
import type { OperatorView } from "./operator-record.ts";
import { route, type Answer, type Output, type Route, type RouteCall } from "./route.ts";
import type { ApiServices } from "./services.ts";
import type { WebhookDesk } from "./webhook-desk.ts";

/** What such a POST may do, and what it reads for its answer. */
export interface CommandDesk
  extends
    Omit<OperatorFlow, "carryOut">,
    Pick<OperatorView, "hold" | "stops" | "toolCall" | "clientHold">,
    Pick<ApiRecord, "run"> {
  /** A pause or stop, also one that was lifted. */
  readonly standing: OperatorView["stop"];
  readonly cancel: AdmissionFlow["cancel"];
  /**
   * Other arguments for the call that somebody is asked about, checked against its tool's schema, as the decision brings
   * them. Errors: `tool_arguments_invalid`, `invalid_request` when there are none.
   */
  editOf(scope: Scope, hold: Hold, given: unknown): Promise<unknown>;
  /** Why this is no answer to what somebody is asked; empty when it is one. */
  answerProblems(hold: Hold, response: unknown): readonly FieldError[];
  readonly webhooks: WebhookDesk;
}

export interface CommandRecord {
  /** Each command by itself. */
  readonly desk: CommandDesk;
  /**
   * Everything that is done at the desk is one transaction with the key and the answer. A refusal of the record keeps
   * what the record notes about it, and not the key. Errors: `idempotency_key_reused`, and those of the command.
   */
  once(scope: Scope, once: Once<Answer>, act: (desk: CommandDesk) => Promise<Answer>): Promise<Recorded<Answer>>;
}

type Kept = "path" | "operationId" | "summary" | "right" | "responses";

interface Command<Body extends z.ZodType | null> extends Pick<Route, Kept> {
  readonly body: Body;
  /** Address of what was made, by its id; left out where nothing is made. */
  readonly addressOf?: (id: string) => string;
  /** What is kept of an answer for a replay, where some of it is to be shown only once. */
  readonly kept?: (body: object) => object;
  readonly act: (desk: CommandDesk, call: RouteCall<Output<Body>, null>) => Promise<Answer>;
}

export function command<Body extends z.ZodType | null>(services: ApiServices, definition: Command<Body>): Route {
  const { act, addressOf, kept = (body) => body, ...shown } = definition;
  return route<Body, null>({
    ...shown,
    method: "POST",
    query: null,
    async handle(call) {
      const key = postKey({
        header: call.headers["idempotency-key"],
        route: [definition.operationId, ...Object.values(call.params)].join(" "),
        // Where there is nothing to say, nothing and `{}` are the same.
        body: definition.body === null ? null : call.given,
        scope: call.caller.scope,
        digest: services.digest,
      });
      if (key === null) return locate(await act(services.commands.desk, call), addressOf);
      const answer = ({ status, body }: Answer) => ({
        status,
        body: JSON.stringify(typeof body === "object" && body !== null ? kept(body) : body),
      });
      const once = { ...key, answer };
      const recorded = await services.commands.once(call.caller.scope, once, (desk) => act(desk, call));
      return recorded.kind === "replayed" ? replay(recorded, addressOf) : locate(recorded.value, addressOf);
    },
  });
}

function locate(answer: Answer, addressOf: Command<null>["addressOf"]): Answer {
  if (addressOf === undefined) return answer;
  // A command that makes something answers with it, and everything has an id.
  const { id } = answer.body as { readonly id: string };
  return { ...answer, headers: { ...answer.headers, location: addressOf(id) } };
}
