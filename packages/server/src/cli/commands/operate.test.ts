import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NO_USAGE, type Explanation, type Run } from "@signalbox/contract";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runSignalbox } from "../../../../../tests/setup/cli-run.ts";
import { answerJson, serveHttp, type ScriptedAnswer } from "../../../../../tests/setup/scripted-http.ts";

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
const ENDED: Run = { ...RUN, status: "completed", reason: "answered", finishedAt: AT };

function explained(...stops: Explanation["stops"]): ScriptedAnswer {
  const told: Explanation = {
    runId: RUN_ID,
    conversationId: "cnv_1",
    state: "running",
    generation: 1,
    attempt: 1,
    runtime: "langgraph",
    since: AT,
    owner: null,
    cancelRequestedAt: null,
    waitingFor: [],
    openCalls: [],
    queuePlace: null,
    stops,
    summary: "s",
    next: "n",
  };
  return answerJson(200, told);
}

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "operate-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function said(answers: readonly ScriptedAnswer[], ...words: readonly string[]): Promise<string> {
  await using api = await serveHttp([...answers]);
  const environment = { SIGNALBOX_URL: api.url, SIGNALBOX_API_KEY: "sbx_key", SIGNALBOX_DATA_DIR: folder };
  const { exitCode, out, err } = await runSignalbox(words, { environment });
  expect(exitCode).toBe(0);
  return out + err;
}

describe("what was done to a run is said", () => {
  it("of a pause", async () => {
    expect(await said([answerJson(200, RUN)], "pause", RUN_ID)).toBe(
      `${RUN_ID} is paused: no call of it begins until \`signalbox resume ${RUN_ID}\`. What it is doing goes on; it is running now.\n`,
    );
  });

  it.each([
    {
      what: "its own pause",
      run: RUN,
      scopes: ["run"],
      sentence: `The pause of the run is lifted. ${RUN_ID} is running.`,
    },
    { what: "none at all", run: RUN, scopes: [], sentence: `nothing was lifted. ${RUN_ID} is running.` },
    {
      what: "only another's",
      run: RUN,
      scopes: ["agent"],
      sentence: "No pause of this run stood; nothing was lifted. ",
    },
    {
      what: "another's too",
      run: RUN,
      scopes: ["run", "agent"],
      sentence: "agent still stands: `signalbox stop --lift stp_agent`.",
    },
    {
      what: "that of one that ended",
      run: ENDED,
      scopes: ["run"],
      sentence: `${RUN_ID} is completed (answered): it has ended.`,
    },
  ] as const)("of a resume, with $what", async ({ run, scopes, sentence }) => {
    const stops = scopes.map((scope) => ({ id: `stp_${scope}`, kind: "pause" as const, scope }));
    expect(await said([explained(...stops), answerJson(200, run)], "resume", RUN_ID)).toContain(sentence);
  });

  it("of a cancel, also of one that came too late", async () => {
    expect(await said([answerJson(202, RUN)], "runs", "cancel", RUN_ID)).toContain("The run is being cancelled.");
    expect(await said([answerJson(202, ENDED)], "runs", "cancel", RUN_ID)).toContain("nothing was cancelled.");
  });
});
