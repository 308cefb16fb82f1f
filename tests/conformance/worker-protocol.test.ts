/** The rules of the worker protocol, with the scripted engine, over a socket and inside one process. */
import { Code, ConnectError } from "@connectrpc/connect";
import { StepResult_Outcome } from "@signalbox/contract/worker-protocol";
import { playMessage, type Action } from "@signalbox/testkit";
import { describe, expect, it, vi } from "vitest";
import {
  dial,
  executeStep,
  hashOf,
  newSlotToken,
  openSession,
  readStep,
  snapshotOf,
  type SessionOrder,
  type Transports,
} from "./support/worker-client.ts";
import { codeOf, CONVERSATION, platform, scene, toEnd, type Scene } from "./support/worker-scene.ts";

const play = (...actions: Action[]): string => playMessage(actions);

describe.each<Transports>(["h2c", "in memory"])("worker protocol %s", (over) => {
  it("refuses every call without the join token, and does not count it as being heard", async () => {
    const { worker } = await scene(over);
    const stranger = dial(over, worker, "another token");
    toEnd.push(stranger);
    const target = { conversationId: CONVERSATION, generation: 1n };
    await expect(codeOf(stranger.client.heartbeat({}))).resolves.toBe("unauthenticated");
    await expect(codeOf(stranger.client.terminate(target))).resolves.toBe("unauthenticated");
    await expect(codeOf(stranger.client.interruptStep(target))).resolves.toBe("unauthenticated");
    await expect(codeOf(stranger.client.checkpoint(target))).resolves.toBe("unauthenticated");
    await expect(
      codeOf(openSession(stranger.client, { conversationId: CONVERSATION, generation: 1, slotToken: "x" })),
    ).resolves.toBe("unauthenticated");
    await expect(
      codeOf(readStep(executeStep(stranger.client, { conversationId: CONVERSATION, generation: 1, text: "hi" }))),
    ).resolves.toBe("unauthenticated");
  });

  it("streams a step and ends it with exactly one result", async () => {
    const { open, step, transcript, slotToken } = await scene(over);
    const opened = await open();
    expect(opened.rebound).toBe(false);
    expect(opened.leaf).toBe("");
    expect(opened.slotHash).toMatch(/^[0-9a-f]{64}$/);
    expect(opened.slotHash).not.toContain(slotToken);
    const read = await step(play({ think: "hm" }, { say: "Hello there", chunkChars: 4 }));
    expect(read.results).toHaveLength(1);
    expect(read.events.at(-1)?.case).toBe("result");
    expect(read.result.outcome).toBe(StepResult_Outcome.DONE);
    expect(read.result.answer).toBe("Hello there");
    expect([...read.said.values()]).toEqual(["Hello there"]);
    expect(read.result.leaf).toBe(transcript.visible.at(-1)?.entryId);
  });

  it("refuses a snapshot that does not match its hash, and a runtime it does not have", async () => {
    const { open } = await scene(over);
    await expect(codeOf(open({ snapshotHash: hashOf(snapshotOf({ revision: 2 })) }))).resolves.toBe(
      "snapshot_mismatch",
    );
    await expect(codeOf(open({ snapshot: snapshotOf({ runtime: "elsewhere" }) }))).resolves.toBe("runtime_unknown");
  });

  it("announces an engine that cannot be loaded with the reason, and refuses its sessions", async () => {
    const { client, open } = await scene(over, {
      runtimes: { broken: () => Promise.reject(new Error("Cannot find package 'engine'")) },
    });
    const { runtimes } = await client.heartbeat({});
    expect(runtimes).toMatchObject([{ name: "broken", available: false, problem: "Cannot find package 'engine'" }]);
    await expect(codeOf(open({ snapshot: snapshotOf({ runtime: "broken" }) }))).resolves.toBe("SDK_UNAVAILABLE");
  });

  it("refuses a lower generation than it has seen, also after the session has ended", async () => {
    const { client, open, step } = await scene(over);
    await open({ generation: 7 });
    await expect(codeOf(open({ generation: 6 }))).resolves.toBe("stale_generation");
    await expect(codeOf(step("hi", 6))).resolves.toBe("stale_generation");
    await expect(codeOf(client.terminate({ conversationId: CONVERSATION, generation: 6n }))).resolves.toBe(
      "stale_generation",
    );
    expect((await client.heartbeat({})).sessions).toMatchObject([{ conversationId: CONVERSATION, generation: 7n }]);
    await client.terminate({ conversationId: CONVERSATION, generation: 7n });
    await expect(codeOf(open({ generation: 6 }))).resolves.toBe("stale_generation");
  });

  it("answers session_unknown for a session it does not hold, or not under this generation", async () => {
    const { open, step } = await scene(over);
    await expect(codeOf(step("hi"))).resolves.toBe("session_unknown");
    await open({ generation: 3 });
    await expect(codeOf(step("hi", 4))).resolves.toBe("session_unknown");
  });

  it("rebinds the warm session to a higher generation when nothing happened in between", async () => {
    const { open, step } = await scene(over);
    await open();
    const { leaf } = (await step("first")).result;
    const again = await open({ generation: 2, rung: "native", leaf });
    expect(again).toMatchObject({ rebound: true, leaf });
    expect((await step(play({ sayRemembered: true }), 2)).result.answer).toBe("2");
    await expect(codeOf(step("late", 1))).resolves.toBe("stale_generation");
  });

  it.each<[string, (scene: Scene) => Partial<SessionOrder>]>([
    [
      "another slot token",
      ({ transcript }) => {
        const slotToken = newSlotToken();
        platform().bind(slotToken, transcript);
        return { slotToken };
      },
    ],
    ["another snapshot", () => ({ snapshot: snapshotOf({ revision: 2 }) })],
    ["another leaf", () => ({ rung: "rebuilt", leaf: null, history: [{ role: "user", text: "before" }] })],
  ])("ends the session and opens it anew for %s", async (_name, difference) => {
    const made = await scene(over);
    const first = await made.open();
    const { leaf } = (await made.step("first")).result;
    made.transcript.finalize();
    const order = difference(made);
    const again = await made.open({ generation: 2, rung: "native", leaf, ...order });
    expect(again.rebound).toBe(false);
    expect(again.slotHash === first.slotHash).toBe(order.slotToken === undefined);
    expect((await made.step(play({ sayRemembered: true }), 2)).result.outcome).toBe(StepResult_Outcome.DONE);
  });

  it("refuses to go on natively from a leaf the transcript does not have", async () => {
    const { open } = await scene(over);
    await expect(codeOf(open({ rung: "native", leaf: "nowhere" }))).resolves.toBe("transcript_corrupt");
  });

  it("ends a step whose engine throws as failed, once, logs the cause once, and never goes on with that engine", async () => {
    const { client, open, step, log } = await scene(over);
    await open();
    const { result, results } = await step(play({ say: "So far" }, { throw: "the engine broke in two" }));
    expect(results).toHaveLength(1);
    expect(result).toMatchObject({ outcome: StepResult_Outcome.FAILED, error: { code: "engine_failed" } });
    expect(result.error?.detail).not.toContain("in two");
    expect(log.lines.filter((line) => line.text.includes("the engine broke in two"))).toHaveLength(1);
    await expect(codeOf(step("and now?"))).resolves.toBe("session_unknown");
    expect((await client.heartbeat({})).sessions).toEqual([]);
    expect((await open({ generation: 2 })).rebound).toBe(false);
    expect((await step("and now?", 2)).result.outcome).toBe(StepResult_Outcome.DONE);
  });

  it("passes on the code an engine fails with", async () => {
    const { open, step } = await scene(over);
    await open();
    const { result } = await step(play({ fail: "provider_overloaded", detail: "busy" }));
    expect(result).toMatchObject({
      outcome: StepResult_Outcome.FAILED,
      error: { code: "provider_overloaded", detail: "busy" },
    });
  });

  it("runs one step of a session at a time", async () => {
    const { client, open, step } = await scene(over);
    await open();
    const begun = Promise.withResolvers<void>();
    const order = {
      conversationId: CONVERSATION,
      generation: 1,
      text: play({ say: "a" }, { hang: "until_interrupted" }),
    };
    const running = readStep(executeStep(client, order), () => begun.resolve());
    await begun.promise;
    await expect(codeOf(step("another"))).resolves.toBe("conversation_busy");
    await client.interruptStep({ conversationId: CONVERSATION, generation: 1n });
    await running;
  });

  it("starts no more steps than it has room for", async () => {
    const { client, open } = await scene(over, { room: 1 });
    await open();
    await open({ conversationId: `${CONVERSATION}2` });
    const begun = Promise.withResolvers<void>();
    const order = {
      conversationId: CONVERSATION,
      generation: 1,
      text: play({ say: "a" }, { hang: "until_interrupted" }),
    };
    const running = readStep(executeStep(client, order), () => begun.resolve());
    await begun.promise;
    const other = { conversationId: `${CONVERSATION}2`, generation: 1, text: "hi" };
    await expect(codeOf(readStep(executeStep(client, other)))).resolves.toBe("no_worker");
    await client.interruptStep({ conversationId: CONVERSATION, generation: 1n });
    await running;
  });

  it("keeps the partial answer of an interrupted step, and says when none was running", async () => {
    const { client, open, transcript } = await scene(over);
    await open();
    const target = { conversationId: CONVERSATION, generation: 1n };
    expect((await client.interruptStep(target)).running).toBe(false);
    const begun = Promise.withResolvers<void>();
    const text = play({ say: "Half of" }, { hang: "until_interrupted" });
    const running = readStep(executeStep(client, { conversationId: CONVERSATION, generation: 1, text }), (event) => {
      if (event.case === "textDelta") {
        begun.resolve();
      }
    });
    await begun.promise;
    expect((await client.interruptStep(target)).running).toBe(true);
    expect((await client.interruptStep(target)).running).toBe(true);
    const { result, results } = await running;
    expect(results).toHaveLength(1);
    expect(result).toMatchObject({ outcome: StepResult_Outcome.INTERRUPTED, answer: "Half of" });
    expect(result.leaf).toBe(transcript.visible.at(-1)?.entryId);
  });

  it("interrupts a step that nobody reads any more", async () => {
    const { client, open } = await scene(over);
    await open();
    const reader = new AbortController();
    const text = play({ say: "a" }, { hang: "until_interrupted" });
    const order = { conversationId: CONVERSATION, generation: 1, text };
    const running = readStep(executeStep(client, order, reader.signal), () => reader.abort());
    await expect(running).rejects.toThrow(/abort|cancel/i);
    await vi.waitUntil(async () => (await client.heartbeat({})).sessions.every((session) => !session.stepping));
    expect((await client.heartbeat({})).sessions).toHaveLength(1);
  });

  it("makes an engine wait for a slow reader and loses nothing", async () => {
    const { client, open } = await scene(over);
    await open();
    const piece = "x".repeat(64 * 1024);
    const order = {
      conversationId: CONVERSATION,
      generation: 1,
      text: play({ say: piece, times: 48 }, { say: "end" }),
    };
    const stream = executeStep(client, order)[Symbol.asyncIterator]();
    let text = "";
    let deltaCount = 0;
    let result = "";
    for (let next = await stream.next(); next.done !== true; next = await stream.next()) {
      const { event } = next.value;
      if (event.case === "textDelta") {
        deltaCount += 1;
        text = text.slice(0, Number(event.value.offset)) + event.value.text;
        // Other work of the process goes on between two reads.
        await new Promise((resolve) => setImmediate(resolve));
      } else if (event.case === "result") {
        result = event.value.answer;
      }
    }
    expect(text).toHaveLength(48 * 64 * 1024 + 3);
    expect(result).toHaveLength(text.length);
    expect(deltaCount).toBeGreaterThan(1);
  });

  it("ends a step whose text no message can carry with payload_too_large and its size", async () => {
    const { open, step } = await scene(over);
    await open();
    const { result, results } = await step(play({ say: "y".repeat(64), times: 72_000 }));
    expect(results).toHaveLength(1);
    expect(result.error?.code).toBe("payload_too_large");
    expect(result.error?.detail).toContain("4608000");
    expect((await step("again")).result.outcome).toBe(StepResult_Outcome.DONE);
  });

  it("refuses an order no message can carry as payload_too_large", async () => {
    const { open } = await scene(over);
    const history = [{ role: "user", text: "z".repeat(5 * 1024 * 1024) }] as const;
    const failure = await open({ rung: "rebuilt", history }).then(
      () => null,
      (error: unknown) => ConnectError.from(error),
    );
    expect(failure?.code).toBe(Code.ResourceExhausted);
    expect(failure?.rawMessage).toMatch(/52428\d\d|5243\d\d\d/);
  });

  it("lets no ill-formed text through, and keeps pairs that come in two pieces", async () => {
    const { open, step } = await scene(over);
    await open();
    const { result, said } = await step(
      play({ say: "a\ud83d" }, { say: "\ude80 b\u0000" }, { say: "\ud83d c" }, { say: "\\u0000" }),
    );
    expect(result.answer).toBe("a🚀 b\ufffd\ufffd c\\u0000");
    expect([...said.values()]).toEqual([result.answer]);
  });

  it("ends the session at once when the record says another owner has the conversation", async () => {
    const { client, open, step, transcript } = await scene(over);
    await open();
    transcript.claim();
    const { result } = await step("too late");
    expect(result).toMatchObject({ outcome: StepResult_Outcome.FAILED, error: { code: "stale_generation" } });
    await vi.waitUntil(async () => (await client.heartbeat({})).sessions.length === 0);
    expect(transcript.visible).toHaveLength(0);
  });

  it("terminates idempotently, also a session that is stepping", async () => {
    const { client, open } = await scene(over);
    await open();
    const begun = Promise.withResolvers<void>();
    const text = play({ say: "a" }, { hang: "until_interrupted" });
    const running = readStep(executeStep(client, { conversationId: CONVERSATION, generation: 1, text }), () =>
      begun.resolve(),
    );
    await begun.promise;
    const target = { conversationId: CONVERSATION, generation: 1n, reason: "test" };
    await Promise.all([client.terminate(target), client.terminate(target)]);
    await client.terminate(target);
    expect((await running).result.outcome).toBe(StepResult_Outcome.INTERRUPTED);
    expect((await client.heartbeat({})).sessions).toHaveLength(0);
  });

  it("answers a checkpoint with its header", async () => {
    const { client, open, step } = await scene(over);
    await open({ generation: 4 });
    const { leaf } = (await step("remember", 4)).result;
    const header = await client.checkpoint({ conversationId: CONVERSATION, generation: 4n });
    expect(header).toMatchObject({ schemaVersion: 1, runtime: "scripted", generation: 4n, leaf });
    expect(header.sizeBytes).toBeGreaterThan(0n);
  });
});
