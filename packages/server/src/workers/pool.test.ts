import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  aborted,
  BEAT_MS,
  codeOf,
  outputsOf,
  PATIENTLY,
  ScriptedWorker,
  SESSION,
  WorkersWorld,
} from "../../../../tests/setup/scripted-worker.ts";

let world: WorkersWorld;

beforeEach(async () => {
  world = await WorkersWorld.open();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

describe("a worker", () => {
  it("counts from its first heartbeat on, and rings for its room", async () => {
    world.announce();
    expect(world.room).toBe(0);
    await expect.poll(() => world.room, PATIENTLY).toBe(4);
    expect(world.bellCount).toBe(1);
    expect(world.workers.runtimes()).toEqual([
      {
        name: "langgraph",
        version: "1.0.0",
        available: true,
        problem: null,
        capabilities: ["streaming"],
        workers: 1,
        room: 4,
      },
    ]);
  });

  it("may announce itself again and again", async () => {
    await world.connect();
    for (let times = 0; times < 5; times += 1) world.announce();
    await expect.poll(() => world.worker.beatCount, PATIENTLY).toBeGreaterThan(3);
    expect([world.room, world.bellCount]).toEqual([4, 1]);
  });

  it("whose engine is missing says so, and takes no run", async () => {
    world.worker.runtimes = [
      { name: "claude_sdk", version: "", available: false, problem: "not installed", capabilities: [] },
    ];
    await world.connect();
    expect(world.workers.runtimes()).toMatchObject([
      { name: "claude_sdk", available: false, problem: "not installed", room: 0 },
    ]);
    expect(world.workers.room()).toEqual({});
    expect(await codeOf(world.workers.seat("cnv_1", "claude_sdk"))).toBe("no_worker");
  });

  it("that drains has no room any more", async () => {
    await world.connect();
    world.worker.room = 0;
    await expect.poll(() => world.room, PATIENTLY).toBe(0);
    expect(await codeOf(world.workers.seat("cnv_1", "langgraph"))).toBe("no_worker");
  });

  it("has as much less room as it steps for others", async () => {
    await world.connect();
    world.worker.sessions = ["a", "b", "c"].map((conversationId) => ({
      conversationId,
      generation: 1n,
      stepping: true,
    }));
    await expect.poll(() => world.room, PATIENTLY).toBe(1);
  });

  it("that misses one heartbeat or two is no worse for it", async () => {
    await world.connect();
    world.worker.hangs = true;
    const before = world.worker.beatCount;
    await expect.poll(() => world.worker.beatCount, PATIENTLY).toBe(before + 2);
    world.worker.hangs = false;
    await expect.poll(() => world.worker.beatCount, PATIENTLY).toBeGreaterThan(before + 5);
    expect(world.room).toBe(4);
    expect(world.warnings).toEqual([]);
  });

  it("that misses three is lost, and whoever waits on it is told", async () => {
    await world.connect();
    const seat = await world.seatWithSession();
    world.worker.onStep = async function* (_request, signal) {
      yield { event: { case: "phase", value: { phase: "writing" } } };
      await aborted(signal);
    };
    const waiting = codeOf(outputsOf(seat));
    await expect.poll(() => world.worker.stepped.length, PATIENTLY).toBe(1);
    const beganAtMs = performance.now();
    world.worker.hangs = true;
    expect(await waiting).toBe("worker_lost");
    // Three periods and what the machine takes for itself, but not six.
    expect(performance.now() - beganAtMs).toBeLessThan(BEAT_MS * 6 + 1_000);
    expect(world.room).toBe(0);
    expect(world.workers.runtimes()).toEqual([]);
    expect(world.warnings).toEqual(["worker lost"]);
    await seat.open(SESSION);
    expect(await codeOf(outputsOf(seat))).toBe("worker_lost");
  });

  it("that misses any number and still speaks is only busy, and lost once it is silent", async () => {
    await world.connect();
    const seat = await world.seatWithSession();
    const silence = new AbortController();
    world.worker.onStep = async function* (_request, signal) {
      while (!silence.signal.aborted) {
        yield { event: { case: "phase", value: { phase: "writing" } } };
        await new Promise((resolve) => setImmediate(resolve));
      }
      await aborted(signal);
    };
    const waiting = codeOf(outputsOf(seat));
    await expect.poll(() => world.worker.stepped.length, PATIENTLY).toBe(1);
    world.worker.hangs = true;
    const before = world.worker.beatCount;
    await expect.poll(() => world.worker.beatCount, PATIENTLY).toBeGreaterThan(before + 6);
    expect(world.warnings).toEqual([]);
    silence.abort();
    expect(await waiting).toBe("worker_lost");
    expect(world.warnings).toEqual(["worker lost"]);
  });

  it("that was lost may come back by announcing itself", async () => {
    await world.connect();
    world.worker.hangs = true;
    await expect.poll(() => world.room, PATIENTLY).toBe(0);
    world.worker.hangs = false;
    world.announce();
    await expect.poll(() => world.room, PATIENTLY).toBe(4);
  });

  it("in whose place another answers is lost", async () => {
    await world.connect();
    const seat = await world.seatWithSession();
    world.worker.incarnation = "w2";
    await expect.poll(() => world.room, PATIENTLY).toBe(0);
    expect(await codeOf(outputsOf(seat))).toBe("worker_lost");
    world.announce();
    await expect.poll(() => world.room, PATIENTLY).toBe(4);
  });

  it("that nobody can reach is given up", async () => {
    await world.worker[Symbol.asyncDispose]();
    world.workers.announce({ address: "http://127.0.0.1:9", incarnation: "w9", room: 1, runtimes: [] });
    await expect.poll(() => world.warnings, PATIENTLY).toEqual(["worker lost"]);
  });
});

describe("a seat", () => {
  it("takes room from before its session opens until it is left, and gives it back once", async () => {
    world.worker.room = 2;
    await world.connect();
    const first = await world.workers.seat("cnv_1", "langgraph");
    const second = await world.workers.seat("cnv_2", "langgraph");
    expect(world.room).toBe(0);
    expect(await codeOf(world.workers.seat("cnv_3", "langgraph"))).toBe("no_worker");
    const bells = world.bellCount;
    first.leave();
    first.leave();
    expect([world.room, world.bellCount]).toEqual([1, bells + 2]);
    second.leave();
    expect(world.room).toBe(2);
  });

  it("of a runtime that nobody offers is none", async () => {
    await world.connect();
    expect(await codeOf(world.workers.seat("cnv_1", "claude_sdk"))).toBe("no_worker");
  });

  it("goes to the worker with the most room", async () => {
    const other = world.use(new ScriptedWorker());
    other.incarnation = "w2";
    other.room = 9;
    await other.listen();
    await world.connect();
    await world.connect(other);
    await expect.poll(() => world.room, PATIENTLY).toBe(13);
    expect((await world.workers.seat("cnv_1", "langgraph")).workerId).toBe("w2");
    expect(world.workers.runtimes()).toMatchObject([{ workers: 2, room: 12 }]);
  });

  it("of a conversation goes back to its warm session, with the same slot", async () => {
    const other = world.use(new ScriptedWorker());
    other.incarnation = "w2";
    other.room = 9;
    await world.connect();
    const first = await world.steppedSeat();
    first.leave();
    await other.listen();
    await world.connect(other);
    await expect.poll(() => world.room, PATIENTLY).toBe(13);
    const again = await world.workers.seat("cnv_1", "langgraph");
    expect([again.workerId, again.slotTokenHash]).toEqual(["w1", first.slotTokenHash]);
    await again.open({ ...SESSION, generation: 9 });
    await outputsOf(again);
    expect(world.worker.opened.map(({ slotToken }) => slotToken)).toEqual([
      world.worker.opened[0]?.slotToken,
      world.worker.opened[0]?.slotToken,
    ]);
    const stranger = await world.workers.seat("cnv_2", "langgraph");
    expect([stranger.workerId, stranger.slotTokenHash === first.slotTokenHash]).toEqual(["w2", false]);
  });

  it("does not go back to a session that was ended, or that its worker has parked", async () => {
    await world.connect();
    const first = await world.steppedSeat();
    await first.terminate("over");
    first.leave();
    expect(world.worker.terminated).toMatchObject([{ conversationId: "cnv_1", generation: 7n, reason: "over" }]);
    const second = await world.steppedSeat();
    expect(second.slotTokenHash).not.toBe(first.slotTokenHash);
    second.leave();
    world.worker.sessions = [];
    const beats = world.worker.beatCount;
    await expect.poll(() => world.worker.beatCount, PATIENTLY).toBeGreaterThan(beats + 2);
    expect((await world.workers.seat("cnv_1", "langgraph")).slotTokenHash).not.toBe(second.slotTokenHash);
  });

  it("keeps to a session that its worker still holds", async () => {
    await world.connect();
    const first = await world.steppedSeat();
    first.leave();
    world.worker.sessions = [{ conversationId: "cnv_1", generation: 7n, stepping: false }];
    const beats = world.worker.beatCount;
    await expect.poll(() => world.worker.beatCount, PATIENTLY).toBeGreaterThan(beats + 2);
    expect((await world.workers.seat("cnv_1", "langgraph")).slotTokenHash).toBe(first.slotTokenHash);
  });

  it("that was announced is the one that is given next, once", async () => {
    await world.connect();
    const expected = world.workers.expectedSeat("cnv_1", "langgraph");
    expect(world.room).toBe(4);
    const seat = await world.workers.seat("cnv_1", "langgraph");
    expect([seat.workerId, seat.slotTokenHash]).toEqual([expected?.workerId, expected?.tokenHash]);
    const another = await world.workers.seat("cnv_1", "langgraph");
    expect(another.slotTokenHash).not.toBe(expected?.tokenHash);
    expect(world.workers.expectedSeat("cnv_2", "claude_sdk")).toBeNull();
  });

  it("that was announced is another when its worker cannot take it any more", async () => {
    const other = world.use(new ScriptedWorker());
    other.incarnation = "w2";
    other.room = 9;
    await other.listen();
    await world.connect();
    await world.connect(other);
    await expect.poll(() => world.room, PATIENTLY).toBe(13);
    const expected = world.workers.expectedSeat("cnv_1", "langgraph");
    expect(expected?.workerId).toBe("w2");
    other.hangs = true;
    await expect.poll(() => world.room, PATIENTLY).toBe(4);
    const seat = await world.workers.seat("cnv_1", "langgraph");
    expect([seat.workerId, seat.slotTokenHash === expected?.tokenHash]).toEqual(["w1", false]);
  });

  it("that is announced to a conversation with a warm session has the slot of that session", async () => {
    await world.connect();
    const first = await world.steppedSeat();
    first.leave();
    expect(world.workers.expectedSeat("cnv_1", "langgraph")?.tokenHash).toBe(first.slotTokenHash);
  });

  it("is ended without complaint when there is nothing left to end", async () => {
    await world.connect();
    const seat = await world.seatWithSession();
    await world.worker[Symbol.asyncDispose]();
    await seat.terminate("over");
    await seat.terminate("over again");
  });
});

describe("the pool's end", () => {
  it("leaves no connection and no heartbeat behind", async () => {
    await world.connect();
    const waiting = codeOf(outputsOf(await world.seatWithSession()));
    await waiting;
    await world.workers[Symbol.asyncDispose]();
    const beats = world.worker.beatCount;
    expect(world.room).toBe(0);
    await world.worker[Symbol.asyncDispose]();
    expect(world.worker.beatCount).toBe(beats);
  });
});
