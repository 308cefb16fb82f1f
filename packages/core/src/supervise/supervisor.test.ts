import { PlatformError, type RunId } from "@signalbox/contract";
import {
  answered,
  createVirtualTime,
  MemoryDatabase,
  memoryAdmissionRecord,
  memoryOwnershipRecord,
  memoryProcessRecord,
  ScriptedPool,
  stagedCommand,
  type PoolScript,
  type ScriptedStep,
  type VirtualTime,
} from "@signalbox/testkit";
import { beforeEach, describe, expect, it } from "vitest";
import { LIMITS } from "../kernel/limits.ts";
import type { AdmitCommand } from "../ports/admission-record.ts";
import type { OwnershipRecord, ProcessRecord } from "../ports/ownership-record.ts";
import type { Supervisor } from "./supervision.ts";
import { createSupervisor } from "./supervisor.ts";

let time: VirtualTime;
let db: MemoryDatabase;
let bells: number;

beforeEach(() => {
  time = createVirtualTime();
  db = new MemoryDatabase({ nowMs: () => time.clock.nowMs() });
  bells = 0;
});

interface Stage {
  readonly supervisor: Supervisor;
  readonly pool: ScriptedPool;
}

async function supervise(
  script: Partial<PoolScript>,
  ports: { readonly record?: Partial<OwnershipRecord>; readonly processes?: Partial<ProcessRecord> } = {},
): Promise<Stage> {
  const pool = new ScriptedPool({ runtime: "langgraph", step: async () => answered("hi"), ...script });
  const silent = { publish: () => undefined, ring: () => undefined, ringGates: () => undefined };
  const live = { ...silent, ringSupervisors: () => (bells += 1) };
  const record = { ...memoryOwnershipRecord(db), ...ports.record };
  const processes = { ...memoryProcessRecord(db), ...ports.processes };
  const supervisor = createSupervisor({ ...time, record, processes, pool, live }, { roles: ["supervisor"] });
  await time.until(supervisor.start());
  return { supervisor, pool };
}

function commandFor(conversationId: string): AdmitCommand {
  return stagedCommand(time.digest, { conversationId });
}

async function admitted(conversationId = "cnv_1"): Promise<RunId> {
  if (db.conversations.get(conversationId) === undefined) {
    db.createConversation({ id: conversationId, tenantId: "default" });
  }
  return (await memoryAdmissionRecord(db).admit(commandFor(conversationId))).runId;
}

const stateOf = (runId: RunId) => {
  const { state, reason } = db.runs.must(runId);
  return reason === null ? state : `${state} ${reason}`;
};

/** A step that ends when it is interrupted. */
const endless = async ({ signal }: ScriptedStep) => {
  await time.clock.sleep(9_000_000, signal);
  return answered("so far", { outcome: "interrupted" });
};

