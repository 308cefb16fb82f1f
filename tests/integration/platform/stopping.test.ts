/** Leaving, stopping, and a connection that dies without a word: what a run does, and what it costs. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { once } from "node:events";
import { Signalbox, type ConversationHandle, type RunHandle } from "@signalbox/client";
import type { Message } from "@signalbox/contract";
import { startMcpServer } from "@signalbox/testkit";
import { afterEach, expect, test } from "vitest";
import { until } from "../../setup/until.ts";
import { conversationWith, setStage, type Stage } from "./stage.ts";

const SLOW_ANSWER = "[[sim:tokens 60]] [[sim:slow 50]] Tell me something long.";
const ENDLESS_ANSWER = "[[sim:tokens 2000]] [[sim:slow 50]] Tell me something endless.";
const CUT_WITHIN_MS = 1_000;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

/** Reads until some text has come, and leaves; the cursor is where the reader stood. */
async function readSome(run: RunHandle): Promise<void> {
  let parts = 0;
  for await (const event of run.events()) {
    parts += event.type === "text.delta" ? 1 : 0;
    if (parts === 5) return;
  }
}

async function messagesOf(conversation: ConversationHandle): Promise<readonly Message[]> {
  const all: Message[] = [];
  for await (const message of conversation.messages()) all.push(message);
  return all;
}

function modelCalls({ sim }: Stage) {
  return sim.requests.filter(({ wire }) => wire !== null);
}

/** A tool that works until it is told to stop, and the server it is at. */
async function slowServer(effect: string) {
  const handler = (_input: unknown, { signal }: { readonly signal: AbortSignal }): Promise<string> =>
    new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(new Error("told to stop")), { once: true });
    });
  const server = stack.use(await startMcpServer({ tools: { wait: { handler } } }));
  const tools = { wait: { effect, timeoutMs: 60_000 } };
  return { server, toolServers: { slow: { transport: "http", url: server.url, headers: {}, tools } } };
}

/** Presses stop and waits until the provider's socket is closed; nothing is asked of it afterwards. */
async function stopAndExpectCut(stage: Stage, run: RunHandle): Promise<void> {
  const count = modelCalls(stage).length;
  await run.cancel();
  const askedAtMs = Date.now();
  await until("the provider's socket is closed", () =>
    modelCalls(stage).every(({ closedAtMs }) => closedAtMs !== null),
  );
  expect(modelCalls(stage).at(-1)!.closedAtMs! - askedAtMs).toBeLessThan(CUT_WITHIN_MS);
  expect(await run.result()).toMatchObject({ outcome: "cancelled", reason: "user_cancel" });
  expect(modelCalls(stage), "a call that was abandoned is not made again").toHaveLength(count);
}

test("a tab that is closed stops nothing; one that is reloaded can stop, and only what was received is kept and counted", async () => {
  const stage = await setStage(stack);
  stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph");
  const left = await conversation.send(SLOW_ANSWER);
  await readSome(left);
  expect(await left.result()).toMatchObject({ outcome: "completed", reason: "answered" });

  const stopped = await conversation.send(ENDLESS_ANSWER);
  await readSome(stopped);
  await stopAndExpectCut(stage, stopped);

  const reloaded = await conversation.send(ENDLESS_ANSWER);
  await readSome(reloaded);
  const again = await stage.client.runs.open(reloaded.id);
  await readSome(again);
  await stopAndExpectCut(stage, again);

  const answers = (await messagesOf(conversation)).filter(({ role }) => role === "assistant");
  expect(answers.map(({ partial }) => partial)).toEqual([false, true, true]);
  expect(answers.every(({ content }) => content !== "")).toBe(true);
  const { usage } = await again.get();
  expect(usage.outputTokens).toBeGreaterThan(0);
  expect(usage.outputTokens, "what was never received is not counted").toBeLessThan(2_000);
}, 120_000);

test("a run that is stopped before the first byte leaves no empty answer, and its call is not made again", async () => {
  const stage = await setStage(stack);
  stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph");
  const run = await conversation.send("[[sim:wait 60000]] Hello");
  await until("the provider was asked", () => modelCalls(stage).length === 1);
  await stopAndExpectCut(stage, run);
  expect((await messagesOf(conversation)).map(({ role }) => role)).toEqual(["user"]);
  expect((await run.get()).usage.outputTokens, "of an answer nothing had come").toBe(0);
}, 60_000);

