import { PlatformError } from "@signalbox/contract";
import {
  answered,
  createVirtualTime,
  MemoryDatabase,
  memoryAdmissionRecord,
  memoryGateRecord,
  memoryOwnershipRecord,
  memoryProcessRecord,
  ScriptedPool,
  stagedCommand,
  type PoolScript,
  type ScriptedStep,
  type VirtualTime,
} from "@signalbox/testkit";
import { beforeEach, describe, expect, it } from "vitest";
import { createItemFold } from "../events/fold.ts";
import { finalize } from "../finalize/finalize.ts";
import { LIMITS, type Limits } from "../kernel/limits.ts";
import type { CancelSource } from "../ports/clock.ts";
import type { Ownership } from "../ports/ownership-record.ts";
import { createSteeringLine } from "./steering.ts";
import { performTurn, type TurnEnd } from "./turn.ts";

const PLACE = { tenantId: "default", conversationId: "cnv_1" };

let time: VirtualTime;
let db: MemoryDatabase;
let process: number;
let cancel: CancelSource;
let halt: CancelSource;

beforeEach(async () => {
  time = createVirtualTime();
  db = new MemoryDatabase({ nowMs: () => time.clock.nowMs() });
  db.createConversation({ id: PLACE.conversationId, tenantId: PLACE.tenantId });
  process = (await memoryProcessRecord(db).register([])).process;
  cancel = time.cancellation.source();
  halt = time.cancellation.source();
});

async function claimed(text = "hello"): Promise<Ownership> {
  const command = stagedCommand(time.digest, { ...PLACE, text, claimFor: process });
  return memoryOwnershipRecord(db).adopt((await memoryAdmissionRecord(db).admit(command)).claim!);
}

interface Performed {
  readonly end: TurnEnd;
  readonly pool: ScriptedPool;
}

async function perform(
  ownership: Ownership,
  script: Partial<PoolScript> & Pick<PoolScript, "step">,
  limits: Partial<Limits> = {},
): Promise<Performed> {
  const pool = new ScriptedPool({ runtime: "langgraph", ...script });
  const turn = performTurn(ownership, {
    ports: { ...time, pool, live: { publish: () => undefined } },
    limits: { ...LIMITS, ...limits },
    cancel: cancel.signal,
    halt: halt.signal,
    steering: createSteeringLine(),
    onSeated: () => undefined,
  });
  return { end: await time.until(turn), pool };
}

async function finished(end: TurnEnd): Promise<void> {
  if (end.kind !== "concluded") throw new Error(`the turn ended as ${end.kind}`);
  await time.until(finalize(end.ownership, end.conclusion, { ...time, limits: LIMITS }));
}

const hello = async ({ say }: ScriptedStep) => {
  say({ type: "text.delta", itemId: "itm_1", offset: 0, text: "hi" });
  say({ type: "text.completed", itemId: "itm_1", text: "hi" });
  return answered("hi");
};

const keeps = (entryId: string) => async (step: ScriptedStep) => {
  const rows = [{ kind: "item", entryId, stream: "", body: new Uint8Array([1]) }] as const;
  await memoryGateRecord(db).appendTranscript(step.slotTokenHash, rows);
  return answered(`answer ${entryId}`, { leaf: entryId });
};

const eventsOf = (type: string) => db.eventsOf(PLACE.conversationId).filter((event) => event.type === type);

/** A step that ends only when it is interrupted, and then after `afterMs`. */
const endless =
  (afterMs: number) =>
  async ({ say, signal }: ScriptedStep) => {
    say({ type: "text.delta", itemId: "itm_1", offset: 0, text: "so far" });
    await time.clock.sleep(9_000_000, signal);
    await time.clock.sleep(afterMs);
    return answered("so far", { outcome: "interrupted" });
  };

