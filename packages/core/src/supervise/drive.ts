/** Drives one owned run from its claim to its end: the turn, then its finalization, or back to the record. */
import { asPlatformError } from "@signalbox/contract";
import { finalize } from "../finalize/finalize.ts";
import type { Limits } from "../kernel/limits.ts";
import type { Held, Ownership, SteeredMessage } from "../ports/ownership-record.ts";
import { createSteeringLine } from "../turn/steering.ts";
import { performTurn, type TurnEnd } from "../turn/turn.ts";
import type { TurnPorts } from "../turn/turn-context.ts";
import { persistentOwnership } from "./persistence.ts";

/** `lapsed`: this process may not write any more. `drain`: it will not go on, and gives the run back. */
export type HaltReason = "lapsed" | "drain";

export type DriveEnd =
  | { readonly kind: "finished"; readonly nextIsReady: boolean }
  | { readonly kind: "released" }
  /** The run waits for a hold and needs nobody. */
  | { readonly kind: "suspended" }
  /** The record may still say that this process owns the run, or it says that somebody else does. */
  | { readonly kind: "lost" };

export interface Drive extends Held {
  cancel(): void;
  /** Messages the engine may be handed while it runs. */
  offer(messages: readonly SteeredMessage[]): void;
  halt(reason: HaltReason): void;
  /** Never rejects. */
  readonly ended: Promise<DriveEnd>;
}

export interface DriveOptions {
  readonly ports: TurnPorts;
  readonly limits: Limits;
  readonly onSeated: () => void;
}

export function startDrive(claimed: Ownership, options: DriveOptions): Drive {
  const { ports, limits } = options;
  const cancel = ports.cancellation.source();
  const halt = ports.cancellation.source();
  const state: { generation: number; haltReason: HaltReason | null } = {
    generation: claimed.claim.generation,
    haltReason: null,
  };
  const ownership = persistentOwnership(claimed, {
    ...ports,
    limits,
    halt: halt.signal,
    onGeneration: (generation) => {
      state.generation = generation;
    },
  });
  const steering = createSteeringLine();
  const { onSeated } = options;
  const turn = (): Promise<TurnEnd> =>
    performTurn(ownership, { ports, limits, cancel: cancel.signal, halt: halt.signal, steering, onSeated });
  const run = async (): Promise<DriveEnd> => {
    const { sealed } = ownership.claim;
    const end: TurnEnd = sealed === null ? await turn() : { kind: "concluded", ownership, conclusion: sealed };
    if (state.haltReason === "lapsed") {
      return { kind: "lost" };
    }
    if (end.kind === "suspended") {
      return { kind: "suspended" };
    }
    if (end.kind !== "concluded") {
      await end.ownership.release();
      return { kind: "released" };
    }
    const { nextRunId } = await finalize(end.ownership, end.conclusion, { ...ports, limits });
    return { kind: "finished", nextIsReady: nextRunId !== null };
  };
  return {
    conversationId: claimed.claim.conversationId,
    get generation() {
      return state.generation;
    },
    cancel: () => cancel.abort(),
    offer: (messages) => steering.offer(messages),
    halt(reason) {
      state.haltReason = reason;
      halt.abort(reason);
    },
    ended: run().catch((thrown: unknown) => lost(thrown, claimed, ports)),
  };
}

function lost(thrown: unknown, { claim }: Ownership, { log }: TurnPorts): DriveEnd {
  const facts = { runId: claim.runId, generation: claim.generation };
  if (asPlatformError(thrown).code === "stale_generation") {
    log.warn("this generation is over; nothing more is written for the run", facts);
  } else {
    log.error("the run could not be driven to its end", thrown, facts);
  }
  return { kind: "lost" };
}
