/** Approvals of calls that clients of the gateway make: about one call, used once, in time, given by somebody who still may. */
import { makeId, uuidV7Bytes } from "@signalbox/contract";
import { callVerdict, type AskedGatewayCall, type GatewayRecord } from "@signalbox/core";
import { expect, it } from "vitest";
import { createGatewayRecord } from "../../../packages/server/src/channels/truth/gateway-record.ts";
import { systemClock, systemRandomness } from "../../../packages/server/src/system/ports.ts";
import { proves } from "../../setup/proves.ts";
import { ACTOR, sha256 } from "./record-parts.ts";
import { RecordWorld, type RecordProcess } from "./record-world.ts";

type Defect =
  | "an_expired_approval_counts"
  | "whoever_approved_counts"
  | "another_call_is_approved_too"
  | "it_is_not_used_up";
const DEFECTS: Readonly<Record<Defect, readonly [string, string, string]>> = {
  an_expired_approval_counts: ["begin_asked_call", "or v_hold.expires_at <= signalbox.clock()", ""],
  whoever_approved_counts: ["may_still_decide", "k.revoked_at is null", "true"],
  another_call_is_approved_too: [
    "begin_asked_call",
    "when p_digest is distinct from",
    "when p_digest is null and p_digest is distinct from",
  ],
  it_is_not_used_up: [
    "begin_asked_call",
    "v_call.state <> 'authorized' or",
    "v_call.state not in ('authorized', 'executing') or",
  ],
};

const VERDICT = callVerdict({ verdict: "ask", reason: "It cannot be taken back." });

interface Scene {
  readonly own: RecordWorld;
  readonly process: RecordProcess;
  readonly gateway: GatewayRecord;
}

/** A client asked for a transfer, and somebody approved it. */
async function approved({ own, process, gateway }: Scene, argumentsJson: string): Promise<AskedGatewayCall> {
  const callId = makeId("gatewayCall", uuidV7Bytes(systemClock.nowMs(), systemRandomness.bytes(10)));
  const asked = await gateway.ask({
    callId,
    tenantId: "default",
    actor: ACTOR,
    principal: "p",
    process: process.incarnation,
    endpoint: "servers/bank",
    server: "bank",
    tool: "pay",
    title: "Pay",
    effect: "irreversible",
    definitionHash: "d",
    argumentsJson,
    argumentsDigest: sha256(argumentsJson),
    traceId: null,
    policyVersion: "v",
    judgement: VERDICT,
    callDigest: sha256(argumentsJson),
  });
  expect(asked.state).toBe("awaiting_approval");
  const [hold] = await own.rows<{ digest: string }>("select digest from signalbox.hold where id = $1", [asked.holdId]);
  const decision = { tenantId: "default", actor: ACTOR, holdId: asked.holdId, decision: "approve" as const };
  await process.operators.decide({ ...decision, response: null, digest: hold!.digest });
  return asked;
}

proves("INV-12", {
  title:
    "an approved call of a client is made once and as it was approved; later, otherwise or by nobody who may, never",
  sabotages: [
    "an_expired_approval_counts",
    "whoever_approved_counts",
    "another_call_is_approved_too",
    "it_is_not_used_up",
  ],
  timeoutMs: 120_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    await own.keyOf(ACTOR.keyId);
    const process = await own.process();
    const gateway = createGatewayRecord({ database: process.pools.run, authority: process.processes });
    const scene = { own, process, gateway };
    if (sabotage !== null) await own.sabotage(...DEFECTS[sabotage]);
    const begin = async ({ callId }: AskedGatewayCall, argumentsJson: string): Promise<string> => {
      const intent = { callId, process: process.incarnation, callDigest: sha256(argumentsJson), policyVersion: "v" };
      const begun = await gateway.beginAsked(intent);
      return begun === "begun" ? begun : begun.state;
    };
    const once = await approved(scene, '{"amount":1}');
    expect(await begin(once, '{"amount":1}')).toBe("begun");
    expect(await begin(once, '{"amount":1}'), "INV-12: once").toBe("executing");
    await gateway.settle({
      callId: once.callId,
      state: "succeeded",
      errorCode: null,
      resultJson: "{}",
      resultSummary: "",
    });
    expect(await begin(once, '{"amount":1}'), "what came of it").toBe("succeeded");
    const other = await approved(scene, '{"amount":2}');
    expect(await begin(other, '{"amount":2000}'), "INV-12: other arguments").toBe("awaiting_approval");
    const late = await approved(scene, '{"amount":3}');
    await own.rows("update signalbox.hold set expires_at = signalbox.clock() where id = $1", [late.holdId]);
    expect(await begin(late, '{"amount":3}'), "INV-12: too late").toBe("denied");
    const revoked = await approved(scene, '{"amount":4}');
    await own.rows("update signalbox.api_key set revoked_at = signalbox.clock() where id = $1", [ACTOR.keyId]);
    expect(await begin(revoked, '{"amount":4}'), "INV-12: who may not any more").toBe("awaiting_approval");
    const key = { callId: revoked.callId, principal: "p", callDigest: sha256('{"amount":4}') };
    const again = await gateway.asked(key);
    expect(again?.holdId, "asked again").not.toBe(revoked.holdId);
    expect(await gateway.asked({ ...key, principal: "q" }), "nobody else's").toBeNull();
    await gateway.withdrawAsked(revoked.callId, "p");
    expect((await gateway.asked(key))?.state).toBe("withdrawn");
    const { n } = await own.one<{ n: number }>(
      "select count(*)::int as n from signalbox.audit_pending where action = 'approval_void'",
    );
    expect(n).toBe(2);
  },
});

it("what was approved and not made is asked again after the store was put back", { timeout: 60_000 }, async () => {
  await using own = await RecordWorld.open();
  await own.keyOf(ACTOR.keyId);
  const process = await own.process();
  const gateway = createGatewayRecord({ database: process.pools.run, authority: process.processes });
  const before = await approved({ own, process, gateway }, '{"amount":1}');
  await own.rows("select signalbox.ask_clients_again()");
  const now = await gateway.asked({ callId: before.callId, principal: "p", callDigest: sha256('{"amount":1}') });
  expect(now).toMatchObject({ state: "awaiting_approval" });
  expect(now?.holdId).not.toBe(before.holdId);
});
