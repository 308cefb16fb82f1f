/** What the API reads for operators and for whoever decides a hold. Wiring joins it to the store. */
import type {
  Explanation,
  Hold,
  HoldId,
  HoldKind,
  HoldState,
  LedgerCall,
  Obligations,
  PageQuery,
  RunId,
  Stop,
  StopKind,
  StopScope,
} from "@signalbox/contract";
import type { Page, Scope } from "./api-record.ts";

export interface HoldsQuery extends PageQuery {
  readonly conversation: string | null;
  readonly run: string | null;
  readonly state: HoldState | null;
  readonly kind?: HoldKind;
}

export interface StopsQuery extends PageQuery {
  readonly standing: boolean;
  /** Only those about one thing. */
  readonly about: { readonly kind: StopKind; readonly scope: StopScope; readonly subject: string } | null;
}

/** What a person said with a run. */
export interface Said {
  readonly conversationId: string;
  readonly text: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Every method that names a thing ends in `not_found` for what the caller may not see. */
export interface OperatorView {
  hold(scope: Scope, id: string): Promise<Hold>;
  holds(scope: Scope, query: HoldsQuery): Promise<Page<Hold>>;
  toolCall(scope: Scope, id: string): Promise<LedgerCall>;
  /** The hold of a call that a client carries out, by the id of the call. */
  clientHold(scope: Scope, toolCallId: string): Promise<HoldId>;
  stop(scope: Scope, id: string): Promise<Stop>;
  stops(scope: Scope, query: StopsQuery): Promise<Page<Stop>>;
  explanation(scope: Scope, runId: string): Promise<Explanation>;
  obligations(
    scope: Scope,
    which: { readonly olderThanMs: number; readonly limit: number },
  ): Promise<Obligations["data"]>;
  /** By kind. */
  obligationCounts(scope: Scope, olderThanMs: number): Promise<ReadonlyMap<string, number>>;
  /** What a person said with a run. Whether it may be answered again is decided by its admission. */
  said(scope: Scope, runId: RunId): Promise<Said>;
}
