/** Sending a message: the intent is narrowed by name, admitted in one transaction, and only then acknowledged. */
import { acceptedMessageSchema, isId, PlatformError, sendMessageSchema, type SendMessage } from "@signalbox/contract";
import type { Admission } from "@signalbox/core";
import { postKey } from "../idempotency.ts";
import { HIJACKED, route, type Route, type RouteCall } from "../route.ts";
import { RUN_LIMITS } from "../limits.ts";
import type { ApiServices } from "../services.ts";
import { acknowledgedRun, eventsUrl } from "../shapes.ts";
import { streamEvents } from "../stream.ts";
import { pinnedTools } from "./agents.ts";
import { conversationId } from "./conversations.ts";

export function messageRoutes(services: ApiServices): readonly Route[] {
  return [
    route({
      method: "POST",
      path: "/v1/conversations/{conversation}/messages",
      operationId: "sendMessage",
      summary: "Send a message; answered with 202, or with the run's events where the caller accepts text/event-stream",
      right: "write",
      query: null,
      body: sendMessageSchema,
      responses: {
        202: { description: "Accepted: the message is recorded and will be answered", schema: acceptedMessageSchema },
      },
      async handle(call) {
        const accepted = await admit(services, call);
        const headers = {
          location: `/v1/runs/${accepted.runId}`,
          ...(accepted.kind === "replayed" ? { "idempotent-replayed": "true" } : {}),
        };
        const conversation = conversationId(call.params.conversation);
        if (wantsStream(call.headers.accept)) {
          await streamEvents(services, call, {
            conversationId: conversation,
            after: accepted.cursor,
            follow: true,
            untilRun: accepted.runId,
            headers: { ...headers, "content-location": eventsUrl(conversation, accepted.cursor) },
          });
          return HIJACKED;
        }
        const shown = await services.record.accepted(call.caller.scope, accepted.messageId, accepted.runId);
        return {
          status: 202,
          body: {
            message: shown.message,
            run: acknowledgedRun(shown.run, accepted.accepted),
            accepted: accepted.accepted,
            eventsUrl: eventsUrl(conversation, accepted.cursor),
          },
          headers,
        };
      },
    }),
  ];
}

async function admit(services: ApiServices, call: RouteCall<SendMessage, null>): Promise<Admission> {
  const { content: _, metadata, id: minted, ...asked } = call.body;
  const { scope, actor } = call.caller;
  const conversation = await services.record.conversation(scope, conversationId(call.params.conversation));
  const agent = await services.record.agent(scope, conversation.agent.id);
  const tools = await pinnedTools(
    services,
    scope,
    agent.tools.map((tool) => tool.reference),
  );
  const header = call.headers["idempotency-key"] ?? (minted === undefined ? undefined : mintedKey(minted));
  return services.admission.submit({
    tenantId: scope.tenantId,
    conversationId: conversation.id,
    actor,
    agent: {
      agentId: agent.id,
      name: agent.name,
      revision: agent.revision,
      runtime: agent.runtime,
      instructions: agent.instructions,
      model: agent.model,
      maxOutputTokens: agent.maxOutputTokens,
      tools,
      limits: RUN_LIMITS,
    },
    text: textOf(call.body),
    metadata: metadata ?? {},
    asked,
    traceId: call.traceId,
    idempotency: postKey({ header, route: `sendMessage ${conversation.id}`, body: call.body, digest: services.digest }),
  });
}

function textOf(body: SendMessage): string {
  const text = typeof body.content === "string" ? body.content : body.content.map((part) => part.text).join("\n\n");
  if (text.trim() === "") {
    throw new PlatformError("invalid_request", "A message needs some text.", {
      fields: [{ pointer: "/content", detail: "must not be empty" }],
    });
  }
  return text;
}

/** A client-minted message id counts as an idempotency key. */
function mintedKey(id: string): string {
  if (!isId("message", id)) {
    throw new PlatformError(
      "invalid_request",
      "A client-minted message id is msg_ and 32 lower-case hex digits of a UUIDv7.",
      {
        fields: [{ pointer: "/id", detail: "not a message id" }],
      },
    );
  }
  return id;
}

function wantsStream(accept: string | undefined): boolean {
  return (
    accept !== undefined &&
    accept
      .toLowerCase()
      .split(",")
      .some((each) => each.trim().startsWith("text/event-stream"))
  );
}
