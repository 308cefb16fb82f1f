/** Claims, takeovers and the cancels an owner must hear of. */
import { PlatformError } from "@signalbox/contract";
import type { Claim, ClaimRequest, Held, Ownership, OwnershipRecord, SteeringOffer } from "@signalbox/core";
import { callRecord, jsonText, readRows } from "../../store/record-call.ts";
import type { SnapshotCache } from "../../store/snapshot-cache.ts";
import { CANCELLED, CLAIM, RECLAIM, STEERED } from "../../store/statements/record-statements.ts";
import type { Authority } from "./authority.ts";
import { claimOf, type ClaimFacts } from "./claim-facts.ts";
import { PostgresOwnership, type OwnershipParts } from "./ownership.ts";

export interface OwnershipRecordParts extends OwnershipParts {
  readonly snapshots: SnapshotCache;
  readonly authority: Authority;
}

export function createOwnershipRecord(parts: OwnershipRecordParts): OwnershipRecord {
  return {
    claim: (request) => claim(parts, request),
    adopt: (claimed: Claim) => new PostgresOwnership(claimed, parts),
    cancelled: async (process) =>
      (await readRows<Held>(parts.database, CANCELLED, [process])).map(({ conversationId, generation }) => ({
        conversationId,
        generation,
      })),
    steered: async (process) =>
      (await readRows<SteeringOffer>(parts.database, STEERED, [process])).map((row) => ({ ...row })),
    reclaim: (process, driving) => reclaim(parts, process, driving),
  };
}

async function claim(parts: OwnershipRecordParts, request: ClaimRequest): Promise<readonly Ownership[]> {
  const { process, room, limit } = request;
  demandAuthority(parts, process);
  return owned(parts, await callRecord<ClaimFacts>(parts.database, CLAIM, [process, jsonText(room), limit]));
}

async function reclaim(
  parts: OwnershipRecordParts,
  process: number,
  driving: readonly Held[],
): Promise<readonly Ownership[]> {
  demandAuthority(parts, process);
  const conversations = driving.map((held) => held.conversationId);
  const generations = driving.map((held) => held.generation);
  const values = [process, conversations, generations];
  return owned(parts, await callRecord<ClaimFacts>(parts.database, RECLAIM, values));
}

/** A process that lost its presence is not dead yet, but it begins nothing until it has it again. */
function demandAuthority({ authority }: OwnershipRecordParts, process: number): void {
  if (!authority.holds(process)) {
    throw new PlatformError("database_unavailable", "This process has lost its presence in the record.");
  }
}

async function owned(
  parts: OwnershipRecordParts,
  claims: readonly (ClaimFacts | null)[],
): Promise<readonly Ownership[]> {
  const ownerships: Ownership[] = [];
  for (const facts of claims) {
    if (facts === null) {
      continue;
    }
    const snapshot = await parts.snapshots.get(facts.tenantId, facts.snapshotHash);
    parts.live.ring(facts.conversationId, facts.sequence);
    if (facts.cause === "owner_lost") parts.live.ringGates(facts.conversationId);
    ownerships.push(new PostgresOwnership(claimOf(facts, snapshot), parts));
  }
  return ownerships;
}
