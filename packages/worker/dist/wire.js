/** Our words as messages of the worker protocol, and back. Parsing happens here, once, where a call comes in. */
import { create } from "@bufbuild/protobuf";
import { PlatformError, RUNGS } from "@signalbox/contract";
import { StepResult_Outcome, ExecuteStepResponseSchema, } from "@signalbox/contract/worker-protocol";
export function readSessionOrder(request) {
    const { continuity, gates } = request;
    if (continuity === undefined || gates === undefined) {
        throw new PlatformError("invalid_request", "A session is opened with its continuity and its gates.");
    }
    if (request.conversationId === "" || request.slotToken === "") {
        throw new PlatformError("invalid_request", "A session is opened for a conversation, with a slot token.");
    }
    return {
        tenantId: request.tenantId,
        conversationId: request.conversationId,
        generation: readGeneration(request.generation),
        snapshotJson: request.snapshotJson,
        snapshotHash: request.snapshotHash,
        slotToken: request.slotToken,
        rung: readRung(continuity.rung),
        leaf: continuity.leaf === "" ? null : continuity.leaf,
        history: continuity.history.map((entry) => ({ role: readRole(entry.role), text: entry.text })),
        gates: { model: gates.modelUrl, tool: gates.toolUrl, record: gates.recordUrl },
    };
}
export function readGeneration(generation) {
    if (generation > BigInt(Number.MAX_SAFE_INTEGER)) {
        throw new PlatformError("invalid_request", "The generation is out of range.");
    }
    return Number(generation);
}
export function readStepInput(request) {
    const { turnId, runId, input } = request;
    switch (input.case) {
        case "message":
            return { kind: "message", turnId, runId, parts: input.value.parts };
        case "continue":
            return { kind: "continue", turnId, runId, reason: input.value.reason };
        case undefined:
            throw new PlatformError("invalid_request", "A step has an input: a message or a reason to continue.");
    }
}
/** The snapshot's text has been hashed already; what the hash covers was checked by whoever froze it. */
export function readSnapshot(json) {
    try {
        const value = JSON.parse(json);
        if (typeof value === "object" && value !== null && "model" in value && "tools" in value) {
            // Frozen, validated and hashed by the platform; the hash is compared before this is used.
            return value;
        }
    }
    catch (cause) {
        throw new PlatformError("snapshot_mismatch", "The snapshot is not valid JSON.", { cause });
    }
    throw new PlatformError("snapshot_mismatch", "The snapshot has not the form of one.");
}
const OUTCOMES = {
    done: StepResult_Outcome.DONE,
    continue: StepResult_Outcome.CONTINUE,
    hold_required: StepResult_Outcome.HOLD_REQUIRED,
    failed: StepResult_Outcome.FAILED,
    interrupted: StepResult_Outcome.INTERRUPTED,
};
export function writeOutput(output) {
    return create(ExecuteStepResponseSchema, {
        event: output.kind === "result" ? { case: "result", value: writeResult(output.result) } : writeEvent(output.event),
    });
}
function writeEvent(event) {
    switch (event.type) {
        case "text.delta":
            return { case: "textDelta", value: { itemId: event.itemId, offset: BigInt(event.offset), text: event.text } };
        case "thinking.delta":
            return { case: "thinkingDelta", value: { itemId: event.itemId, offset: BigInt(event.offset), text: event.text } };
        case "text.completed":
            return { case: "textCompleted", value: { itemId: event.itemId, text: event.text } };
        case "thinking.completed":
            return { case: "thinkingCompleted", value: { itemId: event.itemId, text: event.text } };
        case "text.retracted":
            return { case: "textRetracted", value: { itemId: event.itemId, cause: event.cause } };
        case "run.phase":
            return { case: "phase", value: { phase: event.phase } };
    }
}
function writeResult(result) {
    return {
        outcome: OUTCOMES[result.outcome],
        answer: result.answer,
        stopReason: result.stopReason,
        leaf: result.leaf ?? "",
        servedModel: result.servedModel,
        ...(result.error === null ? {} : { error: { code: result.error.code, detail: result.error.detail } }),
    };
}
export function writeRuntime(runtime) {
    return { ...runtime, capabilities: [...runtime.capabilities] };
}
function readRung(text) {
    const rung = RUNGS.find((each) => each === text);
    if (rung === undefined) {
        throw new PlatformError("invalid_request", "The continuity names no rung of the resume ladder.");
    }
    return rung;
}
function readRole(text) {
    if (text === "user" || text === "assistant") {
        return text;
    }
    throw new PlatformError("invalid_request", "A line of the history is from the user or the assistant.");
}
//# sourceMappingURL=wire.js.map