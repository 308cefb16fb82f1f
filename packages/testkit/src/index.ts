export { startSim, type Sim, type SimOptions } from "./sim/server.ts";
export { startSimProcess, type SimProcess } from "./sim/sim-process.ts";
export { answersOfFile } from "./sim/play-raw.ts";
export type { OfferedTool, SimRequest, WireName } from "./sim/conversation.ts";
export type { RecordedRequest } from "./sim/recording.ts";
export type {
  Breakage,
  NamedScript,
  PlayedAnswer,
  RawAnswer,
  RefusedAnswer,
  Script,
  ScriptedAnswer,
  ScriptPart,
  StopReason,
  Usage,
} from "./sim/script.ts";
export { tokenTimes } from "./sim/timestamps.ts";
export { readCallFile, type FiledCall } from "./neighbours/call-file.ts";
export { startMcpServer, type McpNeighbour, type McpServerOptions } from "./neighbours/mcp-server.ts";
export { startEverythingServer } from "./neighbours/everything/everything-server.ts";
export type { LocalServer } from "./neighbours/fetch-server.ts";
export { startSessionServer, type SessionServer, type SessionServerOptions } from "./neighbours/session-server.ts";
export { stdioServerCommand, type StdioServerOptions } from "./neighbours/stdio-command.ts";
export type { RecordedCall, ScriptedTool, ScriptedTools, ToolAnswer, ToolContext } from "./neighbours/scripted-tool.ts";
export { MemoryTranscript } from "./scripted/memory-transcript.ts";
export { playMessage, type Action } from "./scripted/play.ts";
export { createScriptedExecutor } from "./scripted/scripted-executor.ts";
export { startPlatformDouble, type PlatformDouble, type PlatformDoubleOptions } from "./scripted/platform-double.ts";
export { memoryAdmissionRecord } from "./memory/admission-record.ts";
export { MemoryDatabase, type CallFacts, type Commit, type MemoryDatabaseOptions } from "./memory/database.ts";
export { memoryGateRecord } from "./memory/gate-record.ts";
export { memoryHoldRecord } from "./memory/suspension.ts";
export { memoryOwnershipRecord } from "./memory/ownership-record.ts";
export { memoryProcessRecord } from "./memory/process-record.ts";
export { MemoryToolStore } from "./memory/tool-store.ts";
export { SABOTAGES, type Sabotage } from "./memory/sabotage.ts";
export type { Fate, PlannedFault } from "./simulation/faults.ts";
export { answered, ScriptedPool, type PoolScript, type ScriptedStep } from "./simulation/scripted-pool.ts";
export { stagedCommand } from "./simulation/staged-command.ts";
export { simulate, type CalmScenario, type SimulationOptions, type SimulationReport } from "./simulation/simulate.ts";
export { createVirtualTime, type VirtualTime } from "./simulation/virtual-time.ts";
export { InvariantBroken, type Violation } from "./simulation/violations.ts";
