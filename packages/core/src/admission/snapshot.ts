/** Freezes an agent's revision into what one run may do. Same revision, same pins: same snapshot, same hash. */
import {
  DEFAULT_RUNTIME,
  DEFAULT_WHEN_BUSY,
  PlatformError,
  snapshotHashText,
  wellFormedJson,
  type Snapshot,
} from "@signalbox/contract";
import type { Limits } from "../kernel/limits.ts";
import type { Digest } from "../ports/randomness.ts";
import type { AgentRevision } from "./intent.ts";

export interface FrozenSnapshot {
  readonly snapshot: Snapshot;
  readonly hash: string;
}

export function freezeSnapshot(agent: AgentRevision, limits: Limits, digest: Digest): FrozenSnapshot {
  checkBounds(agent, limits);
  const snapshot: Snapshot = wellFormedJson({
    agentId: agent.agentId,
    agentName: agent.name,
    revision: agent.revision,
    runtime: agent.runtime ?? DEFAULT_RUNTIME,
    instructions: agent.instructions,
    model: agent.model,
    maxOutputTokens: Math.min(agent.maxOutputTokens, limits.maxOutputTokens),
    tools: [...agent.tools].sort((left, right) => (left.name < right.name ? -1 : left.name > right.name ? 1 : 0)),
    limits: {
      modelCallCount: Math.min(agent.limits.modelCallCount, limits.modelCallCount),
      toolCallCount: Math.min(agent.limits.toolCallCount, limits.toolCallCount),
      wallClockMs: Math.min(agent.limits.wallClockMs, limits.runWallClockMs),
    },
    // Left out at its default: a worker of an older release hashes every field it is sent.
    ...(agent.whenBusy === DEFAULT_WHEN_BUSY ? {} : { whenBusy: agent.whenBusy }),
  });
  return { snapshot, hash: digest.sha256Hex(snapshotHashText(snapshot)) };
}

function checkBounds(agent: AgentRevision, limits: Limits): void {
  const names = new Set(agent.tools.map((tool) => tool.name));
  if (names.size !== agent.tools.length) {
    throw new PlatformError("invalid_request", "Two tools of this agent have the same name on the model's wire.");
  }
  if (agent.tools.length > limits.toolCount) {
    throw new PlatformError("payload_too_large", `An agent has at most ${limits.toolCount} tools.`);
  }
  if (agent.instructions.length > limits.instructionsChars) {
    throw new PlatformError("payload_too_large", `Instructions have at most ${limits.instructionsChars} characters.`);
  }
}
