/** Sending a message: the intent is narrowed by name, admitted in one transaction, and only then acknowledged. */
import { setImmediate as turnOfEventLoop } from "node:timers/promises";
import {
  acceptedMessageSchema,
  answeredMessageSchema,
  isId,
  platformEventSchema,
  PlatformError,
  sendMessageSchema,
  type MessageId,
  type SendMessage,
} from "@signalbox/contract";
import { clientSnapshotTools, type Admission, type AgentRevision } from "@signalbox/core";
import { prefersStream } from "../accept.ts";
import { storedEvent, type Scope } from "../api-record.ts";
import { awaitRun } from "../await-run.ts";
import { postKey } from "../idempotency.ts";
import { RUN_LIMITS } from "../limits.ts";
import { demandTools } from "../pinned-tools.ts";
import { preferredWait } from "../prefer.ts";
import { HIJACKED, route, type Answer, type Route, type RouteCall } from "../route.ts";
import type { ApiServices } from "../services.ts";
import { acknowledgedRun, eventsUrl, showRun } from "../shapes.ts";
import { streamEvents } from "../stream.ts";
import { conversationId } from "./conversations.ts";

type SendCall = RouteCall<SendMessage, null>;

export function messageRoutes(services: ApiServices): readonly Route[] {
  return [
    route({
      method: "POST",
      path: "/v1/conversations/{conversation}/messages",
      operationId: "sendMessage",
      summary:
        "Send a message; answered with 202, with the run's events where the caller accepts text/event-stream, or with the finished run where it prefers to wait",
      right: "write",
      query: null,
      body: sendMessageSchema,
      responses: {
        200: {
          description: "With `Accept: text/event-stream` the run's events; with `Prefer: wait=30` the finished run",
          schema: platformEventSchema,
          document: answeredMessageSchema,
          stream: true,
        },
        202: { description: "Accepted: the message is recorded and will be answered", schema: acceptedMessageSchema },
      },
      handle: (call) => send(services, call),
    }),
  ];
}

async function send(services: ApiServices, call: SendCall): Promise<Answer | typeof HIJACKED> {
  const conversation = conversationId(call.params.conversation);
  if (prefersStream(call.headers.accept)) return sendAndStream(services, call, conversation);
  const waitSeconds = preferredWait(call.headers.prefer);
  if (waitSeconds !== null) return sendAndWait(services, call, { conversation, waitSeconds });
  return acknowledge(services, call, await admit(services, conversation, call));
}

async function acknowledge(services: ApiServices, call: SendCall, admission: Admission): Promise<Answer> {
  const { accepted, messageId, runId } = admission;
  const { message, run } = await services.record.accepted(call.caller.scope, { messageId, runId });
  const body = { message, run: acknowledgedRun(run, accepted), accepted };
  const url = eventsUrl(run.conversationId, admission.cursor);
  return { status: 202, body: { ...body, eventsUrl: url }, headers: headersOf(admission) };
}

/** The finished run and its answer, or the acknowledgement when the time is over. Neither changes what was accepted. */
async function sendAndWait(
  services: ApiServices,
  call: SendCall,
  wait: { readonly conversation: string; readonly waitSeconds: number },
): Promise<Answer> {
  using subscription = services.subscribe(wait.conversation);
  // Before anything is waited for: a sender that leaves during the admission is not told of twice.
  const gone = new AbortController();
  call.reply.raw.once("close", () => gone.abort());
  const admission = await admit(services, wait.conversation, call);
  const { accepted, messageId, runId } = admission;
  const { scope } = call.caller;
  const ended = await awaitRun({
    subscription,
    hasEnded: async () => (await services.record.run(scope, runId)).finishedAt !== null,
    forMs: wait.waitSeconds * 1_000,
    stop: AbortSignal.any([gone.signal, services.stopping]),
  });
  const applied = { "preference-applied": `wait=${wait.waitSeconds}` };
  if (!ended) {
    const answer = await acknowledge(services, call, admission);
    return { ...answer, headers: { ...answer.headers, ...applied } };
  }
  const { message, run } = await services.record.accepted(scope, { messageId, runId });
  const answer = run.answerMessageId === null ? null : await services.record.message(scope, run.answerMessageId);
  const body = { message, run: showRun(run), accepted, eventsUrl: eventsUrl(run.conversationId, admission.cursor) };
  return { status: 200, body: { ...body, answer }, headers: { ...headersOf(admission), ...applied } };
}

/** Subscribed before the message is admitted, so that what admission wrote need not be read again. */
async function sendAndStream(services: ApiServices, call: SendCall, conversation: string): Promise<typeof HIJACKED> {
  using subscription = services.subscribe(conversation);
  const admission = await admit(services, conversation, call);
  const { cursor, runId } = admission;
  // What admission set going leaves the process first.
  await turnOfEventLoop();
  await streamEvents(services, call, {
    conversationId: conversation,
    after: cursor,
    follow: true,
    untilRun: runId,
    begun: { subscription, known: admission.kind === "admitted" ? admission.events.map(storedEvent) : null },
    headers: { ...headersOf(admission), "content-location": eventsUrl(conversation, cursor) },
  });
  return HIJACKED;
}

function headersOf(admission: Admission): Readonly<Record<string, string>> {
  return {
    location: `/v1/runs/${admission.runId}`,
    ...(admission.kind === "replayed" ? { "idempotent-replayed": "true" } : {}),
  };
}

async function admit(services: ApiServices, conversation: string, call: SendCall): Promise<Admission> {
  const { content: _, metadata, id, ...asked } = call.body;
  const { scope, actor } = call.caller;
  const minted = mintedId(id);
  return services.admission.submit({
    tenantId: scope.tenantId,
    conversationId: conversation,
    ...(minted === undefined ? {} : { messageId: minted }),
    actor,
    agent: await agentOf(services, scope, conversation),
    text: textOf(call.body),
    metadata: metadata ?? {},
    asked,
    traceId: call.traceId,
    idempotency: postKey({
      header: call.headers["idempotency-key"] ?? minted,
      route: `sendMessage ${conversation}`,
      body: call.given,
      scope,
      digest: services.digest,
    }),
  });
}

/** The conversation's agent as it is today: what the run's snapshot is frozen from. Errors: `not_found`. */
export async function agentOf(services: ApiServices, scope: Scope, conversation: string): Promise<AgentRevision> {
  const { agent, tools } = await services.record.answering(scope, conversation);
  const { id, name, revision, runtime, instructions, model, maxOutputTokens, whenBusy } = agent;
  const references = agent.tools.map((tool) => tool.reference);
  const sha256Hex = (text: string): string => services.digest.sha256Hex(text);
  return {
    agentId: id,
    name,
    revision,
    runtime,
    instructions,
    model,
    maxOutputTokens,
    whenBusy,
    tools: [...demandTools(references, tools), ...clientSnapshotTools(agent, sha256Hex)],
    limits: RUN_LIMITS,
  };
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

/** A client-minted message id is the message's, and an idempotency key where there is no other. */
function mintedId(id: string | undefined): MessageId | undefined {
  if (id === undefined || isId("message", id)) return id;
  const detail = "A client-minted message id is msg_ and 32 lower-case hex digits of a UUIDv7.";
  throw new PlatformError("invalid_request", detail, { fields: [{ pointer: "/id", detail: "not a message id" }] });
}
