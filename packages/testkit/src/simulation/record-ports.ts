/** The memory record as one process reaches it: every method is a call over the network. */
import type {
  AdmissionRecord,
  GateRecord,
  HoldRecord,
  OperatorRecord,
  Ownership,
  OwnershipRecord,
  ProcessRecord,
} from "@signalbox/core";
import { memoryAdmissionRecord } from "../memory/admission-record.ts";
import type { MemoryDatabase } from "../memory/database.ts";
import { memoryGateRecord } from "../memory/gate-record.ts";
import { memoryOwnershipRecord } from "../memory/ownership-record.ts";
import { memoryProcessRecord } from "../memory/process-record.ts";
import { memoryHoldRecord } from "../memory/suspension.ts";
import { collect } from "./collect.ts";
import type { Network } from "./network.ts";
import type { Life } from "./scheduler.ts";

export interface RecordPorts {
  readonly admission: AdmissionRecord;
  readonly ownership: OwnershipRecord;
  readonly processes: ProcessRecord;
  readonly gates: GateRecord;
  readonly holds: HoldRecord & Pick<OperatorRecord, "decide">;
}

export interface RecordPortsOptions {
  readonly db: MemoryDatabase;
  readonly network: Network;
  readonly life: Life;
  /** Called where the record registers it, also when the reply is lost. */
  readonly onRegistered: (incarnation: number) => void;
}

export function recordPorts({ db, network, life, onRegistered }: RecordPortsOptions): RecordPorts {
  const call = <T>(name: string, work: () => Promise<T>): Promise<T> => network.record(life, name, work);
  const admission = memoryAdmissionRecord(db);
  const ownership = memoryOwnershipRecord(db);
  const processes = memoryProcessRecord(db);
  const holds = memoryHoldRecord(db);
  const far = (near: Ownership): Ownership => farOwnership(near, call);
  return {
    admission: {
      admit: (command) => call("admit", () => admission.admit(command)),
      requestCancel: (command) => call("request_cancel", () => admission.requestCancel(command)),
    },
    ownership: {
      claim: async (request) => (await call("claim", () => ownership.claim(request))).map(far),
      adopt: (claim) => far(ownership.adopt(claim)),
      cancelled: (process) => call("cancelled", () => ownership.cancelled(process)),
      steered: (process) => call("steered", () => ownership.steered(process)),
      reclaim: async (process, driving) => (await call("reclaim", () => ownership.reclaim(process, driving))).map(far),
    },
    processes: {
      register: (roles) =>
        call("register", async () => {
          const registered = await processes.register(roles);
          onRegistered(registered.process);
          return registered;
        }),
      heartbeat: (process) => call("heartbeat", () => processes.heartbeat(process)),
      sweep: (process) => call("sweep", () => processes.sweep(process)),
      unregister: (process) => call("unregister", () => processes.unregister(process)),
    },
    gates: farGates(memoryGateRecord(db), call),
    holds: {
      openHold: (request) => call("open_hold", () => holds.openHold(request)),
      isHoldOver: (kept) => call("hold_over", () => holds.isHoldOver(kept)),
      suspend: (held) => call("suspend", () => holds.suspend(held)),
      decide: (command) => call("decide_hold", () => holds.decide(command)),
    },
  };
}

type Call = <T>(name: string, work: () => Promise<T>) => Promise<T>;

function farOwnership(near: Ownership, call: Call): Ownership {
  return {
    claim: near.claim,
    bindSlot: (slot) => call("bind_slot", () => near.bindSlot(slot)),
    append: (events, turnId) => call("append", () => near.append(events, turnId)),
    changeWorker: async (options) => farOwnership(await call("change_worker", () => near.changeWorker(options)), call),
    takeOver: (options) => call("take_over", () => near.takeOver(options)),
    dropTail: () => call("drop_tail", () => near.dropTail()),
    seal: (conclusion) => call("seal", () => near.seal(conclusion)),
    finish: (finalization) => call("finish", () => near.finish(finalization)),
    suspend: () => call("suspend", () => near.suspend()),
    takeIn: (messageId) => call("take_in", () => near.takeIn(messageId)),
    release: () => call("release", () => near.release()),
    history: (limit) => call("history", () => near.history(limit)),
  };
}

function farGates(near: GateRecord, call: Call): GateRecord {
  return {
    slot: (tokenHash) => call("slot", () => near.slot(tokenHash)),
    openModelCall: (intent) => call("open_model_call", () => near.openModelCall(intent)),
    settleModelCall: (settlement) => call("settle_model_call", () => near.settleModelCall(settlement)),
    openToolCall: (intent) => call("open_tool_call", () => near.openToolCall(intent)),
    recordVerdicts: (record) => call("record_verdicts", () => near.recordVerdicts(record)),
    denyToolCall: (denial) => call("deny_tool_call", () => near.denyToolCall(denial)),
    settleToolCall: (settlement) => call("settle_tool_call", () => near.settleToolCall(settlement)),
    begunToolCalls: (intent) => call("begun_tool_calls", () => near.begunToolCalls(intent)),
    cancelledRuns: (runIds, forMs) => call("cancelled_runs", () => near.cancelledRuns(runIds, forMs)),
    appendTranscript: (tokenHash, rows, manner) =>
      call("append_transcript", () => near.appendTranscript(tokenHash, rows, manner)),
    callOutcomes: (tokenHash, toolUseIds) => call("call_outcomes", () => near.callOutcomes(tokenHash, toolUseIds)),
    async *loadTranscript(tokenHash) {
      yield* await call("load_transcript", () => collect(near.loadTranscript(tokenHash)));
    },
  };
}
