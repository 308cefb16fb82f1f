/** What clients of the gateway may call. Pure. Nobody waits for a client's call yet, so what a person must see is refused. */
import type { EffectClass } from "@signalbox/contract";
import { allow, deny, type Verdict } from "./verdict.ts";

export interface ClientCallFacts {
  /** What the operator lets clients have of the tool's server. */
  readonly clients: "none" | "classified" | "all";
  /** Whether the operator gave the tool an effect class. */
  readonly classified: boolean;
  readonly effect: EffectClass;
  /** Whether the operator wants a person asked before a call. */
  readonly approve: "policy" | "always" | "never";
}

export function judgeClientCall({ clients, classified, effect, approve }: ClientCallFacts): Verdict<true> {
  if (clients === "none") return deny("tool_not_allowed", "This server's tools are not offered to clients.");
  if (approve === "always") {
    return deny(
      "tool_not_allowed",
      "A person approves each call of this tool, and a client's call cannot wait for one.",
    );
  }
  if (clients === "all") return allow(true);
  if (!classified) {
    const reason = "Nobody has said yet what this tool does, so it counts as irreversible and is not offered.";
    return deny("tool_not_allowed", reason);
  }
  if (effect !== "irreversible" || approve === "never") return allow(true);
  return deny(
    "tool_not_allowed",
    "What this call does cannot be taken back, and a client's call cannot wait for a person.",
  );
}
