/** A supervisor's side of the worker protocol for tests: sessions opened, steps read to their one result. */
import { createHash, randomBytes } from "node:crypto";
import { createClient, createRouterTransport, type Client, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { snapshotHashText, type Rung, type Snapshot } from "@signalbox/contract";
import {
  WorkerService,
  type ExecuteStepResponse,
  type InitWorkerSessionResponse,
  type StepResult,
} from "@signalbox/contract/worker-protocol";
import { MESSAGE_BYTES_MAX, workerRoutes, type Worker } from "@signalbox/worker";

export const JOIN_TOKEN = "join-token-of-this-test";

export type WorkerClient = Client<typeof WorkerService>;

export interface Dialled extends Disposable {
  readonly client: WorkerClient;
}

export type Transports = "h2c" | "in memory";

/** The same worker over a socket and in the same process. */
export function dial(over: Transports, worker: Worker, joinToken: string = JOIN_TOKEN): Dialled {
  return over === "h2c"
    ? dialAddress(worker.address, joinToken)
    : clientOf(createRouterTransport(workerRoutes(worker), { transport: authorized(joinToken) }), () => undefined);
}

export function dialAddress(address: string, joinToken: string = JOIN_TOKEN): Dialled {
  const sessionManager = new Http2SessionManager(address);
  const transport = createGrpcTransport({ baseUrl: address, sessionManager, ...authorized(joinToken) });
  return clientOf(transport, () => sessionManager.abort());
}

function clientOf(transport: Transport, end: () => void): Dialled {
  return { client: createClient(WorkerService, transport), [Symbol.dispose]: end };
}

function authorized(joinToken: string) {
  return {
    interceptors: [
      (next: (request: { readonly header: Headers }) => unknown) => (request: { readonly header: Headers }) => {
        request.header.set("authorization", `Bearer ${joinToken}`);
        return next(request);
      },
    ] as never[],
    readMaxBytes: MESSAGE_BYTES_MAX,
    writeMaxBytes: MESSAGE_BYTES_MAX,
  };
}

export function snapshotOf(over: Partial<Snapshot> = {}): Snapshot {
  return {
    agentId: "agt_00000000000070008000000000000001",
    agentName: "test",
    revision: 1,
    runtime: "scripted",
    instructions: "",
    model: "sim/test",
    maxOutputTokens: 1_000,
    tools: [],
    limits: { modelCallCount: 10, toolCallCount: 10, wallClockMs: 60_000 },
    ...over,
  };
}

export function hashOf(snapshot: Snapshot): string {
  return createHash("sha256").update(snapshotHashText(snapshot)).digest("hex");
}

export function newSlotToken(): string {
  return randomBytes(32).toString("base64url");
}

export interface SessionOrder {
  readonly conversationId: string;
  readonly generation: number;
  readonly slotToken: string;
  readonly snapshot?: Snapshot;
  readonly snapshotHash?: string;
  readonly rung?: Rung;
  readonly leaf?: string | null;
  readonly history?: readonly { readonly role: "user" | "assistant"; readonly text: string }[];
  readonly gates?: { readonly modelUrl?: string; readonly toolUrl?: string; readonly recordUrl?: string };
}

export function openSession(client: WorkerClient, order: SessionOrder): Promise<InitWorkerSessionResponse> {
  return client.initWorkerSession(sessionRequest(order));
}

function sessionRequest(order: SessionOrder) {
  const snapshot = order.snapshot ?? snapshotOf();
  return {
    tenantId: "tnt_1",
    conversationId: order.conversationId,
    generation: BigInt(order.generation),
    snapshotJson: JSON.stringify(snapshot),
    snapshotHash: order.snapshotHash ?? hashOf(snapshot),
    slotToken: order.slotToken,
    continuity: { rung: order.rung ?? "fresh", leaf: order.leaf ?? "", history: [...(order.history ?? [])] },
    gates: {
      modelUrl: "http://127.0.0.1:9",
      toolUrl: "http://127.0.0.1:9/mcp",
      recordUrl: "http://127.0.0.1:9",
      ...order.gates,
    },
  };
}

export interface StepOrder {
  readonly conversationId: string;
  readonly generation: number;
  readonly text: string;
  /** Opened with the step. */
  readonly session?: SessionOrder;
}

export function executeStep(client: WorkerClient, order: StepOrder, signal?: AbortSignal) {
  return client.executeStep(
    {
      conversationId: order.conversationId,
      generation: BigInt(order.generation),
      runId: "run_00000000000070008000000000000001",
      turnId: "trn_00000000000070008000000000000001",
      input: { case: "message", value: { parts: [order.text] } },
      ...(order.session === undefined ? {} : { session: sessionRequest(order.session) }),
    },
    signal === undefined ? {} : { signal },
  );
}

export interface StepRead {
  readonly events: readonly ExecuteStepResponse["event"][];
  readonly results: readonly StepResult[];
  readonly result: StepResult;
  /** Text of every item, as its deltas put it together. */
  readonly said: ReadonlyMap<string, string>;
}

/** Reads a step to its end. `onEvent` sees each event as it comes. */
export async function readStep(
  stream: AsyncIterable<ExecuteStepResponse>,
  onEvent: (event: ExecuteStepResponse["event"]) => void = () => undefined,
): Promise<StepRead> {
  const events: ExecuteStepResponse["event"][] = [];
  const results: StepResult[] = [];
  const said = new Map<string, string>();
  for await (const { event } of stream) {
    events.push(event);
    onEvent(event);
    if (event.case === "result") {
      results.push(event.value);
    } else if (event.case === "textDelta") {
      const { itemId, offset, text } = event.value;
      said.set(itemId, (said.get(itemId) ?? "").slice(0, Number(offset)) + text);
    }
  }
  const [result] = results;
  if (result === undefined) {
    throw new Error("the step ended without a result");
  }
  return { events, results, result, said };
}
