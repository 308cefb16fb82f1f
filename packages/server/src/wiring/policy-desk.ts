/** The desk of policies over a process's record. */
import type { Digest } from "@signalbox/core";
import type { PolicyDesk } from "../api/policy-desk.ts";
import type { PlatformRecord } from "./record.ts";
import { createPolicyDesk, type KnownTool } from "./policies.ts";

export function policyDeskOf(record: PlatformRecord, digest: Digest, monotonicMs: () => number): PolicyDesk {
  const parts = {
    queries: record.policyQueries,
    record: record.policies,
    snapshot: record.snapshot,
    tools: (tenantId: string) => knownTools(record, tenantId),
    posture: "dev",
    digest,
  } as const;
  return createPolicyDesk(parts, monotonicMs);
}

async function knownTools(record: PlatformRecord, tenantId: string): Promise<ReadonlyMap<string, KnownTool>> {
  const pins = await record.queries.tools.list(tenantId);
  return new Map(
    pins.map(({ server, tool, effect, definition, definitionHash }) => {
      const word = {
        effect,
        isClassified: true,
        approve: "policy",
        isTrusted: false,
        unit: null,
        clearance: 0,
      } as const;
      const { inputSchema } = definition;
      const schema = typeof inputSchema === "object" && inputSchema !== null ? inputSchema : {};
      // An object is a record of its members.
      const known = { word, definitionHash, inputSchema: schema as Readonly<Record<string, unknown>> };
      return [`${server}__${tool}`, known];
    }),
  );
}
