/** When a worker ends sessions by itself, announces itself, and ends. */
import { PlatformError } from "@signalbox/contract";
import { StepResult_Outcome } from "@signalbox/contract/worker-protocol";
import { createScriptedExecutor, playMessage, startPlatformDouble, type Action } from "@signalbox/testkit";
import { startWorker, type Executor, type WorkerOptions } from "@signalbox/worker";
import { describe, expect, it, vi } from "vitest";
import { movedClock } from "./support/moved-clock.ts";
import { recordingLog } from "./support/recording-log.ts";
import { dial, executeStep, JOIN_TOKEN, readStep, snapshotOf, type Transports } from "./support/worker-client.ts";
import { codeOf, CONVERSATION, platform, scene, toEnd } from "./support/worker-scene.ts";

const play = (...actions: Action[]): string => playMessage(actions);

describe.each<Transports>(["h2c", "in memory"])("a worker's sessions %s", (over) => {
  it("parks idle sessions, and sessions that are too old", async () => {
    const clock = movedClock();
    const { client, open, step } = await scene(over, { clock, sessionIdleMaxMs: 60_000, sessionAgeMaxMs: 100_000 });
    await open();
    await client.heartbeat({});
    await clock.pass(50_000, () => client.heartbeat({}));
    expect((await client.heartbeat({})).sessions).toHaveLength(1);
    await step("still here");
    await clock.pass(55_000, () => client.heartbeat({}));
    expect((await client.heartbeat({})).sessions).toHaveLength(0);
    await expect(codeOf(step("gone?"))).resolves.toBe("session_unknown");
  });

  it("ends every session when it has heard from no supervisor for one lease", async () => {
    const clock = movedClock();
    const { client, open, worker, log } = await scene(over, { clock });
    await open();
    const begun = Promise.withResolvers<void>();
    const text = play({ say: "a" }, { hang: "until_interrupted" });
    const running = readStep(executeStep(client, { conversationId: CONVERSATION, generation: 1, text }), () =>
      begun.resolve(),
    );
    await begun.promise;
    await clock.pass(15_000);
    const { result } = await running;
    expect(result).toMatchObject({ outcome: StepResult_Outcome.FAILED, error: { code: "worker_lost" } });
    expect(log.lines.some((line) => line.text.includes("no supervisor for one lease"))).toBe(true);
    expect(worker.runtimes).toHaveLength(1);
    expect((await client.heartbeat({})).sessions).toHaveLength(0);
  });

  it("drains: takes nothing new, interrupts what goes on too long, leaves no session", async () => {
    const { client, worker, open, step } = await scene(over, { drainMs: 50 });
    await open();
    const begun = Promise.withResolvers<void>();
    const text = play({ say: "Until now" }, { hang: "until_interrupted" });
    const running = readStep(executeStep(client, { conversationId: CONVERSATION, generation: 1, text }), () =>
      begun.resolve(),
    );
    await begun.promise;
    const drained = worker.drain();
    await expect(codeOf(open({ conversationId: `${CONVERSATION}2` }))).resolves.toBe("shutting_down");
    expect((await client.heartbeat({})).room).toBe(0);
    expect((await running).result).toMatchObject({ outcome: StepResult_Outcome.INTERRUPTED, answer: "Until now" });
    await drained;
    expect((await client.heartbeat({})).sessions).toHaveLength(0);
    await expect(codeOf(step("more"))).resolves.toMatch(/session_unknown|shutting_down/);
  });

  it("ends a step for an engine that does not stop, keeps what it said, and disposes it", async () => {
    const clock = movedClock();
    const { client, open, step, log } = await scene(over, { clock });
    await open();
    const begun = Promise.withResolvers<void>();
    const text = play({ say: "Deaf" }, { hang: "deaf" });
    const running = readStep(executeStep(client, { conversationId: CONVERSATION, generation: 1, text }), () =>
      begun.resolve(),
    );
    await begun.promise;
    await client.interruptStep({ conversationId: CONVERSATION, generation: 1n });
    await clock.pass(2_500, () => client.heartbeat({}));
    const { result } = await running;
    expect(result).toMatchObject({ outcome: StepResult_Outcome.INTERRUPTED, answer: "Deaf" });
    await vi.waitUntil(async () => (await codeOf(step("hello?"))) === "session_unknown");
    expect(log.lines.some((line) => line.text.includes("did not stop in time"))).toBe(true);
  });

  it("puts an engine away that was opened for a session that has ended meanwhile", async () => {
    const opening = Promise.withResolvers<void>();
    const disposed = vi.fn<() => void>();
    const { client, open } = await scene(over, { runtimes: { scripted: slowToOpen(opening.promise, disposed) } });
    const opened = open();
    await vi.waitUntil(async () => (await client.heartbeat({})).sessions.length === 1);
    const next = open({ generation: 2, snapshot: snapshotOf({ revision: 2 }) });
    opening.resolve();
    await opened;
    await next;
    expect(disposed).toHaveBeenCalledTimes(1);
    expect((await client.heartbeat({})).sessions).toMatchObject([{ generation: 2n }]);
  });

  it("tells of a lost engine in a sentence, and its last words only to the log", async () => {
    const { client, open, step, log } = await scene(over, { runtimes: { scripted: lostInItsStep } });
    await open();
    const { result } = await step("hello");
    expect(result).toMatchObject({
      outcome: StepResult_Outcome.FAILED,
      error: { code: "worker_lost", detail: "It is gone." },
    });
    expect(log.lines.filter((line) => line.text.includes("at Object.abort")).map(({ level }) => level)).toEqual([
      "warn",
    ]);
    await vi.waitUntil(async () => (await client.heartbeat({})).sessions.length === 0);
  });
});

