import {
  NO_USAGE,
  revisionOf,
  type AcceptedMessage,
  type EventOf,
  type Message,
  type PlatformEvent,
  type Run,
} from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { answerJson, serveHttp, type ScriptedAnswer } from "../../../tests/setup/scripted-http.ts";
import { Signalbox } from "./signalbox.ts";

const AT = "2026-03-01T12:00:00.000Z";

const RUN: Run = {
  id: "run_1",
  conversationId: "cnv_1",
  messageId: "msg_1",
  agent: { id: "agt_1", name: "support", revision: 1 },
  runtime: "langgraph",
  requested: {},
  granted: {},
  servedModel: null,
  status: "running",
  reason: null,
  generation: 1,
  owner: 1,
  attempt: 1,
  rung: null,
  containment: "contained",
  waitingFor: [],
  cancelRequestedAt: null,
  usage: { ...NO_USAGE, modelCalls: 0, toolCalls: 0 },
  costMicros: null,
  retryOf: null,
  answerMessageId: null,
  error: null,
  traceId: "0af7651916cd43dd8448eb211c80319c",
  acceptedAt: AT,
  startedAt: AT,
  finishedAt: null,
  eventsUrl: "/v1/conversations/cnv_1/events?after=7",
};

function message(id: string, role: Message["role"], content: string): Message {
  return {
    id,
    conversationId: "cnv_1",
    runId: "run_1",
    role,
    content,
    partial: false,
    struck: false,
    metadata: {},
    createdAt: AT,
  };
}

const ACCEPTED: AcceptedMessage = {
  message: message("msg_1", "user", "hello"),
  run: RUN,
  accepted: "started",
  eventsUrl: "/v1/conversations/cnv_1/events?after=7",
};

const ENVELOPE = { conversationId: "cnv_1", runId: "run_1", turnId: null, traceId: null, generation: 1, at: AT };

function completed(sequence: number, itemId: string, text: string): EventOf<"text.completed"> {
  return { ...ENVELOPE, type: "text.completed", itemId, sequence, revision: revisionOf(1, sequence), text };
}

function retracted(sequence: number, itemId: string): EventOf<"text.retracted"> {
  return { ...ENVELOPE, type: "text.retracted", itemId, sequence, revision: revisionOf(1, sequence), cause: "retried" };
}

function finished(sequence: number, outcome: "completed" | "failed"): EventOf<"run.finished"> {
  const end = outcome === "completed" ? { reason: "answered" as const, error: null } : FAILED;
  const revision = revisionOf(1, sequence);
  return { ...ENVELOPE, type: "run.finished", itemId: "run_1", sequence, revision, outcome, messageId: null, ...end };
}

const FAILED = {
  reason: "provider_error" as const,
  error: { code: "provider_error", detail: "It broke.", fault: "provider" as const, retryable: false },
};

