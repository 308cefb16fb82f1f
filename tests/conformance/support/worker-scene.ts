/** A worker with the scripted engine, a client of its protocol, and the platform's double as its record gate. */
import { Code, ConnectError } from "@connectrpc/connect";
import { createScriptedExecutor, MemoryTranscript, startPlatformDouble, type PlatformDouble } from "@signalbox/testkit";
import { startWorker, type Worker, type WorkerOptions } from "@signalbox/worker";
import { afterAll, afterEach, beforeAll } from "vitest";
import { recordingLog } from "./recording-log.ts";
import {
  dial,
  executeStep,
  JOIN_TOKEN,
  newSlotToken,
  openSession,
  readStep,
  type Dialled,
  type SessionOrder,
  type Transports,
  type WorkerClient,
} from "./worker-client.ts";

export const CONVERSATION = "cnv_00000000000070008000000000000001";

let shared: PlatformDouble | null = null;

/** The double every scene of the file uses. */
export function platform(): PlatformDouble {
  if (shared === null) {
    throw new Error("the platform double is not up");
  }
  return shared;
}

beforeAll(async () => {
  shared = await startPlatformDouble({ joinToken: JOIN_TOKEN });
});
afterAll(() => platform()[Symbol.asyncDispose]());

/** Ended after each test, the last first. */
export const toEnd: (AsyncDisposable | Disposable)[] = [];
afterEach(async () => {
  for (const each of toEnd.splice(0).toReversed()) {
    await (Symbol.asyncDispose in each ? each[Symbol.asyncDispose]() : each[Symbol.dispose]());
  }
});

export interface Scene {
  readonly worker: Worker;
  readonly client: WorkerClient;
  readonly log: ReturnType<typeof recordingLog>;
  readonly transcript: MemoryTranscript;
  readonly slotToken: string;
  open(order?: Partial<SessionOrder>): ReturnType<typeof openSession>;
  step(text: string, generation?: number): ReturnType<typeof readStep>;
}

export async function scene(over: Transports, options: Partial<WorkerOptions> = {}): Promise<Scene> {
  const log = recordingLog();
  const worker = await startWorker({
    joinToken: JOIN_TOKEN,
    runtimes: { scripted: () => Promise.resolve({ createExecutor: createScriptedExecutor }) },
    host: over === "h2c" ? "127.0.0.1" : null,
    drainMs: 100,
    log,
    ...options,
  });
  toEnd.push(worker);
  const dialled: Dialled = dial(over, worker);
  toEnd.push(dialled);
  const transcript = new MemoryTranscript();
  const slotToken = newSlotToken();
  platform().bind(slotToken, transcript);
  return {
    worker,
    client: dialled.client,
    log,
    transcript,
    slotToken,
    open: (order = {}) =>
      openSession(dialled.client, {
        conversationId: CONVERSATION,
        generation: 1,
        slotToken,
        ...order,
        gates: { recordUrl: platform().url, ...order.gates },
      }),
    step: (text, generation = 1) =>
      readStep(executeStep(dialled.client, { conversationId: CONVERSATION, generation, text })),
  };
}

/** Our code of a call that failed, or the RPC status of one that carries none. */
export async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "no error";
  } catch (error) {
    return ConnectError.from(error).metadata.get("signalbox-code") ?? Code[ConnectError.from(error).code];
  }
}
