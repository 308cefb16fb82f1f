/** A call and a run that need not exist, as somebody describes them. */
import type { Posture, SimulatedCall } from "@signalbox/contract";
import { NO_WORD, type CallToJudge, type PastToolCall, type RunFacts, type Source } from "@signalbox/core";
import type { KnownTool } from "./policies.ts";

const NOW_MS = 4_102_444_800_000;

export function simulatedFacts(
  given: SimulatedCall,
  of: { readonly known: KnownTool | null; readonly tenantId: string; readonly posture: Posture },
): { readonly call: CallToJudge; readonly facts: RunFacts } {
  const { known, tenantId, posture } = of;
  const [server, tool] = partsOf(given.tool);
  const word = known?.word ?? NO_WORD;
  const { user, roles, units, userClearance, agent, runtime, texts, history } = given;
  return {
    call: {
      toolCallId: "simulated",
      tool: {
        name: given.tool,
        server,
        tool,
        effect: given.effect ?? word.effect,
        definitionHash: known?.definitionHash ?? "",
        inputSchema: known?.inputSchema ?? {},
        unit: given.unit ?? word.unit,
        clearance: Math.max(given.clearance, word.clearance),
      },
      approve: given.approve ?? word.approve,
      // Whoever names a class here has classified it.
      isClassified: given.classified ?? (given.effect !== undefined || word.isClassified),
      arguments: given.arguments,
    },
    facts: {
      principal: { tenantId, user, roles, units, clearance: userClearance },
      agent,
      runtime,
      posture: given.posture ?? posture,
      sources: texts.map(sourceOf),
      areSourcesCut: false,
      history: history.map(pastOf),
      nowMs: NOW_MS,
    },
  };
}

function sourceOf(text: SimulatedCall["texts"][number]): Source {
  const { kind, tool, trusted, clearance } = text;
  const isTold = kind === "user" || kind === "system";
  return {
    kind,
    tool,
    isTrusted: isTold || trusted,
    isPrivate: !isTold && text.private,
    clearance,
    text: text.text,
  };
}

function pastOf({
  tool: name,
  effect,
  state,
  arguments: given,
  agoMs,
}: SimulatedCall["history"][number]): PastToolCall {
  const [server, tool] = partsOf(name);
  return { name, server, tool, effect, state, arguments: given, atMs: NOW_MS - agoMs };
}

function partsOf(name: string): readonly [string, string] {
  const at = name.indexOf("__");
  return at < 0 ? ["", name] : [name.slice(0, at), name.slice(at + 2)];
}
