export { defineTool, type ToolContext, type ToolDefinition } from "./embedding/define-tool.ts";
export type { FunctionTool } from "./tool-gate/function-tool.ts";
export { open, type AgentDeclaration, type OpenOptions, type OpenPlatform } from "./wiring/open.ts";
