export { TranscriptSaver, type TranscriptSaverOptions } from "./transcript-saver.ts";
