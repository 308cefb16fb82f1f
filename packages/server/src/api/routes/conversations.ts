import {
  conversationPageSchema,
  conversationSchema,
  createConversationSchema,
  isId,
  messagePageSchema,
  pageQuerySchema,
  platformEventSchema,
  PlatformError,
} from "@signalbox/contract";
import { z } from "zod";
import type { StoredConversation } from "../api-record.ts";
import { cursorOf } from "../cursor.ts";
import { createOnce, postKey } from "../idempotency.ts";
import { HIJACKED, route, type Route } from "../route.ts";
import type { ApiServices } from "../services.ts";
import { showConversation } from "../shapes.ts";
import { streamEvents } from "../stream.ts";

const eventsQuerySchema = z.strictObject({
  after: z.string().max(64).optional(),
  follow: z.enum(["true", "false"]).default("true"),
});

export function conversationRoutes(services: ApiServices): readonly Route[] {
  return [
    route({
      method: "POST",
      path: "/v1/conversations",
      operationId: "createConversation",
      summary: "Create a conversation with an agent",
      right: "write",
      query: null,
      body: createConversationSchema,
      responses: { 201: { description: "The conversation", schema: conversationSchema } },
      async handle(call) {
        const key = postKey({
          header: call.headers["idempotency-key"],
          route: "createConversation",
          body: call.body,
          digest: services.digest,
        });
        const conversation = { id: services.newConversationId(), actor: call.caller.actor, definition: call.body };
        return createOnce<StoredConversation>(key, {
          create: (once) => services.record.createConversation(call.caller.scope, conversation, once),
          show: (created) => showConversation(created),
          location: (created) => `/v1/conversations/${created.id}`,
        });
      },
    }),
    route({
      method: "GET",
      path: "/v1/conversations",
      operationId: "listConversations",
      summary: "List conversations",
      right: "read",
      query: pageQuerySchema,
      body: null,
      responses: { 200: { description: "A page of conversations", schema: conversationPageSchema } },
      async handle(call) {
        const page = await services.record.conversations(call.caller.scope, call.query);
        return { status: 200, body: { data: page.data.map(showConversation), nextCursor: page.nextCursor } };
      },
    }),
    route({
      method: "GET",
      path: "/v1/conversations/{conversation}",
      operationId: "getConversation",
      summary: "Get a conversation",
      right: "read",
      query: null,
      body: null,
      responses: { 200: { description: "The conversation", schema: conversationSchema } },
      async handle(call) {
        const id = conversationId(call.params.conversation);
        return { status: 200, body: showConversation(await services.record.conversation(call.caller.scope, id)) };
      },
    }),
    route({
      method: "GET",
      path: "/v1/conversations/{conversation}/messages",
      operationId: "listMessages",
      summary: "The history of a conversation",
      right: "read",
      query: pageQuerySchema,
      body: null,
      responses: { 200: { description: "A page of messages", schema: messagePageSchema } },
      async handle(call) {
        return {
          status: 200,
          body: await services.record.messages(call.caller.scope, conversationId(call.params.conversation), call.query),
        };
      },
    }),
    route({
      method: "GET",
      path: "/v1/conversations/{conversation}/events",
      operationId: "streamEvents",
      summary: "Follow the events of a conversation (SSE)",
      right: "read",
      query: eventsQuerySchema,
      body: null,
      responses: { 200: { description: "Events, as SSE frames", schema: platformEventSchema, stream: true } },
      async handle(call) {
        const id = conversationId(call.params.conversation);
        const { lastSequence } = await services.record.conversation(call.caller.scope, id);
        const after = cursorOf({
          lastEventId: call.headers["last-event-id"],
          after: call.query.after,
          head: lastSequence,
        });
        await streamEvents(services, call, {
          conversationId: id,
          after,
          follow: call.query.follow === "true",
          untilRun: null,
        });
        return HIJACKED;
      },
    }),
  ];
}

/** Something that is not even of the form of an id is not found, like any other thing that does not exist. */
export function conversationId(text: string | undefined): string {
  if (text === undefined || !isId("conversation", text)) throw new PlatformError("not_found");
  return text;
}
