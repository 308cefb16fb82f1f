/**
 * Tools as the record keeps them: what is pinned, what was listed last, and what the operator says of each. What runs
 * must still be what was pinned, so a listing that differs from its pin blocks the tool.
 */
import type { EffectClass, PinState } from "@signalbox/contract";
import type { DefinitionLint } from "../gates/definition-lint.ts";
import type { ListingTrust, PinEvent } from "../gates/tool-pin.ts";

export interface PinnedTool {
  readonly server: string;
  /** Name as the server lists it, without a prefix. */
  readonly tool: string;
  readonly title: string;
  /** Name, title, description, input and output schema and annotations, exactly as listed. */
  readonly definition: Readonly<Record<string, unknown>>;
  /** SHA-256 (hex) over the canonical JSON of `definition`. */
  readonly definitionHash: string;
  /** As the operator classified it; `irreversible` when nobody did. Not part of the definition. */
  readonly effect: EffectClass;
}

/** What an operator says of a tool; its server's own hints count for nothing. */
export interface ToolSettings {
  readonly effect: EffectClass;
  /** Whether a person is asked before a call: as the policy says, always, or never because of its class. */
  readonly approve: "policy" | "always" | "never";
  /** Whether what it answers is vouched for, and no text of strangers. */
  readonly isTrusted: boolean;
  /** How long a call may take; `null`: as long as the gate lets every tool. */
  readonly timeoutMs: number | null;
}

export interface ToolClassification extends ToolSettings {
  /** False: nobody has said anything, so it counts as `irreversible`. */
  readonly isClassified: boolean;
}

export interface SeenForm {
  readonly definition: Readonly<Record<string, unknown>>;
  readonly definitionHash: string;
  readonly origin: string;
  readonly originHash: string;
}

export interface ToolRecord extends PinnedTool {
  readonly state: PinState;
  /** The address it is trusted at, in words and as a hash; `null` until a row of an older release is listed again. */
  readonly origin: string | null;
  readonly originHash: string | null;
  /** What was listed last, where that is not what is pinned. */
  readonly seen: SeenForm | null;
  /** False: its server lists it no more. */
  readonly isOffered: boolean;
  /** Of what was listed last. */
  readonly lints: readonly DefinitionLint[];
  readonly approvedAtMs: number | null;
  readonly classification: ToolClassification;
}

/** One tool of a listing. */
export interface ListedDefinition {
  readonly tool: string;
  readonly title: string;
  readonly definition: Readonly<Record<string, unknown>>;
  readonly definitionHash: string;
  readonly lints: readonly DefinitionLint[];
  /** What the operator's file says of it, or `null`. */
  readonly settings: ToolSettings | null;
}

/** Where a server stands. */
export interface ServerPlace {
  readonly tenantId: string;
  readonly server: string;
  readonly transport: "stdio" | "http" | "functions";
  /** In words that are safe to show, and a hash of all of it. */
  readonly origin: string;
  readonly originHash: string;
}

export interface ServerListing extends ServerPlace {
  readonly tools: readonly ListedDefinition[];
  /** What it lists that no model can be offered. */
  readonly leftOut: readonly { readonly tool: string; readonly problem: string }[];
  readonly trust: ListingTrust;
}

export interface ToolStore {
  /** All tools of a tenant, sorted by server and tool. */
  list(tenantId: string): Promise<readonly ToolRecord[]>;
  /**
   * Keeps what a server lists now: in one transaction, tools change their states, the operator's file is taken over
   * where it changed, and each change is audited. Answers with the tools of the server as they are afterwards.
   */
  observe(listing: ServerListing): Promise<readonly ToolRecord[]>;
  /** Notes that a server could not be listed. */
  noteFailure(place: ServerPlace, problem: string): Promise<void>;
}

/** One thing that became of a pin. */
export interface PinHistoryEntry {
  readonly event: PinEvent;
  readonly definitionHash: string;
  readonly origin: string | null;
  /** Canonical JSON of who did it; `null`: nobody, it was listed so. */
  readonly actor: string | null;
  readonly atMs: number;
}
