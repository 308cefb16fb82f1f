/**
 * Decisions of people about runs that exist. The record decides and refuses; here is only what follows at once: what a
 * stop ends, what a lifted pause lets go on, and who hears of it. Whatever is left when this process dies is found by
 * the next sweep of any other.
 */
import { PlatformError, type HoldKind } from "@signalbox/contract";
import { refusedVerb } from "../gates/hold.ts";
import { LIMITS, type Limits } from "../kernel/limits.ts";
import type { LiveChannel } from "../ports/live.ts";
import type {
  Authorised,
  DecideCommand,
  HoldChange,
  OperatorRecord,
  ReconcileCommand,
  RunCommand,
  StopCommand,
} from "../ports/operator-record.ts";

export interface OperatorPorts {
  readonly record: OperatorRecord;
  readonly live: Pick<LiveChannel, "ringSupervisors">;
}

export interface OperatorFlow {
  /** Errors: `command_refused` (not a verb of this kind), and those of the record. */
  decide(command: DecideCommand & { readonly kind: HoldKind }): Promise<HoldChange>;
  /** Resolves when nothing that the stop covers is left without its mark. */
  stop(command: StopCommand): ReturnType<OperatorRecord["createStop"]>;
  lift(command: Parameters<OperatorRecord["liftStop"]>[0]): Promise<void>;
  fail(command: RunCommand & { readonly force: boolean }): Promise<void>;
  release(command: RunCommand): Promise<void>;
  reconcile(command: ReconcileCommand): Promise<void>;
  /** Carries out what stands now, whoever decided it; what is left is found by the next sweep. */
  carryOut(): Promise<void>;
}

export function createOperators({ record, live }: OperatorPorts, limits: Limits = LIMITS): OperatorFlow {
  const carryOut = async (): Promise<void> => {
    for (let lookCount = 0; lookCount < limits.carryOutLooks; lookCount += 1) {
      if ((await record.carryOut(limits.carryOutCount)) < limits.carryOutCount) break;
    }
    live.ringSupervisors();
  };
  return {
    carryOut,
    async decide({ kind, ...command }) {
      const refusal = refusedVerb(kind, command.decision);
      if (refusal !== null) throw new PlatformError("command_refused", refusal);
      const change = await record.decide(command);
      if (change.ready) live.ringSupervisors();
      return change;
    },
    async stop(command) {
      demandReach(command);
      const stop = await record.createStop(command);
      if (command.kind === "stop") await carryOut();
      return stop;
    },
    async lift(command) {
      await record.liftStop(command);
      await carryOut();
    },
    async fail(command) {
      await record.fail(command);
      live.ringSupervisors();
    },
    reconcile: (command) => record.reconcile(command),
    async release(command) {
      await record.release(command);
      live.ringSupervisors();
    },
  };
}

/** Whoever speaks for an end user reaches that user's conversations and nothing wider. */
function demandReach({ actor, scope }: Authorised & Pick<StopCommand, "scope">): void {
  if (actor.user !== null && (scope === "agent" || scope === "tenant")) {
    throw new PlatformError("permission_denied", "A key that speaks for an end user stops no agent and no tenant.");
  }
}
