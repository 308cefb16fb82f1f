/** A recorded call of a client of the gateway, as it was judged: who made it, and what it had called before. */
import type { Posture } from "@signalbox/contract";
import {
  assembleClientFacts,
  callToJudge,
  type CallToJudge,
  type JsonObject,
  type RunFacts,
  type ToolWord,
} from "@signalbox/core";
import type { ClientCall } from "../store/statements/policy-statements.ts";

interface Known {
  readonly word: ToolWord;
  readonly inputSchema: JsonObject;
}

export function clientCallFacts(
  row: ClientCall,
  of: { readonly known: Known; readonly tenantId: string; readonly posture: Posture },
): { readonly call: CallToJudge; readonly facts: RunFacts } {
  const { known, tenantId, posture } = of;
  const { actor, toolCallId, definitionHash, proposedAtMs: nowMs } = row;
  const tool = { ...row, definitionHash: definitionHash ?? "", inputSchema: known.inputSchema };
  const history = row.history.map((each) => ({ ...each, name: `${each.server}__${each.tool}` }));
  // Gates record objects only.
  const given = { toolCallId, arguments: JSON.parse(row.argumentsJson) as JsonObject };
  return {
    call: callToJudge(tool, given, known.word),
    facts: assembleClientFacts({ tenantId, actor, posture, history, nowMs }),
  };
}
