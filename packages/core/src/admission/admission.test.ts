import { makeId, PlatformError, type SnapshotTool } from "@signalbox/contract";
import { createVirtualTime } from "@signalbox/testkit";
import { describe, expect, it } from "vitest";
import type { Admission, AdmissionRecord, AdmitCommand } from "../ports/admission-record.ts";
import type { Reservation } from "../ports/handover.ts";
import type { Claim } from "../ports/ownership-record.ts";
import { createAdmission } from "./admission.ts";
import { freezeSnapshot } from "./snapshot.ts";
import { LIMITS } from "../kernel/limits.ts";
import type { AgentRevision, MessageIntent } from "./intent.ts";

const AGENT: AgentRevision = {
  agentId: makeId("agent", new Uint8Array(16)),
  name: "support",
  revision: 2,
  runtime: null,
  instructions: "Help.",
  model: "sim/one",
  maxOutputTokens: 9_000_000,
  tools: [tool("zoo__look"), tool("api__get")],
  whenBusy: "enqueue",
  limits: { modelCallCount: 5, toolCallCount: 9_999, wallClockMs: 99 * 3_600_000 },
};

function tool(name: string): SnapshotTool {
  const [server = "", plain = ""] = name.split("__");
  const facts = { title: plain, description: plain, effect: "read" as const, definitionHash: "0".repeat(64) };
  return { name, server, tool: plain, ...facts, inputSchema: { type: "object" } };
}

const INTENT: MessageIntent = {
  tenantId: "default",
  conversationId: "cnv_1",
  actor: { keyId: "key_1", user: null, roles: [], units: [] },
  agent: AGENT,
  text: "hello",
  metadata: {},
  asked: {},
  traceId: null,
  idempotency: null,
};

/** Admission with a record that answers as told, and everything that it did on the way. */
function admissionWith(answer: (command: AdmitCommand) => Partial<Admission>) {
  const seen = { commands: [] as AdmitCommand[], settled: [] as string[], bells: 0 };
  const record: AdmissionRecord = {
    admit: async (command) => {
      seen.commands.push(command);
      const { messageId, runId } = command;
      return {
        kind: "admitted",
        messageId,
        runId,
        accepted: "started",
        position: 0,
        cursor: 0,
        claim: null,
        events: [],
        ...answer(command),
      };
    },
    requestCancel: async () => ({ kind: "requested", state: "running" }),
  };
  const reservation: Reservation = {
    process: 7,
    take: () => seen.settled.push("take"),
    free: () => seen.settled.push("free"),
    doubt: () => seen.settled.push("doubt"),
  };
  const live = { ringSupervisors: () => (seen.bells += 1) };
  const handover = { reserve: () => reservation };
  const ports = { ...createVirtualTime(), record, live, handover, steerable: () => ["langgraph"] };
  return { admission: createAdmission(ports), seen };
}

const started = () => admissionWith(() => ({}));

