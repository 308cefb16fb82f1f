/** How a connection of ours begins. Role and bounds are the session's; a tenant never is. */
import type { Role } from "../roles.ts";

export interface SessionBounds {
  readonly statementMs: number;
  /** A transaction whose client fell silent holds locks; it is ended after this time. */
  readonly idleInTransactionMs: number;
}

export function beginSession(role: Role, bounds: SessionBounds): string {
  return [
    `set role ${role}`,
    `set statement_timeout = ${bounds.statementMs}`,
    `set idle_in_transaction_session_timeout = ${bounds.idleInTransactionMs}`,
    "set timezone = 'UTC'",
    // Our statements are short; compiling them takes longer than running them.
    "set jit = off",
    // Every statement has its index. A plan that was kept from when a table was empty would read all of it.
    "set enable_seqscan = off",
  ].join("; ");
}
