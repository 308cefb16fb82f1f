import { makeId, uuidV7Bytes, type SnapshotTool } from "@signalbox/contract";
import type { AgentRevision } from "@signalbox/core";
import { BEGIN_AT_MS } from "./machine.ts";

/** One tool that may be called again and one that must not. */
export const SIM_AGENT: AgentRevision = {
  agentId: makeId("agent", uuidV7Bytes(BEGIN_AT_MS, new Uint8Array(10))),
  name: "sim",
  revision: 1,
  runtime: "langgraph",
  instructions: "Answer.",
  model: "sim/one",
  maxOutputTokens: 1_000,
  tools: [toolOf("files", "read", "read"), toolOf("pay", "refund", "irreversible")],
  whenBusy: "enqueue",
  limits: { modelCallCount: 50, toolCallCount: 50, wallClockMs: 30_000 },
};

function toolOf(server: string, tool: string, effect: SnapshotTool["effect"]): SnapshotTool {
  return {
    name: `${server}__${tool}`,
    server,
    tool,
    title: tool,
    description: tool,
    effect,
    definitionHash: "0".repeat(64),
    inputSchema: { type: "object" },
  };
}
