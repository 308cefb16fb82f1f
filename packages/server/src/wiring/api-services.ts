/** What the API of one process stands on. */
import { makeId, uuidV7Bytes, type RuntimeInfo } from "@signalbox/contract";
import { createAdmission, LIMITS, type Handover, type Log } from "@signalbox/core";
import type { ApiServices, RawService } from "../api/services.ts";
import type { ServerConfig } from "../config/server-config.ts";
import { systemClock, systemDigest, systemRandomness } from "../system/ports.ts";
import { VERSION } from "../version.ts";
import { createApiRecord } from "./api-record.ts";
import type { Offers } from "./offers.ts";
import { createOperatorView } from "./operator-view.ts";
import { desksOf } from "./desks.ts";
import type { PlatformRecord } from "./record.ts";

export interface ApiParts {
  readonly config: ServerConfig;
  readonly record: PlatformRecord;
  /** What takes over a run that is claimed with its message; `null` where this process drives none. */
  readonly supervisor: Handover | null;
  readonly offers: Offers;
  readonly unreadiness: () => Promise<readonly string[]>;
  readonly secret: string;
  readonly log: Log;
  readonly gateway: RawService | null;
}

export function apiServices(parts: ApiParts & { readonly stopping: AbortSignal }): ApiServices {
  const { config, record, supervisor, offers, secret, log, stopping } = parts;
  const freshUuid = (): Uint8Array => uuidV7Bytes(systemClock.nowMs(), systemRandomness.bytes(10));
  return {
    record: createApiRecord(record.queries),
    admission: createAdmission(
      {
        record: record.admission,
        handover: supervisor,
        live: record.live,
        steerable: () => steerableOf(offers.runtimes()),
        clock: systemClock,
        randomness: systemRandomness,
        digest: systemDigest,
      },
      { ...LIMITS, ...config.admissionLimits },
    ),
    admissionLimits: config.admissionLimits,
    commands: record.commands,
    operatorView: createOperatorView(record.operatorQueries),
    ...desksOf(record, { digest: systemDigest, clock: systemClock, posture: config.posture }),
    subscribe: (conversationId) => record.live.subscribe(conversationId),
    runtimes: () => offers.runtimes(),
    eventRetentionDays: config.retentionDays,
    providers: () => [...offers.providers()],
    unreadiness: parts.unreadiness,
    digest: systemDigest,
    newAgentId: () => makeId("agent", freshUuid()),
    newStopId: () => makeId("stop", freshUuid()),
    newPolicyId: () => makeId("policy", freshUuid()),
    newConversationId: () => makeId("conversation", freshUuid()),
    gateway: parts.gateway,
    secret,
    monotonicMs: () => systemClock.monotonicMs(),
    log,
    version: VERSION,
    stopping,
  };
}

/** Runtimes that announce that their engines take in messages while they run. */
function steerableOf(runtimes: readonly RuntimeInfo[]): readonly string[] {
  return runtimes
    .filter(({ available, capabilities }) => available && capabilities.includes("steering"))
    .map(({ name }) => name);
}