describe("admission", () => {
  it("records what was asked and what was granted, well-formed, under ids and a trace of its own", async () => {
    const { admission, seen } = started();
    await admission.submit({
      ...INTENT,
      text: "a\u0000b\ud800",
      asked: { model: "sim/one", whenBusy: "reject", mode: null },
    });
    const [command] = seen.commands;
    expect(command).toMatchObject({
      text: "a\uFFFDb\uFFFD",
      whenBusy: "reject",
      requested: { model: "sim/one", whenBusy: "reject", mode: null },
      granted: { model: "sim/one", whenBusy: "reject" },
      claimFor: 7,
      queueLimit: 20,
    });
    expect(command?.runId).toMatch(/^run_[0-9a-f]{32}$/);
    expect(command?.messageId).toMatch(/^msg_[0-9a-f]{32}$/);
    expect(command?.traceId).toMatch(/^[0-9a-f]{32}$/);
  });

  it("freezes the agent into one snapshot: sorted tools, clamped limits, the default runtime, one hash", async () => {
    const { admission, seen } = started();
    await admission.submit(INTENT);
    await admission.submit({ ...INTENT, agent: { ...AGENT, tools: AGENT.tools.toReversed() } });
    const [first, second] = seen.commands;
    expect(first?.snapshot).toMatchObject({
      runtime: "langgraph",
      maxOutputTokens: 200_000,
      limits: { modelCallCount: 5, toolCallCount: 500, wallClockMs: 3_600_000 },
    });
    expect(first?.snapshot.tools.map(({ name }) => name)).toEqual(["api__get", "zoo__look"]);
    expect(second?.snapshotHash).toBe(first?.snapshotHash);
    expect(JSON.stringify(second?.snapshot)).toBe(JSON.stringify(first?.snapshot));
    const named = { ...AGENT, runtime: "claude_sdk" };
    expect(freezeSnapshot(named, LIMITS, createVirtualTime().digest).hash).not.toBe(first?.snapshotHash);
  });

  it.each([
    [{ text: " \n" }, "invalid_request", "/content"],
    [{ text: "x".repeat(200_001) }, "payload_too_large", "/content"],
    [{ metadata: { "a/b": "x".repeat(513) } }, "invalid_request", "/metadata/a~1b"],
    [
      { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, ""])) },
      "invalid_request",
      "/metadata",
    ],
    [{ metadata: { ["k".repeat(65)]: "" } }, "invalid_request", "/metadata"],
    [{ asked: { model: "sim/two" } }, "model_not_granted", "/model"],
    [{ asked: { whenBusy: "later" } }, "invalid_request", "/whenBusy"],
    [{ asked: { effort: "high" } }, "field_not_supported", "/effort"],
    [{ asked: { prio: 1 } }, "field_unknown", "/prio"],
    [{ idempotency: { key: "", bodyHash: "0" } }, "invalid_request", "Idempotency-Key"],
  ] as const)("refuses %o by the name of the field, before anything is recorded", async (changes, code, pointer) => {
    const { admission, seen } = started();
    const refused = admission.submit({ ...INTENT, ...changes });
    await expect(refused).rejects.toMatchObject({ code, fields: [expect.objectContaining({ pointer })] });
    expect(seen).toMatchObject({ commands: [], settled: [] });
  });

  it("names every field it refuses, not only the first", async () => {
    const { admission } = started();
    const refused = admission.submit({ ...INTENT, asked: { effort: "low", mode: "deep" } });
    await expect(refused).rejects.toMatchObject({ fields: [{ pointer: "/effort" }, { pointer: "/mode" }] });
  });

  it("settles its reservation whichever way the record answers", async () => {
    const ends = async (answer: (command: AdmitCommand) => Partial<Admission>) => {
      const { admission, seen } = admissionWith(answer);
      await admission.submit(INTENT).catch(() => undefined);
      return [seen.settled.join(), seen.bells];
    };
    const refuse = (code: "conversation_busy" | "database_unavailable") => () => {
      throw new PlatformError(code);
    };
    expect(await ends(() => ({ claim: {} as Claim }))).toEqual(["take", 0]);
    expect(await ends(() => ({ claim: null }))).toEqual(["free", 1]);
    expect(await ends(() => ({ accepted: "queued" }))).toEqual(["free", 0]);
    expect(await ends(() => ({ kind: "replayed" }))).toEqual(["free", 0]);
    expect(await ends(refuse("conversation_busy"))).toEqual(["free", 0]);
    // The reply was lost, so the record may say that this process owns the run.
    expect(await ends(refuse("database_unavailable"))).toEqual(["doubt", 0]);
  });

  it("rings for a cancel, so that the owner hears of it at once", async () => {
    const { admission, seen } = started();
    const { tenantId, actor } = INTENT;
    expect(await admission.cancel({ tenantId, actor, runId: makeId("run", new Uint8Array(16)) })).toMatchObject({
      kind: "requested",
    });
    expect(seen.bells).toBe(1);
  });
});
