/**
 * The second lock. The tool gate judges every call; this keeps the engine from even trying one the agent was not
 * given. Each call is allowed by name, never by pattern, and whatever goes wrong here means no.
 */
import type { CanUseTool, HookCallbackMatcher, PreToolUseHookSpecificOutput } from "@anthropic-ai/claude-agent-sdk";
import type { Snapshot } from "@signalbox/contract";
import { LIMITS } from "./limits.ts";

/** Under this name the engine knows the tool gate; its tools show as `mcp__signalbox__<server>__<tool>`. */
export const TOOL_SERVER = "signalbox";

const PREFIX = `mcp__${TOOL_SERVER}__`;

export function engineToolNames(snapshot: Snapshot): ReadonlySet<string> {
  return new Set(snapshot.tools.map((tool) => `${PREFIX}${tool.name}`));
}

/** The tool as the agent has it. */
export function agentToolName(engineName: string): string {
  return engineName.startsWith(PREFIX) ? engineName.slice(PREFIX.length) : engineName;
}

export interface ToolGuard {
  readonly names: ReadonlySet<string>;
  /** Whether a call may start now: a step is running and nobody has stopped it. */
  readonly isOpen: () => boolean;
}

export function guardHook(guard: ToolGuard): HookCallbackMatcher {
  return {
    // Without these a hook that throws would let the call through.
    onFailure: "block",
    timeout: LIMITS.hookSeconds,
    hooks: [
      async (input) => {
        let refusal: string;
        try {
          refusal = refusalOf(guard, input);
        } catch {
          refusal = "This call could not be checked and was not made.";
        }
        return { hookSpecificOutput: refusal === "" ? ALLOW : { ...DENY, permissionDecisionReason: refusal } };
      },
    ],
  };
}

/** Reached only by a call the hook did not decide. */
export const denyUndecided: CanUseTool = async () => ({ behavior: "deny", message: "This tool is not available." });

const ALLOW: PreToolUseHookSpecificOutput = { hookEventName: "PreToolUse", permissionDecision: "allow" };
const DENY: PreToolUseHookSpecificOutput = { hookEventName: "PreToolUse", permissionDecision: "deny" };

function refusalOf(guard: ToolGuard, input: unknown): string {
  if (typeof input !== "object" || input === null || !("tool_name" in input) || typeof input.tool_name !== "string") {
    return "This call could not be checked and was not made.";
  }
  if (!guard.names.has(input.tool_name)) {
    return "The agent may not use this tool.";
  }
  return guard.isOpen() ? "" : "The turn was stopped before this call was made.";
}
