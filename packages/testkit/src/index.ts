export { startSim } from "./sim/server.ts";
export { MemoryTranscript } from "./scripted/memory-transcript.ts";