/** An engine whose process dies in its first step. */
function lostInItsStep() {
  const engine = createScriptedExecutor();
  const lost: Executor = {
    describe: () => engine.describe(),
    open: async (context) =>
      Object.assign(await engine.open(context), {
        step: () => {
          context.onLost("worker_lost", "It is gone.", "SIGKILL at Object.abort");
          return Promise.reject(new PlatformError("worker_lost"));
        },
      }),
  };
  return Promise.resolve({ createExecutor: () => lost });
}

function slowToOpen(opening: Promise<void>, disposed: () => void) {
  const engine = createScriptedExecutor();
  const slow: Executor = {
    describe: () => engine.describe(),
    open: async (context) => {
      await opening;
      const session = await engine.open(context);
      const dispose = session[Symbol.asyncDispose].bind(session);
      return Object.assign(session, {
        [Symbol.asyncDispose]: () => {
          disposed();
          return dispose();
        },
      });
    },
  };
  return () => Promise.resolve({ createExecutor: () => slow });
}

describe("registration", () => {
  it("announces address, incarnation, room and runtimes, and stops when it is heard", async () => {
    const clock = movedClock();
    const { worker, client } = await registered({ clock });
    const [first] = platform().registrations.slice(-1);
    expect(first).toMatchObject({
      address: worker.address,
      incarnation: worker.incarnation,
      room: 5,
      runtimes: [{ name: "scripted", version: "1", available: true, problem: "" }],
    });
    await client.heartbeat({ supervisor: "s1" });
    const count = platform().registrations.length;
    await clock.pass(2_500);
    expect(platform().registrations).toHaveLength(count);
  });

  it("announces itself again when the platform has fallen silent", async () => {
    const clock = movedClock();
    const before = platform().registrations.length;
    const { client } = await registered({ clock });
    await client.heartbeat({ supervisor: "s1" });
    await clock.pass(1_000);
    const heard = platform().registrations.length;
    expect(heard).toBeGreaterThan(before);
    const again = platform().waitForRegistrations(heard + 1);
    await clock.pass(10_000, () => new Promise((resolve) => setImmediate(resolve)));
    await again;
  });

  it("keeps trying while the platform is away, and reports that once", async () => {
    const log = recordingLog();
    const absent = await startPlatformDouble({ joinToken: JOIN_TOKEN });
    await absent[Symbol.asyncDispose]();
    const port = Number(new URL(absent.url).port);
    const worker = await startWorker(options({ platformUrl: absent.url, log }));
    toEnd.push(worker);
    await vi.waitUntil(() => log.lines.some((line) => line.text.includes("cannot be reached")));
    const back = await startPlatformDouble({ joinToken: JOIN_TOKEN, port });
    toEnd.push(back);
    await back.waitForRegistrations(1, 10_000);
    expect(log.lines.filter((line) => line.text.includes("cannot be reached"))).toHaveLength(1);
  });

  it("says when the platform does not accept its token", async () => {
    const refused = vi.fn<() => void>();
    const worker = await startWorker({ ...options(), joinToken: "wrong", onRefused: refused });
    toEnd.push(worker);
    await vi.waitUntil(() => refused.mock.calls.length > 0);
    expect(refused).toHaveBeenCalledTimes(1);
  });

  function options(over: Partial<WorkerOptions> = {}): WorkerOptions {
    return {
      joinToken: JOIN_TOKEN,
      platformUrl: platform().url,
      runtimes: { scripted: () => Promise.resolve({ createExecutor: createScriptedExecutor }) },
      room: 5,
      drainMs: 50,
      log: recordingLog(),
      ...over,
    };
  }

  async function registered(over: Partial<WorkerOptions> = {}) {
    const before = platform().registrations.length;
    const worker = await startWorker(options(over));
    toEnd.push(worker);
    const dialled = dial("h2c", worker);
    toEnd.push(dialled);
    await platform().waitForRegistrations(before + 1);
    return { worker, client: dialled.client };
  }
});
