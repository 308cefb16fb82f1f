/** Sending a message: the intent is narrowed by name, admitted in one transaction, and only then acknowledged. */
import {
  acceptedMessageSchema,
  isId,
  PlatformError,
  sendMessageSchema,
  SERVED_WHEN_BUSY,
  UNSERVED_MESSAGE_FIELDS,
  type SendMessage,
} from "@signalbox/contract";
import { postKey } from "../idempotency.ts";
import { HIJACKED, route, type Route, type RouteCall } from "../route.ts";
import type { AcceptedIntent, ApiServices } from "../services.ts";
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
          ...(accepted.replayed ? { "idempotent-replayed": "true" } : {}),
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

async function admit(services: ApiServices, call: RouteCall<SendMessage, null>): Promise<AcceptedIntent> {
  const { body, caller } = call;
  refuseUnserved(body);
  const id = conversationId(call.params.conversation);
  const conversation = await services.record.conversation(caller.scope, id);
  const agent = await services.record.agent(caller.scope, conversation.agent.id);
  const tools = await pinnedTools(
    services,
    caller.scope,
    agent.tools.map((tool) => tool.reference),
  );
  const minted = body.id === undefined ? undefined : mintedKey(body.id);
  const header = call.headers["idempotency-key"] ?? minted;
  return services.intents.send({
    scope: caller.scope,
    actor: caller.actor,
    conversationId: id,
    messageId: body.id ?? null,
    text: textOf(body),
    metadata: body.metadata ?? {},
    whenBusy: body.whenBusy === "reject" ? "reject" : "enqueue",
    requested: { whenBusy: body.whenBusy ?? null, model: null, context: body.context ?? [] },
    snapshot: {
      agentId: agent.id,
      agentName: agent.name,
      revision: agent.revision,
      runtime: agent.runtime,
      instructions: agent.instructions,
      model: agent.model,
      maxOutputTokens: agent.maxOutputTokens,
      tools,
    },
    traceId: call.traceId,
    idempotency: postKey({ header, route: `sendMessage ${id}`, body, digest: services.digest }),
  });
}

function refuseUnserved(body: SendMessage): void {
  const fields = UNSERVED_MESSAGE_FIELDS.filter((name) => body[name] !== undefined).map((name) => ({
    pointer: `/${name}`,
    detail: "not served by this release",
  }));
  if (fields.length > 0) {
    throw new PlatformError(
      "field_not_supported",
      `This release does not serve ${fields.map((field) => field.pointer).join(", ")} yet.`,
      { fields },
    );
  }
  if (body.whenBusy !== undefined && !(SERVED_WHEN_BUSY as readonly string[]).includes(body.whenBusy)) {
    throw new PlatformError(
      "field_not_supported",
      `This release serves whenBusy ${SERVED_WHEN_BUSY.join(" and ")}, not "${body.whenBusy}" yet.`,
      {
        fields: [{ pointer: "/whenBusy", detail: "not served by this release" }],
      },
    );
  }
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