function stream(...events: readonly PlatformEvent[]): ScriptedAnswer {
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(events.map((event) => `id: ${event.sequence}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
  };
}

function clientOf(url: string): Signalbox {
  return new Signalbox({ url, apiKey: "sbx_key" });
}

describe("sending a message", () => {
  it("makes its own idempotency key, and gives a run that is followed from its first event", async () => {
    await using api = await serveHttp([
      answerJson(202, ACCEPTED),
      stream(finished(8, "completed")),
      answerJson(200, RUN),
    ]);
    const run = await clientOf(api.url).conversations.open("cnv_1").send("hello");
    expect(run.id).toBe("run_1");
    await run.result();
    expect(api.asked[0]).toMatchObject({ url: "/v1/conversations/cnv_1/messages", body: '{"content":"hello"}' });
    expect(String(api.asked[0]?.headers["idempotency-key"])).toMatch(/^[0-9a-f-]{36}$/);
    expect(api.asked[1]?.url).toBe("/v1/conversations/cnv_1/events?after=7&follow=true");
  });

  it("says what it was told to say, and no more", async () => {
    await using api = await serveHttp([answerJson(202, ACCEPTED)]);
    const conversation = clientOf(api.url).conversations.open("cnv_1");
    await conversation.send("hello", { idempotencyKey: "k1", whenBusy: "reject", metadata: { a: "b" } });
    expect(JSON.parse(api.asked[0]?.body ?? "")).toEqual({
      content: "hello",
      whenBusy: "reject",
      metadata: { a: "b" },
    });
    expect(api.asked[0]?.headers["idempotency-key"]).toBe("k1");
  });
});

describe("a run", () => {
  it("passes over what other runs say, and ends with its own end", async () => {
    const other = { ...finished(9, "completed"), runId: "run_0" };
    await using api = await serveHttp([
      answerJson(200, RUN),
      stream(completed(8, "itm_1", "Hi"), other, finished(10, "completed"), completed(11, "itm_2", "after the end")),
    ]);
    const run = await clientOf(api.url).runs.open("run_1");
    const seen: PlatformEvent["type"][] = [];
    for await (const event of run.events()) seen.push(event.type);
    expect(seen).toEqual(["text.delta", "text.completed", "run.finished"]);
  });

  it("results in its last text that was not taken back, and its cost", async () => {
    const events = [
      completed(8, "itm_1", "Let me look."),
      completed(9, "itm_2", "42"),
      completed(10, "itm_3", "43"),
      retracted(11, "itm_3"),
      finished(12, "completed"),
    ];
    await using api = await serveHttp([
      answerJson(200, RUN),
      stream(...events),
      answerJson(200, { ...RUN, costMicros: 17 }),
    ]);
    expect(await (await clientOf(api.url).runs.open("run_1")).result()).toEqual({
      outcome: "completed",
      reason: "answered",
      text: "42",
      error: null,
      costMicros: 17,
    });
  });

  it("that failed is a result and not an exception", async () => {
    await using api = await serveHttp([answerJson(200, RUN), stream(finished(8, "failed")), answerJson(200, RUN)]);
    const result = await (await clientOf(api.url).runs.open("run_1")).result();
    expect(result).toMatchObject({
      outcome: "failed",
      reason: "provider_error",
      text: "",
      error: { detail: "It broke." },
    });
  });

  it("is cancelled at its own address, whatever its id is made of", async () => {
    await using api = await serveHttp([answerJson(202, RUN)]);
    await clientOf(api.url).runs.cancel("run_1/../../agents");
    expect(api.asked[0]).toMatchObject({ method: "POST", url: "/v1/runs/run_1%2F..%2F..%2Fagents/cancel" });
  });
});

describe("lists", () => {
  it("send only what was asked for", async () => {
    await using api = await serveHttp([answerJson(200, { data: [], nextCursor: null })]);
    const client = clientOf(api.url);
    await client.runs.list();
    await client.runs.list({ limit: 5, cursor: "a b", conversation: "cnv_1" });
    expect(api.asked.map(({ url }) => url)).toEqual(["/v1/runs", "/v1/runs?limit=5&cursor=a+b&conversation=cnv_1"]);
  });

  it("of messages are read page by page, oldest first", async () => {
    const page = (nextCursor: string | null, ...data: readonly Message[]) => answerJson(200, { data, nextCursor });
    await using api = await serveHttp([
      page("next", message("msg_1", "user", "one"), message("msg_2", "assistant", "two")),
      page(null, message("msg_3", "user", "three")),
    ]);
    const texts: string[] = [];
    for await (const each of clientOf(api.url).conversations.open("cnv_1").messages()) texts.push(each.content);
    expect(texts).toEqual(["one", "two", "three"]);
    expect(api.asked.map(({ url }) => url)).toEqual([
      "/v1/conversations/cnv_1/messages?order=asc&limit=200",
      "/v1/conversations/cnv_1/messages?order=asc&limit=200&cursor=next",
    ]);
  });
});

describe("as an end user", () => {
  it("asserts that user on every request, and the client itself stays who it was", async () => {
    await using api = await serveHttp([answerJson(200, { data: [], nextCursor: null })]);
    const client = clientOf(api.url);
    await client.as({ user: "u_42", roles: ["buyer"] }).runs.list();
    await client.runs.list();
    const [payload = ""] = String(api.asked[0]?.headers["signalbox-actor"]).split(".");
    expect(JSON.parse(Buffer.from(payload, "base64url").toString())).toEqual({
      user: "u_42",
      roles: ["buyer"],
      units: [],
    });
    expect(api.asked[1]?.headers).not.toHaveProperty("signalbox-actor");
  });
});
