import { asPlatformError } from "@signalbox/contract";
import { WorkerService } from "@signalbox/contract/worker-protocol";
import { requireJoinToken } from "./join-token.js";
import { MESSAGE_BYTES_MAX } from "./limits.js";
import { toConnectError } from "./rpc-errors.js";
import { readGeneration, readSessionOrder, readStepInput, writeOutput, writeRuntime } from "./wire.js";
export function serveWorker(options) {
    const { sessions } = options;
    const answered = (work) => translated(options.log, work);
    return (router) => {
        router.service(WorkerService, {
            initWorkerSession: (request) => answered(async () => {
                const opened = await sessions.open(readSessionOrder(request));
                return { rebound: opened.rebound, slotHash: opened.slotHash, leaf: opened.leaf ?? "" };
            }),
            executeStep: (request, context) => executeStep(options, request, context),
            interruptStep: (request) => answered(() => {
                const session = sessions.find(request.conversationId, readGeneration(request.generation));
                return { running: session.interrupt(request.reason) };
            }),
            checkpoint: (request) => answered(async () => {
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
            terminate: (request) => answered(async () => {
                await sessions.terminate(request.conversationId, readGeneration(request.generation), request.reason);
                return {};
            }),
        }, {
            interceptors: [requireJoinToken(options.joinToken, options.onHeard)],
            readMaxBytes: MESSAGE_BYTES_MAX,
            writeMaxBytes: MESSAGE_BYTES_MAX,
        });
    };
}
async function* executeStep(options, request, context) {
    try {
        const session = options.sessions.forStep(request.conversationId, readGeneration(request.generation));
        const outputs = session.step(readStepInput(request), context.signal);
        for await (const output of outputs) {
            yield writeOutput(output);
        }
    }
    catch (thrown) {
        throw rpcError(options.log, thrown);
    }
}
async function translated(log, work) {
    try {
        return await work();
    }
    catch (thrown) {
        throw rpcError(log, thrown);
    }
}
/** Nobody's expected error is logged here, where it is answered, and nowhere else. */
function rpcError(log, thrown) {
    const error = asPlatformError(thrown);
    if (error.code === "internal") {
        log.error("a call of the worker protocol failed", thrown);
    }
    return toConnectError(error);
}
//# sourceMappingURL=service.js.map