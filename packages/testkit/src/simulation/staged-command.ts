/** A message for a test to admit: valid in every field, with ids that grow. */
import { makeId, snapshotHashText, type Snapshot } from "@signalbox/contract";
import type { AdmitCommand, Digest } from "@signalbox/core";

const STAGED_SNAPSHOT: Snapshot = {
  agentId: "agt_1",
  agentName: "support",
  revision: 1,
  runtime: "langgraph",
  instructions: "Help.",
  model: "sim/one",
  maxOutputTokens: 100,
  tools: [],
  limits: { modelCallCount: 10, toolCallCount: 10, wallClockMs: 600_000 },
};

let serial = 0;

/**
 * The command that admits the message `hello` to conversation `cnv_1` of tenant `default`; `changes` replace its
 * members.
 */
export function stagedCommand(digest: Digest, changes: Partial<AdmitCommand> = {}): AdmitCommand {
  serial += 1;
  const id = Uint8Array.from({ length: 16 }, (_, index) =>
    index < 14 ? 1 : (serial >> (index === 14 ? 8 : 0)) & 0xff,
  );
  return {
    tenantId: "default",
    conversationId: "cnv_1",
    messageId: makeId("message", id),
    runId: makeId("run", id),
    actor: { keyId: "key_1", user: null, roles: [], units: [] },
    text: "hello",
    metadata: {},
    whenBusy: "enqueue",
    snapshot: STAGED_SNAPSHOT,
    snapshotHash: digest.sha256Hex(snapshotHashText(STAGED_SNAPSHOT)),
    requested: {},
    granted: {},
    traceId: "0".repeat(32),
    idempotency: null,
    queueLimit: 9,
    minuteLimit: 1_000,
    tenantLimit: 1_000,
    steerable: ["langgraph"],
    claimFor: null,
    ...changes,
  };
}
