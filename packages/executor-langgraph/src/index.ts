export { createExecutor } from "./executor.ts";
export { TranscriptSaver, type TranscriptSaverOptions } from "./transcript-saver.ts";
