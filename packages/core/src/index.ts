export { createOperators, type OperatorFlow, type OperatorPorts } from "./admission/operators.ts";
export { createAdmission, createCancel, type AdmissionFlow, type AdmissionPorts } from "./admission/admission.ts";
export type { AgentRevision, CancelIntent, MessageIntent } from "./admission/intent.ts";
export { freezeSnapshot, type FrozenSnapshot } from "./admission/snapshot.ts";
export { auditBytes, type AuditEntry } from "./audit/entry.ts";
export { createItemFold, type FoldedItem, type ItemFold } from "./events/fold.ts";
export { createPendingRows, type PartDelta, type PendingRows } from "./events/pending-rows.ts";
export { createRevisionStamps, generationOf, type RevisionStamps } from "./events/revision.ts";
export { judgeClientCall, type ClientCallFacts } from "./gates/client-call.ts";
export { clientSnapshotTools, isClientTool, refusedAnswer, wordAbout } from "./gates/client-tools.ts";
export { blocksRepetition, isRepeatable } from "./gates/effect.ts";
export { judgeModelCall, judgeToolCall, wireToolName } from "./gates/judgement.ts";
export {
  assembleFacts,
  callToJudge,
  NO_WORD,
  textOfResult,
  type KeptFacts,
  type KeptText,
  type RunInQuestion,
  type ToolWord,
  type ToolWords,
} from "./gates/policy/assemble.ts";
export { assembleClientFacts, historyWindowMs } from "./gates/policy/client-facts.ts";
export { compilePolicy } from "./gates/policy/compile.ts";
export { DEFAULT_POLICY } from "./gates/policy/default-policy.ts";
export {
  undecided,
  type ArgumentOrigin,
  type PolicyNeeds,
  type ToolDecision,
  type ToolPolicy,
} from "./gates/policy/decision.ts";
export { explainDecision, type DecisionExplanation } from "./gates/policy/explain.ts";
export type {
  CallToJudge,
  JsonObject,
  JudgedTool,
  PastCall as PastToolCall,
  Principal,
  RunFacts,
  Source,
} from "./gates/policy/facts.ts";
export { judgeBatch } from "./gates/policy/judge-batch.ts";
export { redact } from "./gates/policy/obligation.ts";
export { isWithinReach } from "./gates/policy/reach.ts";
export {
  CALL_EVENTS,
  CALL_TRANSITIONS,
  isPendingCall,
  nextCallState,
  proposedAgain,
  type CallEvent,
} from "./gates/ledger.ts";
export {
  callDigestText,
  POLICY_UNAVAILABLE,
  readVerdicts,
  callVerdict,
  type BatchCall,
  type CallVerdict,
} from "./gates/call-verdict.ts";
export { refusedVerb } from "./gates/hold.ts";
export type { Verdict } from "./gates/verdict.ts";
export { assert } from "./kernel/assert.ts";
export { backoffMs, type BackoffOptions } from "./kernel/backoff.ts";
export { createBoundedQueue, type BoundedQueue } from "./kernel/bounded-queue.ts";
export { LIMITS, type Limits } from "./kernel/limits.ts";
export { DAY_MS } from "./kernel/units.ts";
export { rfc3339 } from "./kernel/timestamp.ts";
export type {
  Admission,
  AdmissionRecord,
  AdmitCommand,
  CancelCommand,
  CancelOutcome,
  IdempotencyKey,
} from "./ports/admission-record.ts";
export type { Cancellation, CancelSignal, CancelSource, Clock } from "./ports/clock.ts";
export type {
  BegunIntent,
  AppendManner,
  CallOutcome,
  Compaction,
  GateRecord,
  HoldRecord,
  HoldRequest,
  KeptCall,
  ModelIntent,
  ModelSettlement,
  Proposal,
  RecordedVerdict,
  SlotView,
  ToBeJudged,
  ToolDenial,
  ToolGrant,
  ToolIntent,
  ToolSettlement,
  TranscriptRow,
  VerdictRecord,
} from "./ports/gate-record.ts";
export type {
  AttemptResult,
  DeliveryRecord,
  DeliverySender,
  DueDelivery,
  DueQuery,
  SettledAttempt,
} from "./ports/delivery-record.ts";
export type {
  AskedGatewayCall,
  ClientHistory,
  GatewayDenial,
  GatewayIntent,
  GatewayQuestion,
  GatewayRecord,
  GatewaySettlement,
} from "./ports/gateway-record.ts";
export type { Handover, Reservation } from "./ports/handover.ts";
export type { LiveChannel, LiveHearing, LiveSignal, LiveSubscription } from "./ports/live.ts";
export type {
  Claim,
  ClaimRequest,
  ClosedItem,
  Conclusion,
  Finalization,
  Held,
  Inheritance,
  MissedTurn,
  PastCall,
  PastMessage,
  Ownership,
  OwnershipRecord,
  ProcessRecord,
  Seal,
  SteeredMessage,
  SteeringOffer,
  Suspension,
  VisibleItem,
} from "./ports/ownership-record.ts";
export type {
  Authorised,
  DecideCommand,
  HoldChange,
  OperatorRecord,
  RunCommand,
  StopCommand,
  ReconcileCommand,
} from "./ports/operator-record.ts";
export type { FactsRequest, PolicyInPlace, PolicyRecord } from "./ports/policy-record.ts";
export type { Digest, Randomness } from "./ports/randomness.ts";
export type { Log } from "./ports/telemetry.ts";
export type { ToolBatch, ToolJudge } from "./ports/tool-judge.ts";
export { diffDefinitions, type DefinitionChange } from "./gates/definition-diff.ts";
export { lintDefinition, type DefinitionLint, type LintGrade } from "./gates/definition-lint.ts";
export {
  judgeListing,
  type ListedForm,
  type ListingTrust,
  type PinChange,
  type PinEvent,
  type PinnedForm,
} from "./gates/tool-pin.ts";
export type {
  ListedDefinition,
  PinHistoryEntry,
  PinnedTool,
  SeenForm,
  ServerListing,
  ServerPlace,
  ToolClassification,
  ToolRecord,
  ToolSettings,
  ToolStore,
} from "./ports/tool-store.ts";
export type { Batch, UpkeepRecord } from "./ports/upkeep-record.ts";
export type {
  Recovery,
  Seat,
  SessionRequest,
  StepOutput,
  StepRequest,
  StepResult,
  WorkerEvent,
  WorkerPool,
} from "./ports/worker.ts";
export { explainRun, type ExplainedFacts } from "./run/explain.ts";
export { isCurrent, nextGeneration, FIRST_GENERATION } from "./run/generation.ts";
export { nextInLine, runsAhead, type QueuedRun } from "./run/hand-over.ts";
export { isLeaseHeld, leaseEndsAtMs, type Lease } from "./run/lease.ts";
export {
  ACTIVE_STATES,
  isActive,
  isOwned,
  nextState,
  OWNED_STATES,
  RUN_EVENTS,
  RUN_TRANSITIONS,
  transition,
  type RunEvent,
} from "./run/transition.ts";
export { startLoop, type Loop, type LoopOptions, type LoopPorts } from "./supervise/loop.ts";
export { Presence, type PresenceOptions } from "./supervise/presence.ts";
export type { Supervisor, SupervisorOptions, SupervisorPorts } from "./supervise/supervision.ts";
export { createSupervisor } from "./supervise/supervisor.ts";
export { createUpkeep, type Upkeep } from "./supervise/upkeep.ts";
export { createDeliveries, type Deliveries, type DeliveryPorts } from "./webhooks/deliveries.ts";
