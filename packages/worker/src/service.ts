/** WorkerService over any transport: messages in and out, errors in one form. */
import type { ConnectRouter, HandlerContext, Interceptor } from "@connectrpc/connect";
import { asPlatformError } from "@signalbox/contract";
import { WorkerService, type ExecuteStepRequest, type ExecuteStepResponse } from "@signalbox/contract/worker-protocol";
import type { RuntimeDescription } from "./executor.ts";
import { requireJoinToken } from "./join-token.ts";
import { MESSAGE_BYTES_MAX } from "./limits.ts";
import type { WorkerLog } from "./log.ts";
import { toConnectError } from "./rpc-errors.ts";
import type { Sessions } from "./sessions.ts";
import {
  readGeneration,
  readSessionOrder,
  readStepInput,
  readStepSession,
  writeOpened,
  writeOpenedEvent,
  writeOutput,
  writeRuntime,
} from "./wire.ts";

interface ServiceOptions {
  readonly incarnation: string;
  readonly joinToken: string;
  readonly sessions: Sessions;
  readonly runtimes: () => readonly RuntimeDescription[];
  readonly log: WorkerLog;
  /** Called for every call that carries the join token. */
  readonly onHeard: () => void;
}

export function serveWorker(options: ServiceOptions): (router: ConnectRouter) => void {
  const { sessions } = options;
  const answered = <T>(work: () => Promise<T> | T): Promise<T> => translated(options.log, work);
  return (router) => {
    router.service(
      WorkerService,
      {
        initWorkerSession: (request) =>
          answered(async () => writeOpened(await sessions.open(readSessionOrder(request)))),
        executeStep: (request, context) => executeStep(options, request, context),
        interruptStep: (request) =>
          answered(() => {
            const session = sessions.find(request.conversationId, readGeneration(request.generation));
            return { running: session.interrupt(request.reason) };
          }),
        deliverInput: (request) =>
          answered(() => {
            const session = sessions.find(request.conversationId, readGeneration(request.generation));
            return { accepted: session.deliver({ messageId: request.messageId, parts: request.parts }) };
          }),
        checkpoint: (request) =>
          answered(async () => {
            const session = sessions.find(request.conversationId, readGeneration(request.generation));
            const header = await session.checkpoint();
            return {
              schemaVersion: header.schemaVersion,
              runtime: session.runtime,
              generation: BigInt(session.generation),
              leaf: header.leaf ?? "",
              sizeBytes: BigInt(header.sizeBytes),
            };
          }),
        heartbeat: () => ({
          incarnation: options.incarnation,
          room: sessions.room,
          sessions: sessions.all.map((session) => ({
            conversationId: session.conversationId,
            generation: BigInt(session.generation),
            stepping: session.stepping,
          })),
          runtimes: options.runtimes().map(writeRuntime),
        }),
        terminate: (request) =>
          answered(async () => {
            await sessions.terminate(request.conversationId, readGeneration(request.generation), request.reason);
            return {};
          }),
      },
      {
        interceptors: [requireJoinToken(options.joinToken, options.onHeard)] satisfies Interceptor[],
        readMaxBytes: MESSAGE_BYTES_MAX,
        writeMaxBytes: MESSAGE_BYTES_MAX,
      },
    );
  };
}

async function* executeStep(
  options: ServiceOptions,
  request: ExecuteStepRequest,
  context: HandlerContext,
): AsyncGenerator<ExecuteStepResponse> {
  try {
    const order = readStepSession(request);
    const opened = order === null ? null : await options.sessions.open(order);
    const session = options.sessions.forStep(request.conversationId, readGeneration(request.generation));
    const outputs = session.step(readStepInput(request), context.signal);
    // The step runs while its reader hears that the session is open.
    const first = outputs.next();
    first.catch(() => undefined);
    try {
      if (opened !== null) {
        yield writeOpenedEvent(opened);
      }
      for (let output = await first; output.done !== true; output = await outputs.next()) {
        yield writeOutput(output.value);
      }
    } finally {
      await outputs.return(undefined);
    }
  } catch (thrown) {
    throw rpcError(options.log, thrown);
  }
}

async function translated<T>(log: WorkerLog, work: () => Promise<T> | T): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    throw rpcError(log, thrown);
  }
}

/** Nobody's expected error is logged here, where it is answered, and nowhere else. */
function rpcError(log: WorkerLog, thrown: unknown) {
  const error = asPlatformError(thrown);
  if (error.code === "internal") {
    log.error("a call of the worker protocol failed", thrown);
  }
  return toConnectError(error);
}
