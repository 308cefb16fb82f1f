/** What the API does about policies and tools, over a process's record. */
import type { ApiServices } from "../api/services.ts";
import { policyDeskOf, type PolicyDeskPorts } from "./policy-desk.ts";
import type { PlatformRecord } from "./record.ts";
import { createToolDesk } from "./tool-desk.ts";

export function desksOf(record: PlatformRecord, ports: PolicyDeskPorts): Pick<ApiServices, "policies" | "tools"> {
  const { digest } = ports;
  const tools = createToolDesk({ commands: record.queries.toolCommands, digest });
  return { policies: policyDeskOf(record, ports), tools };
}
