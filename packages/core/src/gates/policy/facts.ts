/** What a call of a tool is judged by: the call, and what is known of the run it belongs to. */
import type { ApproveMode, EffectClass, Posture, ToolCallState } from "@signalbox/contract";

export type JsonObject = Readonly<Record<string, unknown>>;

/** A tool as it was pinned, with what the operator says of it. */
export interface JudgedTool {
  /** As agents name it, `server__tool`. */
  readonly name: string;
  readonly server: string;
  readonly tool: string;
  readonly effect: EffectClass;
  readonly definitionHash: string;
  readonly inputSchema: JsonObject;
  /** Path of the unit it belongs to, such as `acme/finance`; `null` when it is everybody's. */
  readonly unit: string | null;
  /** How confidential what it reads and writes is; 0 is anybody's. */
  readonly clearance: number;
}

export interface CallToJudge {
  readonly toolCallId: string;
  readonly tool: JudgedTool;
  readonly approve: ApproveMode;
  /** Whether the operator has set the effect class; if not, the call counts as irreversible. */
  readonly isClassified: boolean;
  readonly arguments: JsonObject;
}

/** Whom a run acts for. */
export interface Principal {
  readonly tenantId: string;
  readonly user: string | null;
  readonly roles: readonly string[];
  /** Paths of the units they stand in, such as `acme/finance`. */
  readonly units: readonly string[];
  readonly clearance: number;
}

/** A text the model could have taken a value from. */
export interface Source {
  readonly kind: "user" | "system" | "tool" | "passage";
  /** Name of the tool whose result it is. */
  readonly tool: string | null;
  /** Whether the operator vouches for what it says; people and instructions are trusted anyway. */
  readonly isTrusted: boolean;
  /** Whether it tells what is not public: everything but what people wrote and what was read from outside. */
  readonly isPrivate: boolean;
  /** How confidential it is. */
  readonly clearance: number;
  readonly text: string;
}

/** An earlier call of the run, whatever became of it. */
export interface PastCall {
  readonly name: string;
  readonly server: string;
  readonly tool: string;
  readonly effect: EffectClass;
  readonly state: ToolCallState;
  readonly arguments: JsonObject;
  readonly atMs: number;
}

export interface RunFacts {
  readonly principal: Principal;
  readonly agent: string;
  readonly runtime: string;
  readonly posture: Posture;
  /** Empty when the policy needs none for these calls. */
  readonly sources: readonly Source[];
  /** Whether there were more texts than were loaded; what is not found then counts as taken from a tool. */
  readonly areSourcesCut: boolean;
  readonly history: readonly PastCall[];
  readonly nowMs: number;
}
