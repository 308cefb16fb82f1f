/**
 * An approval is about one call, exactly as it was shown, for a while, by somebody who still may: what is looked at again
 * at the moment it is used.
 */
import type { HoldId } from "@signalbox/contract";
import { callVerdict, type Proposal } from "@signalbox/core";
import { expect } from "vitest";
import { proves } from "../../setup/proves.ts";
import { ACTOR, codeOf, proposalOf, sha256, startedRun } from "./record-parts.ts";
import { RecordWorld, type Bound, type RecordProcess } from "./record-world.ts";

const TRANSFER = '{"amount":10,"to":"A"}';

function transfer(argumentsJson = TRANSFER, changes: Partial<Proposal> = {}): Proposal {
  const call = proposalOf({ argumentsJson, name: "bank__pay", server: "bank", tool: "pay", effect: "irreversible" });
  const changed = { ...call, definitionHash: "as it was", ...changes };
  const callDigest = sha256([changed.server, changed.tool, changed.definitionHash, argumentsJson].join(" "));
  const verdict = callVerdict({ verdict: "ask", reason: "It cannot be taken back." });
  return { ...changed, callDigest, judged: { ...verdict, callDigest, policyVersion: "p" } };
}

interface Scene {
  readonly own: RecordWorld;
  readonly process: RecordProcess;
  readonly bound: Bound;
  readonly holdId: HoldId;
}

/** Somebody was asked about the transfer, and approved; the run was given to another owner meanwhile. */
async function approved(own: RecordWorld, process: RecordProcess, call: Proposal): Promise<Scene> {
  const { ownership } = await startedRun(process, await own.conversation());
  const first = await process.bind(ownership);
  await process.propose(first, [call]);
  expect(await codeOf(process.openTool(first, call))).toBe("run_suspended");
  const text = "select id from signalbox.hold where run_id = $1 order by opened_at desc limit 1";
  const [hold] = await own.rows<{ id: HoldId }>(text, [ownership.claim.runId]);
  const holdId = hold!.id;
  await ownership.suspend();
  const command = {
    tenantId: "default",
    actor: ACTOR,
    holdId,
    decision: "approve" as const,
    response: null,
    digest: call.callDigest,
  };
  await process.operators.decide(command);
  return { own, process, bound: await process.bind(await process.claimOne()), holdId };
}

/** What the model proposes when its turn runs again, and what comes of it. */
async function proposedAgain({ process, bound }: Scene, call: Proposal): Promise<string> {
  await process.propose(bound, [call]);
  const grant = await process.openTool(bound, call).catch((thrown: unknown) => thrown);
  if (typeof grant === "object" && grant !== null && "kind" in grant) return String(grant.kind);
  return typeof grant === "object" && grant !== null && "code" in grant ? String(grant.code) : String(grant);
}

type Defect = "an_expired_approval_counts" | "whoever_approved_counts" | "any_approval_of_the_tool_counts";
const DEFECTS: Readonly<Record<Defect, readonly [string, string, string]>> = {
  an_expired_approval_counts: ["use_approval", "v_hold.expires_at <= signalbox.clock()", "false"],
  whoever_approved_counts: ["may_still_decide", "k.revoked_at is null", "true"],
  any_approval_of_the_tool_counts: ["inherit_hold", "and t.arguments_digest = p_call.arguments_digest", ""],
};

proves("INV-12", {
  title: "what was approved is made once, by other ids too; anything else, anybody else and any later time asks again",
  sabotages: ["an_expired_approval_counts", "whoever_approved_counts", "any_approval_of_the_tool_counts"],
  timeoutMs: 120_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    await own.keyOf(ACTOR.keyId);
    const process = await own.process();
    if (sabotage !== null) await own.sabotage(...DEFECTS[sabotage]);
    const again = async (call: Proposal): Promise<string> =>
      proposedAgain(await approved(own, process, transfer()), call);
    // Key order and the form of numbers are gone in canonical arguments: those two are the same call as this.
    expect(await again(transfer()), "INV-12: the same call under another id").toBe("execute");
    expect(await again(transfer('{"amount":1000,"to":"A"}')), "INV-12: other arguments").toBe("run_suspended");
    expect(await again(transfer(TRANSFER, { name: "bank__burn", tool: "burn" })), "INV-12: another tool").toBe(
      "run_suspended",
    );
    expect(await again(transfer('{"amount":10,"memo":"x","to":"A"}')), "INV-12: one more").toBe("run_suspended");
    expect(await again(transfer(TRANSFER, { definitionHash: "changed" })), "INV-12: a changed tool").toBe(
      "run_suspended",
    );

    const call = transfer();
    const late = await approved(own, process, call);
    await own.rows("update signalbox.hold set expires_at = signalbox.clock() where id = $1", [late.holdId]);
    expect(await process.openTool(late.bound, call), "INV-12: too late").toMatchObject({
      kind: "replay",
      state: "denied",
      resultJson: expect.stringContaining("approval_expired"),
    });

    const other = transfer();
    const revoked = await approved(own, process, other);
    await own.rows("update signalbox.api_key set revoked_at = signalbox.clock() where id = $1", [ACTOR.keyId]);
    expect(await codeOf(process.openTool(revoked.bound, other)), "INV-12: who may not any more").toBe("run_suspended");
    const { n } = await own.one<{ n: number }>(
      "select count(*)::int as n from signalbox.audit_pending where action = 'approval_void'",
    );
    expect(n).toBe(1);
    await own.rows("update signalbox.api_key set revoked_at = null where id = $1", [ACTOR.keyId]);

    const once = transfer();
    const used = await approved(own, process, once);
    expect(await process.openTool(used.bound, once)).toMatchObject({ kind: "execute" });
    expect(await codeOf(process.openTool(used.bound, once)), "INV-12: once").toBe("tool_outcome_unknown");
  },
});
