/**
 * Calls whose results a turn lacks when it is gone on with. What the ledger knows is given as it is. What was proposed and
 * not made yet, perhaps because somebody was asked about it, is made now, and a look that was lost with its gate is taken
 * again: under its own id and through the gate, whose ledger decides whether it may. Anything that could have acted is
 * told as unknown and never made a second time.
 */
import type { EffectClass, Snapshot, ToolCallState } from "@signalbox/contract";
import { outcomeOfLostCall } from "./call-outcome.ts";
import type { CallOutcome, TranscriptLog } from "./executor.ts";
import type { JsonObject } from "./gate-clients/model-message.ts";
import type { ToolCall, ToolOutcome } from "./gate-clients/tool-client.ts";

/** A call as the model made it. */
export interface LostCall {
  readonly toolUseId: string;
  /** As the snapshot names the tool, without anything an engine puts before it. */
  readonly name: string;
  readonly input: JsonObject;
}

/** Where what became of calls is asked: the ledger, and the tool gate for what may be made now. */
export interface LostCallPorts {
  readonly snapshot: Pick<Snapshot, "tools">;
  readonly ledger: Pick<TranscriptLog, "outcomes">;
  readonly tools: { call(call: ToolCall): Promise<ToolOutcome> };
  readonly signal: AbortSignal;
}

/** Calls that are made again at the same time. */
const AT_ONCE_MAX = 16;
const PENDING: ReadonlySet<string> = new Set<ToolCallState>(["proposed", "awaiting_approval", "authorized"]);
const LOOKS: ReadonlySet<EffectClass | undefined> = new Set<EffectClass>(["read", "egress_read"]);

/** What became of a lost call, as its model is to read it. */
export interface FoundCall extends LostCall {
  readonly outcome: ToolOutcome;
}

/**
 * A result for each call, in their order. Rejects when the run may not go on (`stale_generation`, `run_cancelled` …) or a
 * gate cannot be reached.
 */
export async function resultsOfLostCalls(
  calls: readonly LostCall[],
  ports: LostCallPorts,
): Promise<readonly FoundCall[]> {
  if (calls.length === 0) {
    return [];
  }
  const known = await ports.ledger.outcomes(calls.map(({ toolUseId }) => toolUseId));
  const results: FoundCall[] = [];
  for (let from = 0; from < calls.length; from += AT_ONCE_MAX) {
    const some = calls.slice(from, from + AT_ONCE_MAX).map(async (call) => {
      const recorded = known.find(({ toolUseId }) => toolUseId === call.toolUseId);
      return { ...call, outcome: await resultOf(call, recorded, ports) };
    });
    results.push(...(await Promise.all(some)));
  }
  return results;
}

async function resultOf(
  call: LostCall,
  recorded: CallOutcome | undefined,
  { snapshot, tools, signal }: LostCallPorts,
): Promise<ToolOutcome> {
  const effect = snapshot.tools.find(({ name }) => name === call.name)?.effect;
  const isPending = recorded !== undefined && PENDING.has(recorded.state);
  return isPending || (recorded?.state === "unknown" && LOOKS.has(effect))
    ? await tools.call({ ...call, signal })
    : outcomeOfLostCall(recorded);
}
