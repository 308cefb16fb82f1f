/** A worker of the worker protocol that does what a test says, and a pool that dials it. */
import { createHash } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { createServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { CODE_HEADER, PlatformError, type ErrorCode, type Snapshot } from "@signalbox/contract";
import {
  StepResult_Outcome,
  WorkerService,
  type ExecuteStepRequest,
  type ExecuteStepResponseSchema,
  type InitWorkerSessionRequest,
  type InterruptStepRequest,
  type TerminateRequest,
} from "@signalbox/contract/worker-protocol";
import type { Log, Seat, SessionRequest, StepOutput, StepRequest } from "@signalbox/core";
import { Code, ConnectError, type ConnectRouter, type HandlerContext } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { expect } from "vitest";
import { systemClock, systemRandomness } from "../../packages/server/src/system/ports.ts";
import { ConnectedWorkers } from "../../packages/server/src/workers/pool.ts";

export const JOIN_TOKEN = "the join token of this test";
export const BEAT_MS = 200;

/** Looks again until it is so, within what a busy machine may take. */
export const PATIENTLY = { timeout: 4_000, interval: 10 } as const;

/** On a socket of its own. */
export class ScriptedWorker implements AsyncDisposable {
  incarnation = "w1";
  room = 4;
  runtimes = [{ name: "langgraph", version: "1.0.0", available: true, problem: "", capabilities: ["streaming"] }];
  sessions: { conversationId: string; generation: bigint; stepping: boolean }[] = [];
  /** Heartbeats are taken and never answered. */
  hangs = false;
  onOpen = (request: InitWorkerSessionRequest): { slotHash: string } | Promise<{ slotHash: string }> => ({
    slotHash: hash(request),
  });
  onStep: (request: ExecuteStepRequest, signal: AbortSignal) => AsyncIterable<ExecuteStepAnswer> = answer;
  onInterrupt = (): boolean => true;
  readonly opened: InitWorkerSessionRequest[] = [];
  readonly stepped: ExecuteStepRequest[] = [];
  readonly interrupted: InterruptStepRequest[] = [];
  readonly terminated: TerminateRequest[] = [];
  readonly tokens = new Set<string | null>();
  beatCount = 0;
  readonly #server;
  readonly #connections = new Set<ServerHttp2Session>();

  constructor() {
    this.#server = createServer(connectNodeAdapter({ routes: (router) => this.#serve(router) }));
    this.#server.on("session", (session) => {
      this.#connections.add(session);
      session.on("error", () => undefined);
      session.once("close", () => this.#connections.delete(session));
    });
  }

  async listen(port = 0): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(port, "127.0.0.1", resolve));
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get address(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Every socket breaks, as when the process is killed. */
  cut(): void {
    for (const connection of this.#connections) connection.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.cut();
    await closed;
  }

  #forget(conversationId: string): void {
    this.sessions = this.sessions.filter((session) => session.conversationId !== conversationId);
  }

  async #open(request: InitWorkerSessionRequest) {
    this.opened.push(request);
    const { slotHash } = await this.onOpen(request);
    const { conversationId, generation } = request;
    this.#forget(conversationId);
    this.sessions.push({ conversationId, generation, stepping: false });
    return { rebound: false, slotHash, leaf: "" };
  }

  async *#step(request: ExecuteStepRequest, signal: AbortSignal): AsyncIterable<ExecuteStepAnswer> {
    if (request.session !== undefined) {
      yield { event: { case: "opened", value: await this.#open(request.session) } };
    }
    this.stepped.push(request);
    yield* this.onStep(request, signal);
  }

  #serve(router: ConnectRouter): void {
    router.service(WorkerService, {
      heartbeat: async (_request, context) => {
        this.beatCount += 1;
        this.tokens.add(context.requestHeader.get("authorization"));
        if (this.hangs) await aborted(context.signal);
        const { incarnation, room, runtimes, sessions } = this;
        return { incarnation, room, runtimes, sessions };
      },
      initWorkerSession: (request) => this.#open(request),
      executeStep: (request, context: HandlerContext) => this.#step(request, context.signal),
      interruptStep: (request) => {
        this.interrupted.push(request);
        return { running: this.onInterrupt() };
      },
      terminate: (request) => {
        this.terminated.push(request);
        this.#forget(request.conversationId);
        return {};
      },
    });
  }
}

