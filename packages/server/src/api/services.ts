/** What the routes stand on; joined by wiring. */
import type { Actor, Info, LiveDelta, RuntimeInfo, Snapshot } from "@signalbox/contract";
import type { Digest, Log } from "@signalbox/core";
import type { ApiRecord, PostKey, Scope } from "./api-record.ts";

export interface SendIntent {
  readonly scope: Scope;
  readonly actor: Actor;
  readonly conversationId: string;
  readonly messageId: string | null;
  readonly text: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly whenBusy: "enqueue" | "reject";
  readonly requested: Readonly<Record<string, unknown>>;
  readonly snapshot: Omit<Snapshot, "limits">;
  readonly traceId: string;
  readonly idempotency: PostKey | null;
}

export interface AcceptedIntent {
  readonly replayed: boolean;
  readonly messageId: string;
  readonly runId: string;
  readonly accepted: "started" | "queued";
  readonly cursor: number;
}

/** The request side of the platform, as the API uses it. */
export interface Intents {
  send(intent: SendIntent): Promise<AcceptedIntent>;
  cancel(command: {
    readonly scope: Scope;
    readonly actor: Actor;
    readonly runId: string;
  }): Promise<{ readonly requested: boolean }>;
}

/** What the live channel tells one reader. Deltas may be lost; a bell or `reread` means: look at the record. */
export type LiveSignal =
  | { readonly kind: "delta"; readonly delta: LiveDelta }
  | { readonly kind: "bell"; readonly sequence: number }
  | { readonly kind: "reread" };

export interface LiveSubscription extends Disposable {
  /** The next signal, or `null` when none came within `waitMs`. */
  next(waitMs: number): Promise<LiveSignal | null>;
}

export interface ApiServices {
  readonly record: ApiRecord;
  readonly intents: Intents;
  readonly subscribe: (conversationId: string) => LiveSubscription;
  readonly runtimes: () => readonly RuntimeInfo[];
  readonly providers: () => Info["providers"];
  /** Problems that keep this process from serving; empty when it is ready. */
  readonly unreadiness: () => Promise<readonly string[]>;
  readonly digest: Digest;
  readonly newId: (kind: "agent" | "conversation") => string;
  readonly secret: string;
  readonly monotonicMs: () => number;
  readonly log: Log;
  readonly version: string;
  /** Aborts when the process begins to stop: open streams are closed with a reason. */
  readonly stopping: AbortSignal;
}
