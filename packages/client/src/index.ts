export { SignalboxError, type ClientErrorCode, type SignalboxErrorFacts } from "./client-error.ts";
export { ACTOR_HEADER, signActor } from "./actor.ts";
export { ConversationHandle, type AcceptedRun, type SendOptions } from "./conversation-handle.ts";
export { type EventStreamOptions } from "./event-stream.ts";
export { ItemTexts } from "./item-texts.ts";
export { RunHandle, type RunResult } from "./run-handle.ts";
export { Signalbox, type ListOptions, type NewAgent, type Page, type SignalboxOptions } from "./signalbox.ts";
export { Transport, type ApiRequest, type TransportOptions } from "./transport.ts";