test.each(["read", "write"])(
  "a run that is stopped while its %s tool works tells the tool, asks the provider nothing more, and calls no tool again",
  async (effect) => {
    const { server, toolServers } = await slowServer(effect);
    const stage = await setStage(stack, { toolServers });
    stage.worker("langgraph");
    const conversation = await conversationWith(stage.client, "langgraph", ["slow/wait"]);
    const run = await conversation.send("[[sim:tool slow__wait {}]]");
    await server.waitFor((calls) => calls.length === 1, 20_000);
    const count = modelCalls(stage).length;
    await run.cancel();
    const askedAtMs = Date.now();
    await server.waitFor((calls) => calls[0]?.outcome === "cancelled", 10_000);
    expect(server.calls[0]!.endedAtMs! - askedAtMs).toBeLessThan(CUT_WITHIN_MS);
    expect(await run.result()).toMatchObject({ outcome: "cancelled", reason: "user_cancel" });
    expect(server.calls).toHaveLength(1);
    expect(modelCalls(stage)).toHaveLength(count);
  },
  60_000,
);

/** Forwards connections; the first one that has carried so many bytes back goes dead without closing. */
async function halfOpenProxy(target: string, afterBytes: number): Promise<{ readonly url: string; dead(): boolean }> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let isDead = false;
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const socket of [near, far]) sockets.add(socket.on("error", () => undefined));
    let carried = 0;
    let frozen = false;
    near.on("data", (chunk) => far.write(chunk));
    far.on("data", (chunk) => {
      carried += chunk.length;
      if (!isDead && carried > afterBytes) isDead = frozen = true;
      if (!frozen) near.write(chunk);
    });
    near.on("close", () => far.destroy());
    far.on("close", () => frozen || near.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(async () => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
    await once(server, "close");
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, dead: () => isDead };
}

test("a connection that dies without a word is noticed by its reader, who goes on without a second run", async () => {
  const stage = await setStage(stack);
  stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph");
  const run = await conversation.send(SLOW_ANSWER);
  const proxy = await halfOpenProxy(stage.served.url, 4_000);
  const client = new Signalbox({ url: proxy.url, apiKey: stage.apiKey });
  const sequences: number[] = [];
  let said = "";
  let whole = "";
  for await (const event of (await client.runs.open(run.id)).events({ silenceLimitMs: 1_000 })) {
    if (event.sequence !== null) sequences.push(event.sequence);
    if (event.type === "text.delta") said += event.text;
    if (event.type === "text.completed") whole += event.text;
  }
  expect(proxy.dead()).toBe(true);
  expect(sequences).toEqual([...new Set(sequences)].sort((left, right) => left - right));
  expect(said, "every part came once and in order").toBe(whole);
  expect((await client.runs.list({ conversation: conversation.id })).data).toHaveLength(1);
  expect(await run.result()).toMatchObject({ outcome: "completed" });
}, 60_000);

const QUIET_MS = 21_000;
const LONGEST_GAP_MS = 10_000;

/** The longest time without a byte while a stream is read for so long. */
async function longestGapMs(response: Response, forMs: number): Promise<number> {
  const reader = response.body!.getReader();
  const startedAtMs = performance.now();
  let lastAtMs = startedAtMs;
  let longestMs = 0;
  while (lastAtMs - startedAtMs < forMs) {
    const { done } = await reader.read();
    const nowMs = performance.now();
    longestMs = Math.max(longestMs, nowMs - lastAtMs);
    lastAtMs = nowMs;
    if (done) throw new Error("the stream ended");
  }
  await reader.cancel();
  return longestMs;
}

test("a stream is never silent for ten seconds: queued, while the provider is silent, and while a tool works", async () => {
  const { server, toolServers } = await slowServer("read");
  const stage = await setStage(stack, { toolServers });
  stage.worker("langgraph");
  const conversation = await conversationWith(stage.client, "langgraph", ["slow/wait"]);
  const beside = await stage.client.conversations.create({ agent: "agent-langgraph" });
  const headers = { authorization: `Bearer ${stage.apiKey}`, accept: "text/event-stream" };
  const post = (id: string, content: string): Promise<Response> =>
    fetch(`${stage.served.url}/v1/conversations/${id}/messages`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ content }),
    });
  const silentProvider = await post(conversation.id, "[[sim:wait 60000]] Hello");
  const queued = await post(conversation.id, "And then?");
  const working1 = await post(beside.id, "[[sim:tool slow__wait {}]]");
  await server.waitFor((calls) => calls.length === 1, 20_000);
  const idle = await fetch(`${stage.served.url}/v1/conversations/${beside.id}/events`, { headers });
  const streams = [silentProvider, queued, working1, idle];
  const gaps = await Promise.all(streams.map((response) => longestGapMs(response, QUIET_MS)));
  expect(Math.max(...gaps)).toBeLessThan(LONGEST_GAP_MS);
}, 90_000);
