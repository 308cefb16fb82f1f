/** What the API does with policies. Wiring joins it to the store and to what judges. */
import type {
  Actor,
  BackTest,
  BackTestQuery,
  ExplainedCall,
  KeptPolicy,
  PageQuery,
  PolicyId,
  SimulatedCall,
} from "@signalbox/contract";
import type { Once, Page, Recorded, Scope } from "./api-record.ts";

/**
 * A policy is named by its id, or as `default` (the one the platform ships with) or `current` (the one in place). Every
 * method ends in `not_found` for one that is not there.
 */
export interface PolicyDesk {
  /** Errors: `policy_invalid`, `idempotency_key_reused`. */
  create(
    scope: Scope,
    policy: { readonly id: PolicyId; readonly document: unknown; readonly actor: Actor },
    once: Once<KeptPolicy> | null,
  ): Promise<Recorded<KeptPolicy>>;
  policy(scope: Scope, name: string): Promise<KeptPolicy>;
  policies(scope: Scope, page: PageQuery): Promise<Page<KeptPolicy>>;
  /** Puts it in place. Errors: `policy_changed`, `idempotency_key_reused`. */
  activate(
    scope: Scope,
    command: { readonly name: string; readonly replaces: string | undefined; readonly actor: Actor },
    once: Once<KeptPolicy> | null,
  ): Promise<Recorded<KeptPolicy>>;
  explain(scope: Scope, name: string, toolCallId: string): Promise<ExplainedCall>;
  simulate(scope: Scope, name: string, call: SimulatedCall): Promise<ExplainedCall>;
  backTest(scope: Scope, name: string, query: BackTestQuery): Promise<BackTest>;
  /** Keeps an answer under its key. Errors: `idempotency_key_reused`. */
  keep<T>(scope: Scope, once: Once<T>, value: T): Promise<Recorded<T>>;
}
