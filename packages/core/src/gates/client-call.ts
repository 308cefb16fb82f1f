/** What clients of the gateway may call, where a tenant has no policy of its own. Pure. */
import { allow, deny, type Verdict } from "./verdict.ts";

export interface ClientCallFacts {
  /** What the operator lets clients have of the tool's server. */
  readonly clients: "none" | "classified" | "all";
  /** Whether the operator gave the tool an effect class. */
  readonly classified: boolean;
}

export function judgeClientCall({ clients, classified }: ClientCallFacts): Verdict<true> {
  if (clients === "all" || (clients === "classified" && classified)) return allow(true);
  return clients === "none"
    ? deny("tool_not_allowed", "This server's tools are not offered to clients.")
    : deny(
        "tool_not_allowed",
        "Nobody has said yet what this tool does, so it counts as irreversible and is not offered.",
      );
}
