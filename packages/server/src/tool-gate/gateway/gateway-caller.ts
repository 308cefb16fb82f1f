/** Who a client of the gateway is, and what keeps two of them apart. */
import type { Actor } from "@signalbox/contract";

export interface GatewayCaller {
  readonly tenantId: string;
  readonly actor: Actor;
}

/** Two callers with the same text are the same principal: nothing stateful is ever shared beyond it. */
export function principalOf({ tenantId, actor }: GatewayCaller): string {
  return JSON.stringify([tenantId, actor.user, actor.keyId]);
}
