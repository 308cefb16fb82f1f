export { systemClock, type WorkerClock } from "./clock.ts";
export type {
  CallOutcome,
  Compaction,
  CheckpointHeader,
  Continuity,
  CreateExecutor,
  EngineSession,
  EntryKind,
  Executor,
  ExecutorModule,
  ExecutorOptions,
  GateUrls,
  LoadExecutor,
  RuntimeDescription,
  SessionContext,
  ShownItem,
  StepEvent,
  StepInput,
  StepResult,
  DeliveredInput,
  TranscriptEntry,
  TranscriptLog,
} from "./executor.ts";
export { GateConnections } from "./gate-clients/gate-connections.ts";
export { ModelClient, type ModelCall } from "./gate-clients/model-client.ts";
export type { JsonObject, ModelBlock, ModelDelta, ModelMessage } from "./gate-clients/model-message.ts";
export {
  ToolClient,
  type ListedTool,
  type ToolCall,
  type ToolContent,
  type ToolOutcome,
} from "./gate-clients/tool-client.ts";
export { MESSAGE_BYTES_MAX } from "./limits.ts";
export { lineLog, type WorkerLog, type WorkerLogLevel } from "./log.ts";
export { resultsOfLostCalls, type FoundCall, type LostCall, type LostCallPorts } from "./lost-calls.ts";
export { createTranscriptLog } from "./record-client.ts";
export { modelBlocks } from "./result-blocks.ts";
export { fromConnectError, toConnectError } from "./rpc-errors.ts";
export { sweepScratch } from "./scratch.ts";
export { compareShown, type SaidItem } from "./shown-items.ts";
export { runWorkerProcess, type WorkerProcessOptions } from "./worker-process.ts";
export { startWorker, workerRoutes, type Worker, type WorkerOptions } from "./worker.ts";
