import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NO_USAGE, revisionOf, type PlatformEvent, type Run } from "@signalbox/contract";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runSignalbox, type CliOptions, type CliRun } from "../../../../../tests/setup/cli-run.ts";
import {
  answerJson,
  serveHttp,
  type ScriptedAnswer,
  type ScriptedHttp,
} from "../../../../../tests/setup/scripted-http.ts";

const AT = "2026-03-01T12:00:00.000Z";
const RUN_ID = `run_${"1".repeat(32)}`;

const RUN: Run = {
  id: RUN_ID,
  conversationId: "cnv_1",
  messageId: "msg_1",
  agent: { id: "agt_1", name: "support", revision: 1 },
  runtime: "langgraph",
  requested: {},
  granted: {},
  retryOf: null,
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
  costMicros: 12,
  answerMessageId: null,
  error: null,
  traceId: "0af7651916cd43dd8448eb211c80319c",
  acceptedAt: AT,
  startedAt: AT,
  finishedAt: null,
  eventsUrl: "/v1/conversations/cnv_1/events?after=0",
};

const ACCEPTED = answerJson(202, {
  message: {
    id: "msg_1",
    conversationId: "cnv_1",
    runId: RUN_ID,
    role: "user",
    content: "hi",
    partial: false,
    metadata: {},
    createdAt: AT,
  },
  run: RUN,
  accepted: "started",
  eventsUrl: "/v1/conversations/cnv_1/events?after=0",
});

let sequence = 0;

function event(type: PlatformEvent["type"], data: object, itemId = "itm_1"): PlatformEvent {
  sequence += 1;
  const envelope = { conversationId: "cnv_1", runId: RUN_ID, turnId: null, traceId: null, generation: 1, at: AT };
  // Each test gives the members of its type.
  return { ...envelope, type, itemId, sequence, revision: revisionOf(1, sequence), ...data } as PlatformEvent;
}

const finished = (data: object = {}) =>
  event("run.finished", { outcome: "completed", reason: "answered", error: null, messageId: null, ...data }, RUN_ID);

const CALL = { toolCallId: "tc_1", toolUseId: "t", tool: "read", title: "Read", effect: "read", grade: "contained" };

function stream(...events: readonly PlatformEvent[]): ScriptedAnswer {
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(events.map((each) => `id: ${each.sequence}\ndata: ${JSON.stringify(each)}\n\n`).join(""));
  };
}

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "chat-"));
  sequence = 0;
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function chat(api: ScriptedHttp, words: readonly string[], options: CliOptions = {}): Promise<CliRun> {
  const environment = { SIGNALBOX_URL: api.url, SIGNALBOX_API_KEY: "sbx_key", SIGNALBOX_DATA_DIR: folder };
  return runSignalbox(["chat", "--conversation", "cnv_1", ...words], { environment, ...options });
}

describe("one message", () => {
  it("is answered on standard output, and nothing else is", async () => {
    await using api = await serveHttp([
      ACCEPTED,
      stream(
        event("run.phase", { phase: "using_tool" }, RUN_ID),
        event("tool.started", { ...CALL, argumentsSummary: "a.md" }, "tc_1"),
        event("text.completed", { text: "Hello 🌍" }),
        finished(),
      ),
    ]);
    const run = await chat(api, ["--message", "hi"]);
    expect(run).toEqual({ exitCode: 0, out: "→ Read a.md\nHello 🌍\n", err: "" });
    expect(JSON.parse(api.asked[0]?.body ?? "")).toEqual({ content: "hi" });
  });

  it("that waits for somebody says for whom, beside the answer", async () => {
    const held = { subject: {}, digest: null, expiresAt: null };
    await using api = await serveHttp([
      ACCEPTED,
      stream(
        event("hold.opened", { ...held, holdId: "hld_1", kind: "operator" }, "hld_1"),
        event("hold.opened", { ...held, holdId: "hld_2", kind: "approval" }, "hld_2"),
        event("text.completed", { text: "ok" }),
        finished(),
      ),
    ]);
    const run = await chat(api, ["--message", "hi"]);
    expect([run.exitCode, run.out]).toEqual([0, "ok\n"]);
    expect(run.err.split("\n")).toEqual([
      `paused by an operator; it goes on when that is lifted (signalbox explain ${RUN_ID}) …`,
      "waits for somebody to approve a call: signalbox approvals show hld_2 …",
      "",
    ]);
  });

  it("may be piped in", async () => {
    await using api = await serveHttp([ACCEPTED, stream(event("text.completed", { text: "ok" }), finished())]);
    expect((await chat(api, [], { input: "from a pipe\n" })).out).toBe("ok\n");
    expect(JSON.parse(api.asked[0]?.body ?? "")).toEqual({ content: "from a pipe\n" });
  });

  it("is one line of JSON where that was asked for", async () => {
    await using api = await serveHttp([
      ACCEPTED,
      stream(event("text.completed", { text: "ok" }), finished()),
      answerJson(200, RUN),
    ]);
    const run = await chat(api, ["--message", "hi", "--json"]);
    expect([run.exitCode, run.err]).toEqual([0, ""]);
    expect(JSON.parse(run.out)).toEqual({
      conversationId: "cnv_1",
      runId: RUN_ID,
      outcome: "completed",
      reason: "answered",
      text: "ok",
      error: null,
      costMicros: 12,
    });
  });

  it("whose run failed says why, and ends with 1", async () => {
    const error = { code: "provider_overloaded", detail: "Too busy.", fault: "provider", retryable: true };
    await using api = await serveHttp([
      ACCEPTED,
      stream(
        event("text.delta", { offset: 0, text: "Hel" }),
        finished({ outcome: "failed", reason: "provider_error", error }),
      ),
    ]);
    const run = await chat(api, ["--message", "hi"]);
    expect([run.exitCode, run.out]).toEqual([1, "Hel\n"]);
    expect(run.err).toBe("failed (provider_overloaded: Too busy.)\n");
  });

  it("that was taken back is marked so", async () => {
    await using api = await serveHttp([
      ACCEPTED,
      stream(
        event("text.delta", { offset: 0, text: "Wrong" }),
        event("text.retracted", { cause: "retried" }),
        event("text.completed", { text: "Right" }, "itm_2"),
        finished(),
      ),
    ]);
    expect((await chat(api, ["--message", "hi"])).out).toBe("Wrong\n(what stands above was taken back)\nRight\n");
  });

  it("is stopped by an interrupt, and what there is of it is kept", async () => {
    const stop = new AbortController();
    const cancelled = Promise.withResolvers<void>();
    const saying: ScriptedAnswer = async (response) => {
      const part = event("text.delta", { offset: 0, text: "Hel" });
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`id: 1\ndata: ${JSON.stringify(part)}\n\n`);
      await cancelled.promise;
      const end = [event("text.completed", { text: "Hel" }), finished({ outcome: "cancelled", reason: "user_cancel" })];
      response.write(end.map((each) => `id: ${each.sequence}\ndata: ${JSON.stringify(each)}\n\n`).join(""));
    };
    const cancel: ScriptedAnswer = async (response, request) => {
      await answerJson(202, RUN)(response, request);
      cancelled.resolve();
    };
    await using api = await serveHttp([ACCEPTED, saying, cancel]);
    const onOutput = (text: string) => text === "Hel" && stop.abort();
    const run = await chat(api, ["--message", "hi"], { interrupted: stop.signal, onOutput });
    expect(run).toEqual({ exitCode: 1, out: "Hel\n", err: "stopping …\ncancelled (user_cancel)\n" });
    expect(api.asked[2]).toMatchObject({ method: "POST", url: `/v1/runs/${RUN_ID}/cancel` });
  });
});

