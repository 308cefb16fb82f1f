import type { Randomness } from "@signalbox/core";
import type { Json } from "../mcp-protocol.ts";

const TRACEPARENT = /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The client's own trace goes on; a call without one begins a trace. */
export function traceOf(meta: Json, randomness: Randomness): { readonly id: string; readonly parent: string } {
  const given = typeof meta.traceparent === "string" ? TRACEPARENT.exec(meta.traceparent)?.[1] : undefined;
  const random = Buffer.from(randomness.bytes(24)).toString("hex");
  const id = given ?? random.slice(16);
  return { id, parent: `00-${id}-${random.slice(0, 16)}-01` };
}
