/** What clients of the gateway are offered. Pure. Whether a call is made, the policy says. */
import { allow, deny, type Verdict } from "./verdict.ts";

export interface ClientCallFacts {
  /** What the operator lets clients have of the tool's server. */
  readonly clients: "none" | "classified" | "all";
  /** Whether the operator gave the tool an effect class. */
  readonly classified: boolean;
}

export function judgeClientCall({ clients, classified }: ClientCallFacts): Verdict<true> {
  if (clients === "none") return deny("tool_not_allowed", "This server's tools are not offered to clients.");
  if (clients === "all" || classified) return allow(true);
  const reason = "Nobody has said yet what this tool does, so it counts as irreversible and is not offered.";
  return deny("tool_not_allowed", reason);
}
