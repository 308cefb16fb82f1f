/** Calls that somebody is asked about, and the ledger of what calls came to. */
import {
  decidedHoldSchema,
  approvalPageSchema,
  approvalSchema,
  decidedApprovalSchema,
  toolCallSchema,
  type Approval,
  type DecideApproval,
  type DecidedApproval,
  type LedgerCall,
  type ReconcileToolCall,
  type ClientResult,
  type DecidedHold,
} from "@signalbox/contract";
import { queryOf, type Page } from "./list.ts";
import type { HoldFilter } from "./operators.ts";
import type { Transport } from "./transport.ts";

/** Calls that wait for a person. Every method that names one can end in `not_found`. */
export class Approvals {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists approvals, by default of every state. */
  list(filter: HoldFilter = {}): Promise<Page<Approval>> {
    return this.#transport.json({ method: "GET", path: `/v1/approvals${queryOf(filter)}` }, (body) =>
      approvalPageSchema.parse(body),
    );
  }

  /** One approval, with the complete arguments. */
  get(id: string): Promise<Approval> {
    return this.#transport.json({ method: "GET", path: `/v1/approvals/${encodeURIComponent(id)}` }, (body) =>
      approvalSchema.parse(body),
    );
  }

  /**
   * Decides about a call, by the digest that was shown. The first decision stands and is the answer to every later one.
   * Errors: `approval_changed`, `hold_closed`, `tool_arguments_invalid`, `permission_denied`.
   */
  decide(id: string, decision: DecideApproval): Promise<DecidedApproval> {
    const path = `/v1/approvals/${encodeURIComponent(id)}/decision`;
    return this.#transport.json({ method: "POST", path, body: decision, idempotencyKey: crypto.randomUUID() }, (body) =>
      decidedApprovalSchema.parse(body),
    );
  }
}

/** Calls of tools as the ledger has them. Every method can end in `not_found`. */
export class ToolCalls {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** What was proposed, judged, approved and carried out, and what it came to. */
  get(id: string): Promise<LedgerCall> {
    return this.#transport.json({ method: "GET", path: `/v1/tool-calls/${encodeURIComponent(id)}` }, (body) =>
      toolCallSchema.parse(body),
    );
  }

  /**
   * What came of a call that a client has carried out; the first answer stands. Errors: `hold_closed` (nobody waits any
   * more).
   */
  result(id: string, result: Pick<ClientResult, "content"> & Partial<ClientResult>): Promise<DecidedHold> {
    const path = `/v1/tool-calls/${encodeURIComponent(id)}/result`;
    return this.#transport.json({ method: "POST", path, body: result, idempotencyKey: crypto.randomUUID() }, (body) =>
      decidedHoldSchema.parse(body),
    );
  }

  /** Settles an outcome that nobody knows. The key must have the right `operate`. Errors: `command_refused`. */
  reconcile(id: string, found: ReconcileToolCall): Promise<LedgerCall> {
    const path = `/v1/tool-calls/${encodeURIComponent(id)}/reconcile`;
    return this.#transport.json({ method: "POST", path, body: found, idempotencyKey: crypto.randomUUID() }, (body) =>
      toolCallSchema.parse(body),
    );
  }
}
