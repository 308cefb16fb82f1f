export { systemClock, type WorkerClock } from "./clock.ts";
export type {
  CheckpointHeader,
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
  StepEvent,
  StepInput,
  StepResult,
  TranscriptEntry,
  TranscriptLog,
} from "./executor.ts";
export { MESSAGE_BYTES_MAX } from "./limits.ts";
export { lineLog, type WorkerLog } from "./log.ts";
export { createTranscriptLog } from "./record-client.ts";
export { CODE_METADATA, fromConnectError, RETRY_AFTER_METADATA, toConnectError } from "./rpc-errors.ts";
export { runWorkerProcess, type WorkerProcessOptions } from "./worker-process.ts";
export { startWorker, workerRoutes, type Worker, type WorkerOptions } from "./worker.ts";
