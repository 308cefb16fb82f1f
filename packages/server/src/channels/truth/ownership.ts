/** An owner's hold on one conversation: each write presents the generation it was claimed under. */
import type { HistoryEntry, MessageId, OwnerEvent, RunId, TurnId } from "@signalbox/contract";
import type {
  Claim,
  Conclusion,
  Finalization,
  Inheritance,
  LiveChannel,
  Ownership,
  PastCall,
  PastMessage,
  Seal,
  Suspension,
} from "@signalbox/core";
import type { BoundSlots } from "../../store/bound-slots.ts";
import { askRecord, jsonText, readRows, type Queryable } from "../../store/record-call.ts";
import {
  BIND_SLOT,
  CHANGE_WORKER,
  DROP_TAIL,
  FINISH,
  PAST_MESSAGES,
  RELEASE,
  SEAL,
  TAKE_IN,
  TAKE_OVER,
} from "../../store/statements/record-statements.ts";
import { claimOf, type ClaimFacts } from "./claim-facts.ts";
import type { GroupCommit } from "./group-commit.ts";
import { suspendHeld } from "./suspension.ts";

export interface OwnershipParts {
  /** Connects as `signalbox_run`. */
  readonly database: Queryable;
  readonly events: GroupCommit;
  readonly live: Pick<LiveChannel, "ring" | "ringGates">;
  /** The slots that were bound here. */
  readonly slots: Pick<BoundSlots, "note" | "has">;
}

/** Set when the statement wrote to the log. */
interface News {
  readonly sequence?: number;
}

export class PostgresOwnership implements Ownership {
  readonly claim: Claim;
  readonly #parts: OwnershipParts;

  constructor(claim: Claim, parts: OwnershipParts) {
    this.claim = claim;
    this.#parts = parts;
  }

  async bindSlot(slot: { readonly tokenHash: string; readonly workerId: string }): Promise<void> {
    const { conversationId, generation } = this.claim;
    // Admission may have bound it in the transaction that claimed the run.
    if (this.#parts.slots.has(slot.tokenHash, this.claim)) {
      return;
    }
    await askRecord(this.#parts.database, BIND_SLOT, [conversationId, generation, slot.tokenHash, slot.workerId]);
    this.#parts.slots.note(slot.tokenHash, this.claim);
  }

  append(events: readonly OwnerEvent[], turnId: TurnId): Promise<void> {
    return this.#parts.events.append(this.claim, events, turnId);
  }

  async changeWorker(options: { readonly attemptLimit: number }): Promise<Ownership> {
    const { conversationId, generation, snapshot } = this.claim;
    await this.#parts.events.settled(conversationId);
    const values = [conversationId, generation, options.attemptLimit];
    const answer = await askRecord<{ readonly claim: ClaimFacts }>(this.#parts.database, CHANGE_WORKER, values);
    this.#parts.live.ring(conversationId, answer.claim.sequence);
    this.#parts.live.ringGates(conversationId);
    return new PostgresOwnership(claimOf(answer.claim, snapshot), this.#parts);
  }

  async takeOver(options: { readonly adopt: boolean }): Promise<Inheritance> {
    const { conversationId, generation } = this.claim;
    return askRecord<Inheritance>(this.#parts.database, TAKE_OVER, [conversationId, generation, options.adopt]);
  }

  async dropTail(): Promise<void> {
    const { conversationId, generation } = this.claim;
    await askRecord(this.#parts.database, DROP_TAIL, [conversationId, generation]);
  }

  async seal(conclusion: Conclusion): Promise<Seal> {
    const { conversationId, generation } = this.claim;
    return askRecord<Seal>(this.#parts.database, SEAL, [conversationId, generation, jsonText(conclusion)]);
  }

  async finish(finalization: Finalization): Promise<{ readonly nextRunId: RunId | null }> {
    const { conversationId, generation } = this.claim;
    const { outcome, reason, error, answer, rung, continuity, leaf, digest, servedModel } = finalization;
    await this.#parts.events.settled(conversationId);
    const { nextRunId, sequence } = await askRecord<{ readonly nextRunId: RunId | null; readonly sequence: number }>(
      this.#parts.database,
      FINISH,
      [
        conversationId,
        generation,
        outcome,
        reason,
        error === null ? null : jsonText(error),
        answer?.messageId ?? null,
        answer?.text ?? null,
        answer?.partial ?? null,
        rung,
        continuity,
        leaf,
        digest,
        servedModel,
      ],
    );
    this.#parts.live.ring(conversationId, sequence);
    return { nextRunId };
  }

  async suspend(): Promise<Suspension> {
    const { conversationId, generation } = this.claim;
    await this.#parts.events.settled(conversationId);
    return suspendHeld(this.#parts, { conversationId, generation });
  }

  async release(): Promise<void> {
    const { conversationId, generation } = this.claim;
    await this.#parts.events.settled(conversationId);
    this.#ring(await askRecord<News>(this.#parts.database, RELEASE, [conversationId, generation]));
    this.#parts.live.ringGates(conversationId);
  }

  async takeIn(messageId: MessageId): Promise<void> {
    const { conversationId, generation } = this.claim;
    this.#ring(await askRecord<News>(this.#parts.database, TAKE_IN, [conversationId, generation, messageId]));
  }

  async history(limit: number): Promise<readonly PastMessage[]> {
    const rows = await readRows<HistoryEntry & { readonly calls: readonly PastCall[] | null }>(
      this.#parts.database,
      PAST_MESSAGES,
      [this.claim.runId, limit],
    );
    return rows.map(({ role, text, calls }) => ({ role, text, calls: calls ?? [] }));
  }

  #ring({ sequence }: News): void {
    if (sequence !== undefined) {
      this.#parts.live.ring(this.claim.conversationId, sequence);
    }
  }
}
