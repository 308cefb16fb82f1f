/** What a run may do is its snapshot; these judge one call against it. Pure: the gates bring the facts and act. */
import type { Snapshot, SnapshotTool } from "@signalbox/contract";
import { allow, deny, type Verdict } from "./verdict.ts";

/** The Claude CLI shows a tool of our server to the model under this prefix. */
const ENGINE_PREFIX = "mcp__signalbox__";

/** Name on the wire without the engine's prefix. */
export function wireToolName(name: string): string {
  return name.startsWith(ENGINE_PREFIX) ? name.slice(ENGINE_PREFIX.length) : name;
}

export function judgeToolCall(snapshot: Snapshot, name: string): Verdict<SnapshotTool> {
  const plain = wireToolName(name);
  const tool = snapshot.tools.find((each) => each.name === plain);
  return tool === undefined ? deny("tool_not_allowed", "This agent has no tool of that name.") : allow(tool);
}

export function judgeModelCall(snapshot: Snapshot, model: string): Verdict<string> {
  return model === snapshot.model
    ? allow(model)
    : deny("model_not_granted", `This run was granted ${snapshot.model} and no other model.`);
}
