/** A worker as a process: killed in the middle of a stream, told to stop, left by its parent. */
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { StepResult_Outcome } from "@signalbox/contract/worker-protocol";
import { MemoryTranscript, playMessage, startPlatformDouble, startSim, type PlatformDouble } from "@signalbox/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  dialAddress,
  executeStep,
  JOIN_TOKEN,
  newSlotToken,
  openSession,
  readStep,
  snapshotOf,
  type WorkerClient,
} from "./support/worker-client.ts";

const MAIN = fileURLToPath(new URL("../../packages/testkit/src/scripted/worker-main.ts", import.meta.url));
const CONVERSATION = "cnv_00000000000070008000000000000001";

interface Started {
  readonly child: ChildProcessByStdio<Writable, Readable, null>;
  readonly pid: number;
  readonly address: string;
  readonly exited: Promise<{ readonly code: number | null; readonly signal: string | null }>;
}

let platform: PlatformDouble;
const toEnd: (AsyncDisposable | Disposable)[] = [];
const children: Started[] = [];

beforeEach(async () => {
  platform = await startPlatformDouble({ joinToken: JOIN_TOKEN });
  toEnd.push(platform);
});

afterEach(async () => {
  for (const { child, exited } of children.splice(0)) {
    child.stdin.end();
    await exited;
  }
  for (const each of toEnd.splice(0).toReversed()) {
    await (Symbol.asyncDispose in each ? each[Symbol.asyncDispose]() : each[Symbol.dispose]());
  }
});

async function start(joinToken: string = JOIN_TOKEN): Promise<Started> {
  const args = ["--conditions=@signalbox/source", MAIN, platform.url, "langgraph=@signalbox/executor-langgraph"];
  const env = { PATH: process.env.PATH, TMPDIR: tmpdir(), SIGNALBOX_JOIN_TOKEN: joinToken };
  const child = spawn(process.execPath, args, { env, stdio: ["pipe", "pipe", "ignore"] });
  const exited = once(child, "exit").then(([code, signal]) => ({ code, signal }));
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  const started = { child, exited, ...(JSON.parse(line) as { readonly pid: number; readonly address: string }) };
  children.push(started);
  return started;
}

function dialled(worker: Started): WorkerClient {
  const connection = dialAddress(worker.address);
  toEnd.push(connection);
  return connection.client;
}

function scratchOf(pid: number): readonly string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith("signalbox-worker-") && name.includes(`-${pid}-`));
}

function openTurn(client: WorkerClient, order: { readonly transcript: MemoryTranscript; readonly modelUrl: string }) {
  const slotToken = newSlotToken();
  platform.bind(slotToken, order.transcript);
  return openSession(client, {
    conversationId: CONVERSATION,
    generation: order.transcript.generation,
    slotToken,
    snapshot: snapshotOf({ runtime: "langgraph" }),
    gates: { modelUrl: order.modelUrl, recordUrl: platform.url },
  });
}

describe("worker process", () => {
  it("leaves nothing when it is killed in the middle of a stream, and another runs the turn again", async () => {
    const sim = await startSim({
      tokenDelayMs: 20,
      script: [{ parts: [{ tokens: 500 }] }, { parts: [{ text: "Here." }] }],
    });
    toEnd.push(sim);
    const transcript = new MemoryTranscript();
    const first = await start();
    const client = dialled(first);
    await openTurn(client, { transcript, modelUrl: sim.url });
    expect(scratchOf(first.pid)).toHaveLength(1);
    let tokenCount = 0;
    const order = { conversationId: CONVERSATION, generation: transcript.generation, text: "a long one" };
    const running = readStep(executeStep(client, order), (event) => {
      tokenCount += event.case === "textDelta" ? 1 : 0;
      if (tokenCount === 5) {
        first.child.kill("SIGKILL");
      }
    });
    await expect(running).rejects.toThrow(/unavailable|aborted|closed|internal/i);
    expect(await first.exited).toMatchObject({ signal: "SIGKILL" });
    await sim.waitFor((requests) => requests.every((request) => request.closedAtMs !== null));
    expect(sim.requests[0]?.finished).toBe(false);
    expect(transcript.visible).toHaveLength(0);

    transcript.claim();
    const second = await start();
    expect(scratchOf(first.pid)).toHaveLength(0);
    const next = dialled(second);
    await openTurn(next, { transcript, modelUrl: sim.url });
    const again = await readStep(executeStep(next, { ...order, generation: transcript.generation }));
    expect(again.result).toMatchObject({ outcome: StepResult_Outcome.DONE, answer: "Here." });
    expect(transcript.visible.length).toBeGreaterThan(0);
  });

  it("announces both runtimes with their versions", async () => {
    const worker = await start();
    await platform.waitForRegistrations(1);
    expect(platform.registrations[0]).toMatchObject({ address: worker.address });
    const runtimes = platform.registrations[0]?.runtimes ?? [];
    expect(runtimes.map(({ name, available }) => [name, available])).toEqual([
      ["scripted", true],
      ["langgraph", true],
    ]);
    expect(runtimes[1]?.version).toMatch(/^\d+\.\d+\.\d+$/);
  });

  it("drains on SIGTERM: the running step ends with what it said, the scratch folder goes, the exit code is 0", async () => {
    const worker = await start();
    const client = dialled(worker);
    const slotToken = newSlotToken();
    platform.bind(slotToken, new MemoryTranscript());
    await openSession(client, {
      conversationId: CONVERSATION,
      generation: 1,
      slotToken,
      gates: { recordUrl: platform.url },
    });
    const text = playMessage([{ say: "Until now" }, { hang: "until_interrupted" }]);
    const running = readStep(executeStep(client, { conversationId: CONVERSATION, generation: 1, text }), (event) => {
      if (event.case === "textDelta") {
        worker.child.kill("SIGTERM");
      }
    });
    expect((await running).result).toMatchObject({ outcome: StepResult_Outcome.INTERRUPTED, answer: "Until now" });
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(scratchOf(worker.pid)).toHaveLength(0);
  });

  it("ends with its parent", async () => {
    const worker = await start();
    worker.child.stdin.end();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(scratchOf(worker.pid)).toHaveLength(0);
  });

  it("ends with 1 when the platform does not accept its token", async () => {
    const worker = await start("another token");
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(scratchOf(worker.pid)).toHaveLength(0);
  });
});