describe("on a terminal", () => {
  it("progress is shown and goes again", async () => {
    await using api = await serveHttp([
      ACCEPTED,
      stream(event("run.phase", { phase: "using_tool" }, RUN_ID), event("text.completed", { text: "ok" }), finished()),
    ]);
    const run = await chat(api, ["--message", "hi"], { terminal: true });
    expect(run.err).toContain("using tool …");
    expect(run.err.endsWith("\r\u001b[2K")).toBe(true);
    expect(run.out).toBe("ok\n");
  });

  it("a model's text cannot ring, move the cursor or change the title", async () => {
    const text = "safe\u001b[2J\u0007\u001b]0;owned\u0007\r\u009b31m text\n\tindented";
    await using api = await serveHttp([ACCEPTED, stream(event("text.completed", { text }), finished())]);
    const run = await chat(api, ["--message", "hi"], { terminal: true });
    expect(run.out).toBe("safe\ufffd[2J\ufffd\ufffd]0;owned\ufffd\ufffd\ufffd31m text\n\tindented\n");
    const piped = await serveHttp([ACCEPTED, stream(event("text.completed", { text }), finished())]);
    expect((await chat(piped, ["--message", "hi"])).out).toBe(`${text}\n`);
    await piped[Symbol.asyncDispose]();
  });
});

describe("following events", () => {
  const words = (api: ScriptedHttp, ...more: readonly string[]) => [
    "events",
    ...more,
    "--url",
    api.url,
    "--api-key",
    "sbx_key",
    "--data-dir",
    folder,
  ];

  it("prints one line each, in words", async () => {
    const events = [
      event("run.started", { runtime: "langgraph", attempt: 1 }, RUN_ID),
      event("text.completed", { text: "Hello\nthere" }),
      finished(),
    ];
    const ending: ScriptedAnswer = (response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(events.map((each) => `id: ${each.sequence}\ndata: ${JSON.stringify(each)}\n\n`).join(""));
    };
    await using api = await serveHttp([ending]);
    const run = await runSignalbox(words(api, "cnv_1", "--no-follow", "--after", "0"));
    expect(run.exitCode).toBe(0);
    expect(run.out.split("\n")).toEqual([
      "    1  run.started        langgraph, attempt 1",
      '    ·  text.delta         "Hello\\nthere"',
      '    2  text.completed     "Hello\\nthere"',
      "    3  run.finished       completed (answered)",
      "",
    ]);
    expect(api.asked[0]?.url).toBe("/v1/conversations/cnv_1/events?after=0&follow=false");
  });

  it("of a run ends with it", async () => {
    await using api = await serveHttp([
      answerJson(200, RUN),
      stream(event("text.completed", { text: "x" }), finished()),
    ]);
    const run = await runSignalbox(words(api, RUN_ID, "--json"));
    expect(run.exitCode).toBe(0);
    const types = run.out
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as PlatformEvent).type);
    expect(types).toEqual(["text.delta", "text.completed", "run.finished"]);
  });

  it("ends well when whoever follows has seen enough", async () => {
    const stop = new AbortController();
    await using api = await serveHttp([stream(event("run.phase", { phase: "writing" }, RUN_ID))]);
    const run = await runSignalbox(words(api, "cnv_1"), { interrupted: stop.signal, onOutput: () => stop.abort() });
    expect(run).toEqual({ exitCode: 0, out: "    1  run.phase          writing\n", err: "" });
  });
});
