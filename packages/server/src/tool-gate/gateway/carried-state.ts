/**
 * `requestState` of calls that somebody was asked about: it names the call in the ledger, sealed, and opens for the client
 * and the tool it was given for. What a tool server gives is kept inside it once its call was approved, so that the
 * approval covers the rounds that follow, and is passed on as it came otherwise.
 */
import type { GatewayCallId } from "@signalbox/contract";
import type { Randomness } from "@signalbox/core";
import { RPC, type Json } from "../mcp-protocol.ts";
import { McpProblem } from "../mcp-request.ts";
import { Sealing } from "./sealing.ts";

/** A call that waits for a person, or an approved one whose server asked its client for input. */
export interface CarriedState {
  readonly kind: "waiting" | "continued";
  readonly callId: string;
  /** What the tool server gave; `null` where it gave nothing. */
  readonly upstream: string | null;
}

interface Holder {
  readonly principal: string;
  readonly server: string;
  readonly tool: string;
}

const PREFIX = "sbx.";
const CHARS_MAX = 64 * 1024;

export class CarriedStates {
  readonly #sealing: Sealing;

  constructor(secret: string, randomness: Randomness) {
    this.#sealing = new Sealing(secret, randomness);
  }

  seal(callId: GatewayCallId, { kind, upstream }: Omit<CarriedState, "callId">, holder: Holder): string {
    return PREFIX + this.#sealing.seal(JSON.stringify([kind, callId, upstream]), boundTo(holder));
  }

  /** `null` for a call that begins, or whose state is its server's own. Throws `McpProblem` for one that is not ours. */
  read({ requestState }: Json, holder: Holder): CarriedState | null {
    if (typeof requestState !== "string" || !requestState.startsWith(PREFIX)) return null;
    const sealed = requestState.slice(PREFIX.length);
    const text = sealed.length > CHARS_MAX ? null : this.#sealing.open(sealed, boundTo(holder));
    if (text === null) {
      throw new McpProblem("requestState is not one of this call.", { status: 200, rpcCode: RPC.invalidParams });
    }
    // Sealed by `seal` with our key.
    const [kind, callId, upstream] = JSON.parse(text) as [CarriedState["kind"], string, string | null];
    return { kind, callId, upstream };
  }
}

function boundTo({ principal, server, tool }: Holder): readonly string[] {
  return ["carried", principal, server, tool];
}
