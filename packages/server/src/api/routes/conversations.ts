/** Conversations, their history and their events. */
import {
  AGENT_NAME,
  conversationPageSchema,
  conversationQuerySchema,
  conversationSchema,
  createConversationSchema,
  forkConversationSchema,
  isId,
  messagePageSchema,
  pageQuerySchema,
  platformEventSchema,
  PlatformError,
  updateConversationSchema,
  type CreateConversation,
} from "@signalbox/contract";
import { z } from "zod";
import type { StoredConversation } from "../api-record.ts";
import { cursorOf } from "../cursor.ts";
import { createOnce, postKey } from "../idempotency.ts";
import { HIJACKED, route, type Answer, type Route, type RouteCall } from "../route.ts";
import type { ApiServices } from "../services.ts";
import { oldestEventsUrl, showConversation } from "../shapes.ts";
import { streamEvents } from "../stream.ts";

const eventsQuerySchema = z.strictObject({
  after: z.string().max(64).optional(),
  follow: z.enum(["true", "false"]).default("true"),
});

export function conversationRoutes(services: ApiServices): readonly Route[] {
  return [
    createConversation(services),
    forkConversation(services),
    listConversations(services),
    getConversation(services),
    updateConversation(services),
    deleteConversation(services),
    listMessages(services),
    followEvents(services),
  ];
}

function createConversation(services: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/conversations",
    operationId: "createConversation",
    summary: "Create a conversation with an agent",
    right: "write",
    query: null,
    body: createConversationSchema,
    responses: { 201: { description: "The conversation", schema: conversationSchema } },
    handle: (call) => create(services, call),
  });
}

async function create(services: ApiServices, call: RouteCall<CreateConversation, null>): Promise<Answer> {
  const { scope, actor } = call.caller;
  const { agent } = call.body;
  if (!isId("agent", agent) && !AGENT_NAME.test(agent)) {
    throw new PlatformError("not_found", "There is no agent of this name.", {
      fields: [{ pointer: "/agent", detail: "no such agent" }],
    });
  }
  const header = call.headers["idempotency-key"];
  const key = postKey({ header, route: "createConversation", body: call.given, scope, digest: services.digest });
  const conversation = { id: services.newConversationId(), actor, definition: call.body };
  return createOnce<StoredConversation>(key, {
    create: (once) => services.record.createConversation(scope, conversation, once),
    show: showConversation,
    addressOf: (id) => `/v1/conversations/${id}`,
  });
}

function forkConversation(services: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/conversations/{conversation}/fork",
    operationId: "forkConversation",
    summary: "Create a conversation that begins with the history of this one, up to a message",
    right: "write",
    query: null,
    body: forkConversationSchema,
    responses: { 201: { description: "The new conversation", schema: conversationSchema } },
    async handle(call) {
      const { scope, actor } = call.caller;
      const from = conversationId(call.params.conversation);
      const header = call.headers["idempotency-key"];
      const key = postKey({ header, route: `fork ${from}`, body: call.given, scope, digest: services.digest });
      const fork = { id: services.newConversationId(), actor, from, messageId: call.body.messageId ?? null };
      return createOnce<StoredConversation>(key, {
        create: (once) => services.record.forkConversation(scope, fork, once),
        show: showConversation,
        addressOf: (id) => `/v1/conversations/${id}`,
      });
    },
  });
}

function listConversations(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/conversations",
    operationId: "listConversations",
    summary: "List conversations, or find them by their words",
    right: "read",
    query: conversationQuerySchema,
    body: null,
    responses: { 200: { description: "A page of conversations", schema: conversationPageSchema } },
    async handle(call) {
      const { q } = call.query;
      if (q !== undefined && !/[\p{L}\p{N}]/u.test(q)) {
        throw new PlatformError("invalid_request", "A search needs a word or a number.", {
          fields: [{ pointer: "q", detail: "has no letter and no digit" }],
        });
      }
      const page = await services.record.conversations(call.caller.scope, call.query);
      return { status: 200, body: { data: page.data.map(showConversation), nextCursor: page.nextCursor } };
    },
  });
}

function getConversation(services: ApiServices): Route {
  return route({
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
  });
}

function updateConversation(services: ApiServices): Route {
  return route({
    method: "PATCH",
    path: "/v1/conversations/{conversation}",
    operationId: "updateConversation",
    summary: "Rename a conversation, label it, put it into the archive or take it out",
    right: "write",
    query: null,
    body: updateConversationSchema,
    responses: { 200: { description: "The conversation as it is now", schema: conversationSchema } },
    async handle(call) {
      const { scope, actor } = call.caller;
      const command = { id: conversationId(call.params.conversation), actor, change: call.body };
      return { status: 200, body: showConversation(await services.record.changeConversation(scope, command)) };
    },
  });
}

function deleteConversation(services: ApiServices): Route {
  return route({
    method: "DELETE",
    path: "/v1/conversations/{conversation}",
    operationId: "deleteConversation",
    summary: "Delete a conversation: its runs are cancelled, and once no call of theirs is open it is gone",
    right: "write",
    query: null,
    body: null,
    responses: {
      202: {
        description: "It takes no message any more, and is gone once its last call ended",
        schema: conversationSchema,
      },
      204: { description: "It is gone", schema: null },
    },
    async handle(call) {
      const { scope, actor } = call.caller;
      const id = conversationId(call.params.conversation);
      if (await services.record.deleteConversation(scope, { id, actor })) return { status: 204, body: null };
      try {
        return { status: 202, body: showConversation(await services.record.conversation(scope, id)) };
      } catch (thrown) {
        // It went between the two.
        if (thrown instanceof PlatformError && thrown.code === "not_found") return { status: 204, body: null };
        throw thrown;
      }
    },
  });
}

function listMessages(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/conversations/{conversation}/messages",
    operationId: "listMessages",
    summary: "The history of a conversation",
    right: "read",
    query: pageQuerySchema,
    body: null,
    responses: { 200: { description: "A page of messages", schema: messagePageSchema } },
    async handle(call) {
      const id = conversationId(call.params.conversation);
      return { status: 200, body: await services.record.messages(call.caller.scope, id, call.query) };
    },
  });
}

function followEvents(services: ApiServices): Route {
  return route({
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
      const { lastSequence, keptSequence, replaced } = await services.record.place(call.caller.scope, id);
      const after = cursorOf({
        lastEventId: call.headers["last-event-id"],
        after: call.query.after,
        head: lastSequence,
        kept: keptSequence,
        replaced,
        restartUrl: oldestEventsUrl(id),
      });
      const follow = call.query.follow === "true";
      await streamEvents(services, call, { conversationId: id, after, follow, untilRun: null });
      return HIJACKED;
    },
  });
}

/** Something that is not even of the form of an id is not found, like any other thing that does not exist. */
export function conversationId(text: string | undefined): string {
  if (text === undefined || !isId("conversation", text)) throw new PlatformError("not_found");
  return text;
}