describe("a supervisor", () => {
  it("claims at once when it is woken, and by itself when the bell was lost", async () => {
    const { supervisor } = await supervise({});
    await time.pass(10);
    const rung = await admitted("cnv_a");
    supervisor.wake();
    await time.pass(1);
    expect(stateOf(rung)).toBe("completed answered");
    const unheard = await admitted("cnv_b");
    await time.pass(LIMITS.claimEveryMs);
    expect(stateOf(unheard)).toBe("completed answered");
    await time.until(supervisor.drain());
  });

  it("answers the next waiting message as soon as one is answered", async () => {
    const { supervisor } = await supervise({});
    const runs = [await admitted("cnv_a"), await admitted("cnv_a"), await admitted("cnv_a")];
    supervisor.wake();
    await time.pass(5);
    expect(runs.map(stateOf)).toEqual(runs.map(() => "completed answered"));
    expect(bells).toBe(2);
    await time.until(supervisor.drain());
  });

  it("claims no more than its workers have room for, counting what is promised to admission", async () => {
    const { supervisor, pool } = await supervise({ step: endless, room: 2 });
    const promised = supervisor.reserve("langgraph");
    expect(promised?.process).toBe(1);
    const runs = [await admitted("cnv_a"), await admitted("cnv_b"), await admitted("cnv_c")];
    supervisor.wake();
    await time.pass(10);
    expect([pool.seatCount, supervisor.driving().length]).toEqual([1, 1]);
    expect(supervisor.reserve("langgraph")).toBeNull();
    expect(supervisor.reserve("another")).toBeNull();
    promised?.free();
    await time.pass(LIMITS.claimEveryMs);
    expect(pool.seatCount).toBe(2);
    expect(runs.map(stateOf).toSorted()).toEqual(["admitted", "running", "running"]);
  });

  it("looks when a place was left and something may have waited for it, and not otherwise", async () => {
    const looks: number[] = [];
    const { claim } = memoryOwnershipRecord(db);
    const counting: OwnershipRecord["claim"] = (request) => (looks.push(time.clock.monotonicMs()), claim(request));
    const { supervisor } = await supervise({ room: 1 }, { record: { claim: counting } });
    await time.pass(10);
    supervisor.roomGrew();
    await time.pass(10);
    expect(looks).toHaveLength(1);
    const promised = supervisor.reserve("langgraph");
    const waiting = await admitted("cnv_a");
    expect(supervisor.reserve("langgraph")).toBeNull();
    promised?.free();
    supervisor.roomGrew();
    await time.pass(1);
    expect(stateOf(waiting)).toBe("completed answered");
    const asked = looks.length;
    const claimed = supervisor.reserve("langgraph");
    const command = { ...commandFor("cnv_a"), claimFor: claimed?.process ?? null };
    const admission = await memoryAdmissionRecord(db).admit(command);
    if (admission.claim !== null) claimed?.take(admission.claim);
    await time.pass(20);
    expect([stateOf(admission.runId), looks.length]).toEqual(["completed answered", asked]);
    await time.until(supervisor.drain());
  });

  it("drives what admission claimed for it in its own transaction", async () => {
    const { supervisor } = await supervise({});
    const reservation = supervisor.reserve("langgraph");
    db.createConversation({ id: "cnv_a", tenantId: "default" });
    const command = { ...commandFor("cnv_a"), claimFor: reservation?.process ?? null };
    const { claim, runId } = await memoryAdmissionRecord(db).admit(command);
    reservation?.take(claim!);
    await time.pass(1);
    expect(stateOf(runId)).toBe("completed answered");
    await time.until(supervisor.drain());
  });

  it("finds again what it owns without knowing it", async () => {
    const { supervisor } = await supervise({});
    const reservation = supervisor.reserve("langgraph");
    db.createConversation({ id: "cnv_a", tenantId: "default" });
    const { runId } = await memoryAdmissionRecord(db).admit({ ...commandFor("cnv_a"), claimFor: 1 });
    await time.pass(5 * LIMITS.claimEveryMs);
    expect(stateOf(runId)).toBe("running");
    reservation?.doubt();
    await time.pass(1);
    expect(stateOf(runId)).toBe("completed answered");
    expect(db.runs.must(runId).attempt).toBe(2);
    await time.until(supervisor.drain());
  });

  it("asks again what it owns when the reply to a claim is lost", async () => {
    let lostCount = 0;
    const { claim } = memoryOwnershipRecord(db);
    const losesOnce: OwnershipRecord["claim"] = async (request) => {
      const claimed = await claim(request);
      if (claimed.length > 0 && lostCount === 0) {
        lostCount += 1;
        throw new PlatformError("database_unavailable");
      }
      return claimed;
    };
    const { supervisor } = await supervise({}, { record: { claim: losesOnce } });
    const runId = await admitted();
    await time.pass(3 * LIMITS.claimEveryMs);
    expect([lostCount, stateOf(runId)]).toEqual([1, "completed answered"]);
    await time.until(supervisor.drain());
  });

  it("hears of a cancel within a second, and ends the run with what there was", async () => {
    const { supervisor } = await supervise({ step: endless });
    const runId = await admitted();
    await time.pass(2 * LIMITS.claimEveryMs);
    await memoryAdmissionRecord(db).requestCancel({ tenantId: "default", runId, actor: db.runs.must(runId).actor });
    await time.pass(1_000);
    expect(stateOf(runId)).toBe("cancelled user_cancel");
    expect(db.messages.where(({ role }) => role === "assistant")).toMatchObject([{ text: "so far", partial: true }]);
    await time.until(supervisor.drain());
  });

  it("takes over from a process that died, and buries it", async () => {
    const { supervisor: dying } = await supervise({ step: endless });
    const runId = await admitted();
    await time.pass(LIMITS.claimEveryMs);
    const { supervisor } = await supervise({});
    db.dropSession(dying.process() ?? 0);
    await time.pass(LIMITS.sweepEveryMs + 10);
    expect(stateOf(runId)).toBe("completed answered");
    expect(db.eventsOf(db.runs.must(runId).conversationId).map(({ type }) => type)).toContain("run.recovered");
    await time.until(supervisor.drain());
  });

  it("repeats the finalization of a run whose owner died after the seal, and asks no worker", async () => {
    const { supervisor: dying } = await supervise({ step: endless });
    db.createConversation({ id: "cnv_a", tenantId: "default" });
    const dead = dying.process() ?? 0;
    const { claim, runId } = await memoryAdmissionRecord(db).admit({ ...commandFor("cnv_a"), claimFor: dead });
    const owned = memoryOwnershipRecord(db).adopt(claim!);
    const { generation } = owned.claim;
    const said = { ending: "done", answer: "said before", stopReason: "end_turn", leaf: null } as const;
    await owned.seal({ ...said, generation, servedModel: "one", rung: "fresh", error: null });
    const { supervisor, pool } = await supervise({});
    db.dropSession(dead);
    await time.pass(LIMITS.sweepEveryMs + 10);
    expect(stateOf(runId)).toBe("completed answered");
    expect(db.messages.where(({ role }) => role === "assistant")).toMatchObject([{ text: "said before" }]);
    expect(pool.seatCount).toBe(0);
    await time.until(supervisor.drain());
  });

  it("goes on through a record that is away for a while, in the middle of a turn", async () => {
    let away = false;
    const { claim } = memoryOwnershipRecord(db);
    const shaky: OwnershipRecord["claim"] = async (request) =>
      (await claim(request)).map((owned) => ({
        ...owned,
        seal: async (conclusion) => {
          if (away) throw new PlatformError("database_unavailable");
          return await owned.seal(conclusion);
        },
      }));
    const step = async () => {
      away = true;
      return answered("hi");
    };
    const { supervisor, pool } = await supervise({ step }, { record: { claim: shaky } });
    const runId = await admitted();
    await time.pass(3 * LIMITS.claimEveryMs);
    expect(stateOf(runId)).toBe("running");
    away = false;
    await time.pass(2 * LIMITS.recordRetryCapMs);
    expect([stateOf(runId), pool.seatCount, db.runs.must(runId).attempt]).toEqual(["completed answered", 1, 1]);
    await time.until(supervisor.drain());
  });

  it("writes nothing once its lease may be over, and goes on with the run when it holds again", async () => {
    let away = false;
    const { heartbeat } = memoryProcessRecord(db);
    const refusing: ProcessRecord["heartbeat"] = async (process) => {
      if (away) {
        throw new PlatformError("database_unavailable");
      }
      await heartbeat(process);
    };
    const { supervisor, pool } = await supervise({ step: endless, room: 3 }, { processes: { heartbeat: refusing } });
    const runId = await admitted();
    await time.pass(LIMITS.claimEveryMs);
    away = true;
    await time.pass(15_000);
    expect([supervisor.process(), supervisor.reserve("langgraph"), supervisor.driving()]).toEqual([null, null, []]);
    expect(pool.terminated).toHaveLength(1);
    const before = db.eventsOf(db.runs.must(runId).conversationId).length;
    await time.pass(10_000);
    expect(db.eventsOf(db.runs.must(runId).conversationId)).toHaveLength(before);
    away = false;
    await time.pass(10_000);
    expect(supervisor.driving()).toHaveLength(1);
    expect(db.runs.must(runId)).toMatchObject({ state: "running", attempt: 2 });
  });

  it("drains: claims nothing more, waits for what it drives, gives the rest back, and leaves nothing running", async () => {
    let step = 0;
    const quickThenEndless = async (played: ScriptedStep) => {
      step += 1;
      if (step > 1) return await endless(played);
      await time.clock.sleep(3_000);
      return answered("just in time");
    };
    const { supervisor } = await supervise({ step: quickThenEndless, room: 3 });
    const [quick, slow] = [await admitted("cnv_a"), await admitted("cnv_b")];
    await time.pass(LIMITS.claimEveryMs);
    const drained = supervisor.drain();
    const late = await admitted("cnv_c");
    supervisor.wake();
    await time.pass(LIMITS.drainMs - 1);
    expect([stateOf(quick), stateOf(slow), stateOf(late)]).toEqual(["completed answered", "running", "admitted"]);
    expect(supervisor.reserve("langgraph")).toBeNull();
    await time.until(drained, LIMITS.haltWaitMs);
    expect([stateOf(slow), supervisor.process()]).toEqual(["admitted", null]);
    expect(db.processes.must("1").deadAtMs).not.toBeNull();
    const calls = time.lines.length;
    await time.pass(60_000);
    expect(time.lines).toHaveLength(calls);
    await time.until(supervisor.drain());
  });

  it("leaves in bounded time though the record never answers", async () => {
    let away = false;
    const never = new Promise<never>(() => undefined);
    const { claim } = memoryOwnershipRecord(db);
    const { unregister } = memoryProcessRecord(db);
    const { supervisor } = await supervise(
      { step: endless, room: 2 },
      {
        record: { claim: (request) => (away ? never : claim(request)) },
        processes: { unregister: (process) => (away ? never : unregister(process)) },
      },
    );
    const runId = await admitted();
    await time.pass(LIMITS.claimEveryMs);
    expect(stateOf(runId)).toBe("running");
    away = true;
    await time.pass(LIMITS.claimEveryMs);
    await time.until(supervisor.drain(), LIMITS.drainMs + 4 * LIMITS.haltWaitMs);
    expect(stateOf(runId)).toBe("admitted");
  });
});
