/** Policies as the record keeps them, and what it knows of a run whose calls are judged. */
import type { RunId, ToolCallId } from "@signalbox/contract";
import type { KeptFacts } from "../gates/policy/assemble.ts";

/** A document as it was put in place; whoever judges by it compiles it. */
export interface PolicyInPlace {
  /** SHA-256 (hex) of the canonical document. */
  readonly hash: string;
  readonly document: unknown;
}

export interface FactsRequest {
  readonly runId: RunId;
  /** Calls that are judged now, and so are no history. */
  readonly besides: readonly ToolCallId[];
  readonly needs: { readonly sources: boolean; readonly history: boolean };
  /** Only what was there before this call was proposed; `null` for everything there is. */
  readonly asOf: ToolCallId | null;
}

export interface PolicyRecord {
  /** What a tenant's calls are judged by; `null` when nobody has put a policy in place. */
  current(tenantId: string): Promise<PolicyInPlace | null>;
  /** Bounded in size. Errors: `not_found`. */
  facts(request: FactsRequest): Promise<KeptFacts>;
}
