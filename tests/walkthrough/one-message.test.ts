/**
 * One message through everything, written to be read first. The same story on both engines: the real LangGraph and the
 * real Claude Agent SDK with its program, a real PostgreSQL, a third-party tool server, and `sim` as the model.
 *
 * Each step below is one of the eight responsibilities, and shows what it left in the record.
 */
import { fileURLToPath } from "node:url";
import { Signalbox } from "@signalbox/client";
import type { PlatformEvent } from "@signalbox/contract";
import { startSim } from "@signalbox/testkit";
import pg from "pg";
import { afterEach, describe, expect, test } from "vitest";
import { cloneDatabase } from "../setup/clone-database.ts";
import { issueKey, platformFacts, serve, startWorkerProcess } from "../setup/real-processes.ts";
import { until } from "../setup/until.ts";

const DOCUMENTS = fileURLToPath(new URL("../../docs", import.meta.url));
const FILESYSTEM_SERVER = fileURLToPath(
  new URL("../../node_modules/@modelcontextprotocol/server-filesystem/dist/index.js", import.meta.url),
);
const READ = { effect: "read" };
const TOOL_SERVERS = {
  docs: {
    transport: "stdio",
    command: process.execPath,
    args: [FILESYSTEM_SERVER, DOCUMENTS],
    tools: { list_allowed_directories: READ, list_directory: READ, read_text_file: READ },
  },
};
const TOOLS = ["docs/list_allowed_directories", "docs/list_directory", "docs/read_text_file"];

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

describe.each(["langgraph", "claude_sdk"])("on %s", (runtime) => {
  test("a question about a document becomes a durable, streamed, governed answer", async () => {
    const { client, query } = await openPlatform(runtime);

    // 1. API. An agent names its runtime, model and tools once; what cannot work is refused here.
    const agent = await client.agents.create({
      name: "reader",
      runtime,
      model: "sim/extractive-1",
      instructions: "Answer from the documents.",
      tools: TOOLS,
    });
    expect(agent.tools).toEqual(TOOLS.map((reference) => ({ reference, effect: "read", grade: "contained" })));
    const conversation = await client.conversations.create({ agent: "reader" });

    // 2. Admission. Message, run, audit entry and first event are one transaction, committed before the answer.
    const { run, accepted } = await conversation.sendDetailed("What does the glossary say about a lease?", {
      idempotencyKey: "walkthrough-1",
    });
    expect(accepted.accepted).toBe("started");
    expect(await query("select role, text from signalbox.message where run_id = $1", [run.id])).toContainEqual({
      role: "user",
      text: "What does the glossary say about a lease?",
    });
    const again = await conversation.sendDetailed("What does the glossary say about a lease?", {
      idempotencyKey: "walkthrough-1",
    });
    expect(again.accepted).toEqual(accepted);

    // The caller may read along from the cursor it was given, or come back later: it sees the same.
    const events: PlatformEvent[] = [];
    for await (const event of run.events({ signal: AbortSignal.timeout(50_000) })) events.push(event);
    const ofType = (type: PlatformEvent["type"]): readonly PlatformEvent[] =>
      events.filter((event) => event.type === type);

    // 3. Supervise. One process claimed the conversation, under a generation that grew with it.
    expect(ofType("run.started")).toEqual([
      expect.objectContaining({ runtime, attempt: 1, generation: expect.any(Number) }),
    ]);

    // 4. Compose. The static prefix is hashed; what changes from turn to turn travels inside the user message.
    expect(ofType("turn.composed")).toEqual([expect.objectContaining({ rung: "fresh", model: "sim/extractive-1" })]);

    // 5. Turn. The engine owned the loop: it asked the model, called tools, and asked again.
    const shown = await run.get();
    expect(shown.usage.modelCalls).toBeGreaterThanOrEqual(2);

    // 6. Gates. Each model call and tool call has an intent before it and an outcome after it.
    const modelCalls = await query(
      "select state, finished_at >= started_at as settled from signalbox.model_call where run_id = $1",
      [run.id],
    );
    expect(modelCalls).toEqual(modelCalls.map(() => ({ state: "succeeded", settled: true })));
    const toolCalls = await query(
      "select tool, effect, state from signalbox.tool_call where run_id = $1 order by proposed_at, ordinal",
      [run.id],
    );
    expect(toolCalls.at(-1)).toEqual({ tool: "read_text_file", effect: "read", state: "succeeded" });
    expect(ofType("tool.finished")).toHaveLength(toolCalls.length);

    // 7. The executor said how it ended, in our words; its text came as it was written.
    const streamed = ofType("text.delta").map((event) => (event.type === "text.delta" ? event.text : ""));
    expect(streamed.length).toBeGreaterThan(1);

    // 8. Finalize. Answer, continuity, audit, terminal event and release are one transaction.
    expect(events.at(-1)).toMatchObject({
      type: "run.finished",
      outcome: "completed",
      reason: "answered",
      error: null,
    });
    const history = [];
    for await (const message of conversation.messages()) history.push(message);
    expect(history.map((message) => message.role)).toEqual(["user", "assistant"]);
    expect(streamed.join("")).toContain(history[1]?.content);
    expect(history[1]?.content).toMatch(/lease/i);
    const actions = await query("select action from signalbox.audit_pending where run_id = $1 order by id", [run.id]);
    expect(actions.map((row) => row.action)).toEqual(
      expect.arrayContaining([
        "message_received",
        "run_started",
        "model_called",
        "model_settled",
        "tool_called",
        "tool_settled",
        "message_completed",
      ]),
    );
    expect(
      await query("select owner, cancel_at from signalbox.ownership where conversation_id = $1", [conversation.id]),
    ).toEqual([{ owner: null, cancel_at: null }]);

    // And the transcript lets the agent continue: the next turn finds it where the last one left it.
    const next = await conversation.send("And what was my first question about?");
    const nextEvents: PlatformEvent[] = [];
    for await (const event of next.events({ signal: AbortSignal.timeout(50_000) })) nextEvents.push(event);
    expect(nextEvents.find((event) => event.type === "turn.composed")).toMatchObject({ rung: "native" });
    expect(nextEvents.at(-1)).toMatchObject({ type: "run.finished", outcome: "completed" });
    expect(await everySequence(conversation.events({ follow: false }))).toEqual(
      upTo((await conversation.get()).lastSequence),
    );
  });
});

async function openPlatform(runtime: string) {
  const database = stack.use(await cloneDatabase());
  const sim = stack.use(await startSim({ ids: "unique" }));
  const facts = stack.use(platformFacts({ databaseUrl: database.url, simUrl: sim.url, toolServers: TOOL_SERVERS }));
  const apiKey = await issueKey(facts);
  const served = await serve(facts);
  stack.use(served.process);
  stack.use(startWorkerProcess(facts, { gatesUrl: served.gatesUrl, runtime }));
  const client = new Signalbox({ url: served.url, apiKey });
  await until(`a worker with ${runtime}`, async () => (await client.runtimes()).some((each) => each.available), 30_000);
  const reader = new pg.Client(database.config);
  await reader.connect();
  stack.defer(() => reader.end());
  const query = async (text: string, values: readonly unknown[]): Promise<readonly Record<string, unknown>[]> =>
    (await reader.query<Record<string, unknown>>(text, [...values])).rows;
  return { client, query };
}

async function everySequence(events: AsyncIterable<PlatformEvent>): Promise<readonly number[]> {
  const sequences: number[] = [];
  for await (const event of events) if (event.sequence !== null) sequences.push(event.sequence);
  return sequences;
}

function upTo(last: number): readonly number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}
