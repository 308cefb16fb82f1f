import { RETRY_AFTER_HEADER, type ErrorCode } from "@signalbox/contract";
import { StepResult_Outcome } from "@signalbox/contract/worker-protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  aborted,
  codeOf,
  GATES,
  hash,
  outputsOf,
  PATIENTLY,
  refusal,
  RESULT,
  SESSION,
  STEP,
  WorkersWorld,
} from "../../../../tests/setup/scripted-worker.ts";

let world: WorkersWorld;

beforeEach(async () => {
  world = await WorkersWorld.open();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

describe("a step", () => {
  it("opens its session, is sent with its generation, and ends with exactly one result", async () => {
    await world.connect();
    const seat = await world.seatWithSession();
    const outputs = await outputsOf(seat);
    expect(world.worker.opened[0]).toMatchObject({
      tenantId: "default",
      conversationId: "cnv_1",
      generation: 7n,
      snapshotJson: '{"agentName":"support"}',
      snapshotHash: "h",
      continuity: { rung: "native", leaf: "e0", history: [] },
      gates: GATES,
    });
    expect(seat.slotTokenHash).toBe(hash(world.worker.opened[0] ?? { slotToken: "" }));
    expect(outputs).toEqual([
      { kind: "event", event: { type: "run.phase", phase: "writing" } },
      { kind: "event", event: { type: "text.delta", itemId: "itm_1", offset: 0, text: "Hello" } },
      { kind: "event", event: { type: "text.completed", itemId: "itm_1", text: "Hello" } },
      { kind: "result", result: { ...RESULT, outcome: "done", error: null } },
    ]);
    expect(world.worker.stepped[0]).toMatchObject({
      generation: 7n,
      runId: "run_1",
      turnId: "trn_1",
      input: { case: "message", value: { parts: ["hello"] } },
    });
  });

  it("that goes on says why, and brings neither message nor session again", async () => {
    await world.connect();
    const seat = await world.steppedSeat();
    const step = { ...STEP, parts: [], continueReason: "the plan has open todos" };
    await outputsOf(seat, new AbortController().signal, step);
    expect(world.worker.stepped[1]?.input).toMatchObject({
      case: "continue",
      value: { reason: "the plan has open todos" },
    });
    expect(world.worker.opened).toHaveLength(1);
  });

  it("whose session cannot be opened says why before anything else, and the worker goes on", async () => {
    await world.connect();
    world.worker.onOpen = () => {
      throw refusal("SDK_UNAVAILABLE", "not installed");
    };
    const seat = await world.seatWithSession();
    await expect(outputsOf(seat)).rejects.toMatchObject({ code: "SDK_UNAVAILABLE", detail: "not installed" });
    expect([world.worker.stepped.length, world.room]).toEqual([0, 3]);
  });

  it("opens again where a session was asked for again", async () => {
    await world.connect();
    world.worker.onOpen = (request) => {
      if (request.continuity?.rung === "native") throw refusal("transcript_corrupt", "unreadable");
      return { slotHash: hash(request) };
    };
    const seat = await world.seatWithSession();
    expect(await codeOf(outputsOf(seat))).toBe("transcript_corrupt");
    await seat.open({ ...SESSION, rung: "rebuilt", leaf: null, history: [{ role: "user", text: "hello" }] });
    expect((await outputsOf(seat)).at(-1)).toMatchObject({ kind: "result" });
    expect(world.worker.opened.map(({ continuity }) => continuity?.rung)).toEqual(["native", "rebuilt"]);
  });

  it("whose worker kept another slot ends that session", async () => {
    await world.connect();
    world.worker.onOpen = () => ({ slotHash: "of another slot" });
    const seat = await world.seatWithSession();
    expect(await codeOf(outputsOf(seat))).toBe("engine_failed");
    expect(world.worker.terminated).toHaveLength(1);
  });

  it("is interrupted also while its session is still being opened", async () => {
    await world.connect();
    const opening = Promise.withResolvers<void>();
    const stopped = Promise.withResolvers<void>();
    world.worker.onOpen = async (request) => {
      await opening.promise;
      return { slotHash: hash(request) };
    };
    world.worker.onInterrupt = () => {
      if (world.worker.stepped.length === 0) {
        opening.resolve();
        throw refusal("session_unknown", "not open");
      }
      stopped.resolve();
      return true;
    };
    world.worker.onStep = async function* () {
      await stopped.promise;
      yield { event: { case: "result", value: { ...RESULT, outcome: StepResult_Outcome.INTERRUPTED } } };
    };
    expect(await outputsOf(await world.seatWithSession(), AbortSignal.abort())).toMatchObject([{ kind: "result" }]);
  });

  it("passes over what only a newer worker says", async () => {
    await world.connect();
    const seat = await world.seatWithSession();
    world.worker.onStep = async function* () {
      yield { event: { case: undefined } };
      yield {
        event: {
          case: "result",
          value: {
            ...RESULT, // Not an outcome of this release.
            outcome: 99 as StepResult_Outcome,
            error: { code: "of_the_future", detail: "?" },
          },
        },
      };
    };
    expect(await outputsOf(seat)).toMatchObject([
      { kind: "result", result: { outcome: "failed", error: { code: "engine_failed", detail: "?" } } },
    ]);
  });

  it("that ends without a result ends its worker", async () => {
    await world.connect();
    const seat = await world.seatWithSession();
    world.worker.onStep = async function* () {
      yield { event: { case: "phase", value: { phase: "writing" } } };
    };
    expect(await codeOf(outputsOf(seat))).toBe("worker_lost");
    expect(world.room).toBe(0);
  });

  it("whose connection breaks ends its worker", async () => {
    await world.connect();
    const seat = await world.seatWithSession();
    world.worker.onStep = async function* (_request, signal) {
      yield { event: { case: "phase", value: { phase: "writing" } } };
      await aborted(signal);
    };
    const waiting = codeOf(outputsOf(seat));
    await expect.poll(() => world.worker.stepped.length, PATIENTLY).toBe(1);
    world.worker.cut();
    expect(await waiting).toBe("worker_lost");
    expect(world.warnings).toEqual(["worker lost"]);
  });

  it.each<ErrorCode>(["session_unknown", "stale_generation", "payload_too_large", "worker_lost"])(
    "that is refused with %s says so, and the worker goes on",
    async (code) => {
      await world.connect();
      const seat = await world.seatWithSession();
      world.worker.onStep = () => {
        throw refusal(code, "no", { [RETRY_AFTER_HEADER]: "1500" });
      };
      await expect(outputsOf(seat)).rejects.toMatchObject({ code, detail: "no", retryAfterMs: 1_500 });
      expect(world.room).toBe(3);
    },
  );

  it("is interrupted when its signal aborts, and still ends with its result", async () => {
    await world.connect();
    const seat = await world.seatWithSession();
    const stop = new AbortController();
    const stopped = Promise.withResolvers<void>();
    world.worker.onInterrupt = () => (stopped.resolve(), true);
    world.worker.onStep = async function* () {
      yield { event: { case: "textDelta", value: { itemId: "itm_1", offset: 0n, text: "Hel" } } };
      await stopped.promise;
      yield { event: { case: "result", value: { ...RESULT, outcome: StepResult_Outcome.INTERRUPTED, answer: "Hel" } } };
    };
    const running = outputsOf(seat, stop.signal);
    await expect.poll(() => world.worker.stepped.length, PATIENTLY).toBe(1);
    stop.abort();
    expect((await running).at(-1)).toMatchObject({ kind: "result", result: { outcome: "interrupted", answer: "Hel" } });
    expect(world.worker.interrupted).toMatchObject([{ conversationId: "cnv_1", generation: 7n }]);
  });

  it("that was to be interrupted before it reached the worker is interrupted once it has", async () => {
    await world.connect();
    const seat = await world.seatWithSession();
    const stopped = Promise.withResolvers<void>();
    world.worker.onInterrupt = () => {
      const running = world.worker.stepped.length > 0 && world.worker.interrupted.length > 2;
      if (running) stopped.resolve();
      return running;
    };
    world.worker.onStep = async function* () {
      await stopped.promise;
      yield { event: { case: "result", value: { ...RESULT, outcome: StepResult_Outcome.INTERRUPTED } } };
    };
    expect(await outputsOf(seat, AbortSignal.abort())).toMatchObject([{ kind: "result" }]);
    expect(world.worker.interrupted).toHaveLength(3);
  });

  it("without a session is nobody's", async () => {
    await world.connect();
    expect(await codeOf(outputsOf(await world.workers.seat("cnv_1", "langgraph")))).toBe("internal");
  });
});
