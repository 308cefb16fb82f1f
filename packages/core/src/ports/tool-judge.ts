/** Who judges the tool calls of a model message: the policy, with what it needs to know of the run. */
import type { BatchCall, CallVerdict } from "../gates/call-verdict.ts";
import type { CancelSignal } from "./clock.ts";
import type { SlotView } from "./gate-record.ts";

/** The calls of one message, in message order, and the run that makes them. */
export interface ToolBatch {
  readonly view: SlotView;
  readonly calls: readonly BatchCall[];
}

export interface ToolJudge {
  /** Names what is judged by at the moment; another one means that everything not carried out is judged again. */
  version(): string;
  /** A verdict for each call, in their order. One that fails, or takes longer than its time, has denied them all. */
  judge(batch: ToolBatch, signal: CancelSignal): Promise<readonly CallVerdict[]>;
}
