/** The desk of policies over a process's record. */
import type { Posture } from "@signalbox/contract";
import type { Clock, Digest } from "@signalbox/core";
import type { PolicyDesk } from "../api/policy-desk.ts";
import { wordOf } from "../gates/policy-judge.ts";
import type { PlatformRecord } from "./record.ts";
import { createPolicyDesk, type KnownTool } from "./policies.ts";
import { wireName } from "../tool-gate/tool-definition.ts";

export interface PolicyDeskPorts {
  readonly digest: Digest;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly posture: Posture;
}

export function policyDeskOf(record: PlatformRecord, { digest, clock, posture }: PolicyDeskPorts): PolicyDesk {
  const parts = {
    queries: record.policyQueries,
    record: record.policies,
    snapshot: record.snapshot,
    tools: (tenantId: string) => knownTools({ record, digest }, tenantId),
    posture,
    digest,
  } as const;
  return createPolicyDesk(parts, () => clock.monotonicMs());
}

async function knownTools(
  { record, digest }: { readonly record: PlatformRecord; readonly digest: Digest },
  tenantId: string,
): Promise<ReadonlyMap<string, KnownTool>> {
  const pins = await record.queries.tools.list(tenantId);
  return new Map(
    pins.map(({ server, tool, classification, definition, definitionHash }) => {
      const { inputSchema } = definition;
      const schema = typeof inputSchema === "object" && inputSchema !== null ? inputSchema : {};
      // An object is a record of its members.
      const known = { word: wordOf(classification), definitionHash, inputSchema: schema as KnownTool["inputSchema"] };
      return [wireName(server, tool, digest), known];
    }),
  );
}