describe("a turn", () => {
  it("binds the slot before the session opens, says how it was composed, and concludes what the step answered", async () => {
    const ownership = await claimed();
    const bound: (string | null)[] = [];
    const open = async () => {
      bound.push(db.slots.must("1".padStart(64, "0")).runId);
    };
    const { end, pool } = await perform(ownership, { open, step: hello });
    expect(bound).toEqual([ownership.claim.runId]);
    expect(end).toMatchObject({
      kind: "concluded",
      conclusion: { ending: "done", answer: "hi", rung: "fresh", error: null },
    });
    expect(pool.steps[0]?.parts.at(-1)).toBe("hello");
    expect(pool.steps[0]?.parts[0]).toContain('"lastUserMessageAgeMs":null');
    expect(eventsOf("turn.composed")).toMatchObject([{ rung: "fresh", snapshotHash: ownership.claim.snapshotHash }]);
    expect([pool.leftCount, pool.terminated]).toEqual([1, []]);
  });

  it("climbs down the ladder: fresh, then native from the leaf, then rebuilt from the history when that cannot be read", async () => {
    const first = await perform(await claimed("one"), { step: keeps("e1") });
    await finished(first.end);
    const second = await perform(await claimed("two"), { step: keeps("e2") });
    await finished(second.end);
    const open = (request: { readonly rung: string }) =>
      request.rung === "native" ? Promise.reject(new PlatformError("transcript_corrupt")) : Promise.resolve();
    const third = await perform(await claimed("three"), { open, step: keeps("e3") });
    await finished(third.end);
    const asked = [...first.pool.opened, ...second.pool.opened, ...third.pool.opened];
    expect(asked.map(({ rung, leaf, history }) => [rung, leaf, history.length])).toEqual([
      ["fresh", null, 0],
      ["native", "e1", 0],
      ["native", "e2", 0],
      ["rebuilt", null, 4],
    ]);
    const composed = eventsOf("turn.composed");
    expect(composed.map((event) => ("rung" in event ? event.rung : ""))).toEqual(["fresh", "native", "rebuilt"]);
    // The static prefix is the same bytes from turn to turn.
    expect(new Set(composed.map((event) => ("prefixHash" in event ? event.prefixHash : ""))).size).toBe(1);
  });

  it("climbs down as well when the session opens only with its first step, and not once that step has begun", async () => {
    await finished((await perform(await claimed("one"), { step: keeps("e1") })).end);
    const unreadable = Promise.reject(new PlatformError("transcript_corrupt"));
    unreadable.catch(() => undefined);
    const asked: unknown[] = [];
    const opens = await perform(await claimed("two"), {
      step: (step) => (asked.push(step.request) === 1 ? unreadable : hello(step)),
    });
    await finished(opens.end);
    expect(opens.pool.opened.map(({ rung }) => rung)).toEqual(["native", "rebuilt"]);
    expect(opens.end).toMatchObject({ conclusion: { ending: "done", answer: "hi", rung: "rebuilt" } });
    const late = async ({ say }: ScriptedStep) => {
      say({ type: "run.phase", phase: "thinking" });
      return time.clock.sleep(1).then(() => unreadable);
    };
    const breaks = await perform(await claimed("three"), { step: late });
    expect(breaks.pool.opened.map(({ rung }) => rung)).toEqual(["native", "rebuilt"]);
    expect(new Set(breaks.pool.opened.map(({ generation }) => generation)).size).toBe(2);
    expect(breaks.end).toMatchObject({ conclusion: { ending: "failed", error: { code: "transcript_corrupt" } } });
  });

  it("is run again on the history alone when the engine failed on what it continued from, and only then", async () => {
    const breaks = async ({ say }: ScriptedStep) => {
      say({ type: "text.delta", itemId: "itm_1", offset: 0, text: "so far" });
      return answered("", { outcome: "failed", error: { code: "engine_failed", detail: "It broke." } });
    };
    const { end, pool } = await perform(await claimed("one"), { step: breaks });
    await finished(end);
    expect(pool.opened).toHaveLength(1);
    await finished((await perform(await claimed("two"), { step: keeps("e1") })).end);
    const steps = [breaks, keeps("e2")];
    const step = (asked: ScriptedStep) => (steps.shift() ?? hello)(asked);
    const native = await perform(await claimed("three"), { step });
    await finished(native.end);
    expect(native.pool.opened.map(({ rung }) => rung)).toEqual(["native", "rebuilt"]);
    expect(native.end).toMatchObject({ conclusion: { ending: "done", rung: "rebuilt", leaf: "e2" } });
    expect(eventsOf("text.retracted").at(-1)).toMatchObject({ itemId: "itm_1" });
  });

  it("does not rebuild for what a new session would not mend", async () => {
    const open = () => Promise.reject(new PlatformError("SDK_UNAVAILABLE"));
    const { end, pool } = await perform(await claimed(), { open, step: hello });
    expect(end).toMatchObject({
      kind: "concluded",
      conclusion: { ending: "failed", error: { code: "SDK_UNAVAILABLE" } },
    });
    expect(pool.opened).toHaveLength(1);
    expect(pool.terminated).toHaveLength(1);
  });

  it("continues as often as the engine asks, up to a bound", async () => {
    const goesOn = async ({ request }: ScriptedStep) =>
      request.continueReason === "2"
        ? answered("done")
        : answered("", { outcome: "continue", stopReason: String(Number(request.continueReason ?? 0) + 1) });
    const some = await perform(await claimed(), { step: goesOn });
    expect(some.pool.steps.map(({ parts, continueReason }) => [parts.length, continueReason])).toEqual([
      [2, null],
      [0, "1"],
      [0, "2"],
    ]);
    await finished(some.end);
    const always = async () => answered("", { outcome: "continue" });
    const endlessly = await perform(await claimed(), { step: always }, { continueCount: 3 });
    expect(endlessly.end).toMatchObject({ conclusion: { ending: "failed", error: { code: "engine_failed" } } });
    expect(endlessly.pool.steps).toHaveLength(4);
  });

  it("interrupts on a cancel and keeps what the step gives back in time", async () => {
    time.clock
      .sleep(1_000)
      .then(() => cancel.abort())
      .catch(() => undefined);
    const { end, pool } = await perform(await claimed(), { step: endless(500) });
    expect(end).toMatchObject({ conclusion: { ending: "interrupted", answer: "so far", error: null } });
    expect(time.clock.monotonicMs()).toBe(1_500);
    expect(eventsOf("text.completed")).toMatchObject([{ text: "so far" }]);
    expect(pool.terminated).toEqual([]);
  });

  it("goes on without a step that does not end within two seconds of its interruption, and terminates it", async () => {
    time.clock
      .sleep(1_000)
      .then(() => cancel.abort())
      .catch(() => undefined);
    const { end, pool } = await perform(await claimed(), { step: endless(60_000) });
    expect(end).toMatchObject({ conclusion: { ending: "interrupted", answer: "so far", leaf: null } });
    expect(time.clock.monotonicMs()).toBe(3_000);
    expect([pool.terminated.length, pool.leftCount]).toEqual([1, 1]);
  });

  it.each(["run_cancelled", "run_stopped"] as const)(
    "ends in order when a gate said %s before anybody asked it to stop",
    async (code) => {
      const error = { code, detail: "told by a gate" };
      const step = async () => answered("so far", { outcome: "interrupted", error });
      const { end, pool } = await perform(await claimed(), { step });
      expect(end).toMatchObject({
        kind: "concluded",
        conclusion: { ending: "interrupted", answer: "so far", error: code === "run_stopped" ? error : null },
      });
      expect(pool.terminated).toEqual([]);
    },
  );

  it("does not begin for a run that was cancelled before", async () => {
    const ownership = await claimed();
    cancel.abort();
    const { end, pool } = await perform(ownership, { step: hello });
    expect(end).toMatchObject({ kind: "concluded", conclusion: { ending: "interrupted", answer: "" } });
    expect(pool.seatCount).toBe(0);
  });

  it("ends a run whose wall clock is over, and takes back what it had shown", async () => {
    const { end } = await perform(await claimed(), { step: endless(100) });
    expect(end).toMatchObject({ conclusion: { ending: "interrupted", error: { code: "run_timeout" } } });
    expect(time.clock.monotonicMs()).toBe(600_100);
    expect(eventsOf("text.retracted")).toMatchObject([{ itemId: "itm_1", cause: "run_timeout" }]);
  });

  it("changes a lost worker under a new generation, takes back what readers saw, and runs again", async () => {
    const ownership = await claimed();
    let lostCount = 0;
    const dies = async (step: ScriptedStep) => {
      if (lostCount === 2) {
        return answered("hi");
      }
      lostCount += 1;
      step.say({ type: "text.delta", itemId: `itm_${lostCount}`, offset: 0, text: "lost" });
      await time.clock.sleep(lostCount === 1 ? 500 : 10);
      throw new PlatformError("worker_lost");
    };
    const { end, pool } = await perform(ownership, { step: dies, room: 9 });
    expect(end).toMatchObject({
      kind: "concluded",
      conclusion: { answer: "hi", generation: ownership.claim.generation + 2 },
    });
    // The second loss came before its text was durable: readers may have seen it live all the same.
    expect(eventsOf("text.retracted")).toMatchObject([
      { itemId: "itm_1", generation: ownership.claim.generation + 1 },
      { itemId: "itm_2", generation: ownership.claim.generation + 2 },
    ]);
    expect([pool.terminated.length, pool.leftCount]).toEqual([2, 3]);
  });

  it("gives up after five attempts, with everything taken back", async () => {
    let attempt = 0;
    const dies = async ({ say }: ScriptedStep) => {
      attempt += 1;
      say({ type: "text.delta", itemId: `itm_${attempt}`, offset: 0, text: "lost" });
      await time.clock.sleep(300);
      throw new PlatformError("worker_lost");
    };
    const { end, pool } = await perform(await claimed(), { step: dies, room: 9 });
    expect(end).toMatchObject({
      kind: "concluded",
      conclusion: { ending: "failed", error: { code: "retries_exhausted" } },
    });
    expect(pool.seatCount).toBe(5);
    const fold = createItemFold();
    for (const event of db.eventsOf(PLACE.conversationId)) {
      fold.apply(event);
    }
    expect(fold.items().map(({ state }) => state)).toEqual(Array.from({ length: 5 }, () => "retracted"));
  });

  it("runs again when the worker stopped by itself, when its slot or session was lost, and when the record was away", async () => {
    const codes = ["slot_unknown", "session_unknown", "database_unavailable"] as const;
    const results = [
      answered("half", { outcome: "interrupted" }),
      ...codes.map((code) => answered("", { outcome: "failed", error: { code, detail: "" } })),
      answered("at last"),
    ];
    const { end, pool } = await perform(await claimed(), { step: async () => results.shift()!, room: 9 });
    expect(end).toMatchObject({ kind: "concluded", conclusion: { ending: "done", answer: "at last" } });
    expect(pool.seatCount).toBe(5);
  });

  it("stops at once when the record says that somebody else owns the run, and terminates the session", async () => {
    const ownership = await claimed();
    const stolen = async ({ say }: ScriptedStep) => {
      db.transaction("steal", {}, () => db.ownerships.update(PLACE.conversationId, { generation: 99 }));
      say({ type: "text.delta", itemId: "itm_1", offset: 0, text: "stale" });
      await time.clock.sleep(60_000);
      return answered("stale");
    };
    const pool = new ScriptedPool({ runtime: "langgraph", step: stolen });
    const context = {
      ports: { ...time, pool, live: { publish: () => undefined } },
      limits: LIMITS,
      cancel: cancel.signal,
      halt: halt.signal,
      steering: createSteeringLine(),
    };
    const turn = performTurn(ownership, { ...context, onSeated: () => undefined });
    await expect(time.until(turn)).rejects.toMatchObject({ code: "stale_generation" });
    expect(time.clock.monotonicMs()).toBeLessThan(500);
    expect([pool.terminated.length, pool.leftCount]).toEqual([1, 1]);
    expect(eventsOf("text.delta")).toEqual([]);
  });

  it("decides nothing when it is halted, and leaves the worker at once", async () => {
    time.clock
      .sleep(1_000)
      .then(() => halt.abort("lapsed"))
      .catch(() => undefined);
    const { end, pool } = await perform(await claimed(), { step: endless(60_000) });
    expect(end.kind).toBe("halted");
    expect(time.clock.monotonicMs()).toBe(1_000);
    expect([pool.terminated.length, pool.leftCount]).toEqual([1, 1]);
  });

  it("waits a while for a place on a worker, then gives the run back", async () => {
    const { end, pool } = await perform(await claimed(), { step: hello, room: 0 });
    expect(end.kind).toBe("no_worker");
    expect(time.clock.monotonicMs()).toBeGreaterThanOrEqual(LIMITS.seatWaitMs);
    expect(pool.seatCount).toBe(0);
  });

  it("fails what an engine reports as failed, with its code, and refuses a hold that nobody can decide", async () => {
    const failed = await perform(await claimed(), {
      step: async () => answered("half", { outcome: "failed", error: { code: "provider_overloaded", detail: "busy" } }),
    });
    expect(failed.end).toMatchObject({
      conclusion: { ending: "failed", error: { code: "provider_overloaded", detail: "busy" } },
    });
    await finished(failed.end);
    const held = await perform(await claimed(), { step: async () => answered("", { outcome: "hold_required" }) });
    expect(held.end).toMatchObject({ conclusion: { ending: "failed", error: { code: "engine_failed" } } });
  });

  it("does without the transcript in its last attempt", async () => {
    await finished((await perform(await claimed("one"), { step: keeps("e1") })).end);
    const { end, pool } = await perform(await claimed("two"), {
      step: () => Promise.reject(new PlatformError("worker_lost")),
    });
    expect(pool.opened.map(({ rung }) => rung)).toEqual(["native", "native", "native", "native", "rebuilt"]);
    expect(end).toMatchObject({ conclusion: { error: { code: "retries_exhausted" } } });
  });

  it("does not begin for a run that has used up its owners", async () => {
    const ownership = await claimed();
    const { end, pool } = await perform({ ...ownership, claim: { ...ownership.claim, attempt: 6 } }, { step: hello });
    expect(end).toMatchObject({ conclusion: { ending: "failed", error: { code: "retries_exhausted" } } });
    expect(pool.seatCount).toBe(0);
  });

  it("does not run again what may have taken effect", async () => {
    const ownership = await claimed();
    const tainted = {
      ...ownership,
      claim: { ...ownership.claim, outcomeUnknown: true, visibleItems: [{ itemId: "itm_0", kind: "text" as const }] },
    };
    const { end, pool } = await perform(tainted, { step: hello });
    expect(end).toMatchObject({ conclusion: { ending: "failed", error: { code: "outcome_unknown" } } });
    expect(pool.seatCount).toBe(0);
    expect(eventsOf("text.retracted")).toMatchObject([{ itemId: "itm_0" }]);
  });
});
