/**
 * What operators say of tools in their file, as a policy: each tool's `approve`, and where that leaves it to the policy,
 * a person is asked about what cannot be taken back.
 */
import { canonicalJson } from "@signalbox/contract";
import { callVerdict, type BatchCall, type Digest, type ToolJudge, type CallVerdict } from "@signalbox/core";
import type { ToolServerConfig } from "./tool-server.ts";

export function createOperatorJudge(
  servers: Readonly<Record<string, Pick<ToolServerConfig, "tools">>>,
  digest: Digest,
): ToolJudge {
  const said = Object.fromEntries(Object.entries(servers).map(([name, { tools }]) => [name, tools]));
  const version = `operator-${digest.sha256Hex(canonicalJson(said)).slice(0, 16)}`;
  const judgeCall = ({ server, tool, effect }: BatchCall): CallVerdict => {
    const approve = said[server ?? ""]?.[tool ?? ""]?.approve ?? "policy";
    if (approve === "always") {
      return callVerdict({ verdict: "ask", reason: "This tool is approved call by call.", rules: ["operator.always"] });
    }
    if (approve === "policy" && effect === "irreversible") {
      const reason = "What this call does cannot be taken back.";
      return callVerdict({ verdict: "ask", reason, rules: ["operator.irreversible"] });
    }
    return callVerdict({ verdict: "allow", reason: "", rules: [`operator.${approve}`] });
  };
  return { version: () => version, judge: async ({ calls }) => calls.map(judgeCall) };
}