/** A message of a step's stream, written as the protocol's own initialiser. */
export type ExecuteStepAnswer = MessageInitShape<typeof ExecuteStepResponseSchema>;

export function hash(request: { readonly slotToken: string }): string {
  return createHash("sha256").update(request.slotToken).digest("hex");
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

export function refusal(code: ErrorCode, detail: string, headers: Readonly<Record<string, string>> = {}): ConnectError {
  return new ConnectError(detail, Code.Aborted, { [CODE_HEADER]: code, ...headers });
}

export const RESULT = {
  outcome: StepResult_Outcome.DONE,
  answer: "Hello",
  stopReason: "end_turn",
  leaf: "e1",
  servedModel: "sim/quote",
};

async function* answer(): AsyncIterable<ExecuteStepAnswer> {
  yield { event: { case: "phase", value: { phase: "writing" } } };
  yield { event: { case: "textDelta", value: { itemId: "itm_1", offset: 0n, text: "Hello" } } };
  yield { event: { case: "textCompleted", value: { itemId: "itm_1", text: "Hello" } } };
  yield { event: { case: "result", value: RESULT } };
}

export const SESSION: SessionRequest = {
  tenantId: "default",
  conversationId: "cnv_1",
  generation: 7,
  // Only its text travels.
  snapshot: { agentName: "support" } as Snapshot,
  snapshotHash: "h",
  rung: "native",
  leaf: "e0",
  finalized: null,
  history: [],
};
export const STEP: StepRequest = {
  runId: "run_1",
  turnId: "trn_1",
  parts: ["hello"],
  continueReason: null,
  recovery: null,
};
export const GATES = { modelUrl: "http://gates/model", toolUrl: "http://gates/mcp", recordUrl: "http://gates" };

/** A pool and one scripted worker. */
export class WorkersWorld implements AsyncDisposable {
  readonly worker = new ScriptedWorker();
  readonly workers: ConnectedWorkers;
  readonly warnings: string[] = [];
  /** How often the pool rang for room. */
  bellCount = 0;
  readonly #stack = new AsyncDisposableStack();

  private constructor() {
    const { warnings } = this;
    const log: Log = { info: () => undefined, warn: (message) => void warnings.push(message), error: () => undefined };
    this.#stack.use(this.worker);
    this.workers = this.#stack.use(
      new ConnectedWorkers({
        joinToken: JOIN_TOKEN,
        supervisor: "s1",
        gates: GATES,
        clock: systemClock,
        randomness: systemRandomness,
        log,
        heartbeatEveryMs: BEAT_MS,
        onRoom: () => (this.bellCount += 1),
      }),
    );
  }

  static async open(): Promise<WorkersWorld> {
    const world = new WorkersWorld();
    await world.worker.listen();
    return world;
  }

  /** Free steps of the runtime `langgraph`. */
  get room(): number {
    return this.workers.room().langgraph ?? 0;
  }

  use<T extends AsyncDisposable>(resource: T): T {
    return this.#stack.use(resource);
  }

  announce(worker = this.worker): void {
    const { address, incarnation, room } = worker;
    const runtimes = worker.runtimes.map((each) => ({ ...each, $typeName: "signalbox.worker.v1.Runtime" as const }));
    this.workers.announce({ address, incarnation, room, runtimes });
  }

  async connect(worker = this.worker): Promise<void> {
    const before = this.bellCount;
    // A worker announces itself until it is dialled.
    const announced = (): number => (this.announce(worker), this.bellCount);
    await expect.poll(announced, PATIENTLY).toBeGreaterThan(before);
  }

  /** The session is opened with the first step. */
  async seatWithSession(session = SESSION): Promise<Seat> {
    const seat = await this.workers.seat(session.conversationId, "langgraph");
    await seat.open(session);
    return seat;
  }

  /** A seat whose session has made a step. */
  async steppedSeat(session = SESSION): Promise<Seat> {
    const seat = await this.seatWithSession(session);
    await outputsOf(seat);
    return seat;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

export async function outputsOf(
  seat: Seat,
  signal: AbortSignal = new AbortController().signal,
  step: StepRequest = STEP,
): Promise<readonly StepOutput[]> {
  const outputs: StepOutput[] = [];
  for await (const output of seat.step(step, signal)) outputs.push(output);
  return outputs;
}

export async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "none",
    (thrown: unknown) => (thrown instanceof PlatformError ? thrown.code : String(thrown)),
  );
}
