export type { Cancellation, CancelSignal, CancelSource, Clock } from "./ports/clock.ts";
export type { Digest, Randomness } from "./ports/randomness.ts";
export type { Log } from "./ports/telemetry.ts";
export type {
  Admission,
  AdmissionRecord,
  AdmitCommand,
  CancelCommand,
  CancelOutcome,
  IdempotencyKey,
} from "./ports/admission-record.ts";
export type {
  Claim,
  ClaimRequest,
  Finalization,
  Ownership,
  OwnershipRecord,
  ProcessRecord,
  Seal,
  VisibleItem,
} from "./ports/ownership-record.ts";
export type {
  GateRecord,
  ModelIntent,
  ModelSettlement,
  Proposal,
  SlotView,
  ToolDenial,
  ToolGrant,
  ToolIntent,
  ToolSettlement,
  TranscriptRow,
} from "./ports/gate-record.ts";
export type { PinnedTool, ToolStore } from "./ports/tool-store.ts";
export type { LiveChannel } from "./ports/live.ts";
export type {
  Seat,
  SessionRequest,
  StepOutput,
  StepRequest,
  StepResult,
  WorkerEvent,
  WorkerPool,
} from "./ports/worker.ts";
