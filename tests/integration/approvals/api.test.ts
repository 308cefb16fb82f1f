/** Approvals and the ledger through the public API and the command line's client. */
import type { AcceptedMessage, Approval, Conversation, DecidedApproval, LedgerCall, Run } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, newId } from "../../setup/api-world.ts";

let world: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

interface Asked {
  readonly approval: string;
  readonly toolCall: string;
  readonly run: string;
}

async function asked(how: Parameters<ApiWorld["askAboutPayment"]>[1] = {}): Promise<Asked> {
  const name = `agent-${newId("agent").slice(-12)}`;
  await world.ask("/v1/agents", { key, body: { name, model: "sim/quote" } });
  const { body: conversation } = await world.ask<Conversation>("/v1/conversations", { key, body: { agent: name } });
  const path = `/v1/conversations/${conversation.id}/messages`;
  const { body } = await world.ask<AcceptedMessage>(path, { key, body: { content: "pay invoice 7" } });
  return { ...(await world.askAboutPayment(conversation.id, how)), run: body.run.id };
}

interface Told {
  readonly code?: string;
  readonly digest?: string;
  readonly detail?: string;
  readonly errors?: readonly { readonly pointer: string }[];
}

const decide = (approval: string, body: object) =>
  world.ask<DecidedApproval & Told>(`/v1/approvals/${approval}/decision`, { key, body });

describe("an approval", () => {
  it("shows the complete call, is listed while it is open, and moves its call when it is decided", async () => {
    const { approval, toolCall, run } = await asked();
    const { body: shown } = await world.ask<Approval>(`/v1/approvals/${approval}`, { key });
    expect(shown).toMatchObject({
      id: approval,
      toolCallId: toolCall,
      name: "bank__pay",
      effect: "irreversible",
      arguments: { cents: 700 },
      reason: "It cannot be taken back.",
      rules: ["r1"],
      approver: "anyone",
      policyVersion: "p",
      agentRevision: 1,
      digest: "d",
      state: "open",
    });
    const listed = await world.ask<{ data: Approval[] }>(`/v1/approvals?run=${run}&state=open`, { key });
    expect(listed.body.data.map(({ id }) => id)).toEqual([approval]);
    expect((await world.ask<LedgerCall>(`/v1/tool-calls/${toolCall}`, { key })).body).toMatchObject({
      state: "awaiting_approval",
      verdict: "ask",
      approvalId: approval,
      arguments: { cents: 700 },
      editedArguments: null,
    });
    const approved = await decide(approval, { decision: "approve", digest: "d" });
    expect(approved.body).toMatchObject({ outcome: "decided", approval: { state: "decided", decision: "approve" } });
    const again = await decide(approval, { decision: "reject", digest: "d" });
    expect(again.body).toMatchObject({ outcome: "already_decided", approval: { decision: "approve" } });
    expect((await world.ask<LedgerCall>(`/v1/tool-calls/${toolCall}`, { key })).body.state).toBe("authorized");
  });

  it("is not decided by another digest, without one, with words that are missing, or by a key that may not", async () => {
    const { approval } = await asked();
    const changed = await decide(approval, { decision: "approve", digest: "another" });
    expect([changed.status, changed.body.code, changed.body.digest]).toEqual([409, "approval_changed", "d"]);
    expect((await decide(approval, { decision: "approve" })).status).toBe(400);
    expect((await decide(approval, { decision: "respond", digest: "d" })).status).toBe(400);
    expect((await decide(approval, { decision: "edit", digest: "d" })).status).toBe(400);
    const reader = await world.key({ rights: ["read"] });
    const refused = await world.ask(`/v1/approvals/${approval}/decision`, {
      key: reader,
      body: { decision: "approve", digest: "d" },
    });
    expect(refused.status).toBe(403);
    expect((await world.ask<Approval>(`/v1/approvals/${approval}`, { key })).body.state).toBe("open");
  });

  it.each([
    [{ decision: "approve", reason: "fine" }, "/reason"],
    [{ decision: "reject", response: "no" }, "/response"],
    [{ decision: "edit", arguments: { cents: 1 }, reason: "less" }, "/reason"],
    [{ decision: "respond" }, "/response"],
    [{ decision: "respond", response: "x".repeat(40_001) }, "/response"],
  ])("takes nothing along that nobody would read: %.70j", async (body, pointer) => {
    const { approval } = await asked();
    const told = await decide(approval, { ...body, digest: "d" });
    expect([told.status, told.body.errors?.map((each) => each.pointer)]).toEqual([400, [pointer]]);
    expect((await world.ask<Approval>(`/v1/approvals/${approval}`, { key })).body.state).toBe("open");
  });

  it.each([
    [{ decision: "approve", response: { arguments: { cents: 1 } } }, "/response"],
    [{ decision: "reject", response: "no" }, "/response"],
    [{ decision: "reject", response: { why: "no" } }, "/response/why"],
    [{ decision: "edit", response: { arguments: { cents: 1 }, more: 1 } }, "/response/more"],
    [{ decision: "respond" }, "/response"],
    [{ decision: "respond", response: { text: "paid" } }, "/response"],
    [{ decision: "respond", response: "x".repeat(40_001) }, "/response"],
  ])("is decided by the same rule at the address of its hold: %.70j", async (body, pointer) => {
    const { approval } = await asked();
    const told = await world.ask<Told>(`/v1/holds/${approval}/decision`, { key, body: { ...body, digest: "d" } });
    expect([told.status, told.body.errors?.map((each) => each.pointer)]).toEqual([400, [pointer]]);
  });

  it("is not changed to arguments that would be kept as others, or that are given twice", async () => {
    const { approval } = await asked();
    const post = async (text: string) =>
      await fetch(`${world.url}/v1/approvals/${approval}/decision`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: text,
      });
    const bodies = [
      ['{"decision":"edit","digest":"d","arguments":{"cents":9007199254740993}}', "/arguments/cents"],
      ['{"decision":"edit","digest":"d","arguments":{"cents":1,"cents":900}}', "/arguments/cents"],
      ['{"decision":"reject","digest":"d","decision":"approve"}', "/decision"],
    ] as const;
    for (const [text, pointer] of bodies) {
      const response = await post(text);
      // Every refusal is a problem document.
      const problem = (await response.json()) as Told;
      expect([response.status, problem.code, problem.errors?.[0]?.pointer]).toEqual([400, "invalid_request", pointer]);
    }
    expect((await world.ask<Approval>(`/v1/approvals/${approval}`, { key })).body.state).toBe("open");
  });

  it("of a run that is to end is withdrawn, and who approves it is told so", async () => {
    const { approval, run } = await asked({ suspend: false });
    const cancelled = await world.ask<Run>(`/v1/runs/${run}/cancel`, { key, method: "POST" });
    expect([cancelled.status, cancelled.body.status]).toEqual([202, "running"]);
    const late = await decide(approval, { decision: "approve", digest: "d" });
    expect([late.status, late.body.code]).toEqual([409, "hold_closed"]);
    expect(late.body.detail).toContain("withdrawn");
    expect((await world.ask<Approval>(`/v1/approvals/${approval}`, { key })).body.state).toBe("withdrawn");
  });

  it("that is rejected tells the model why", async () => {
    const { approval, toolCall } = await asked();
    await decide(approval, { decision: "reject", digest: "d", reason: "The invoice is wrong." });
    const { body } = await world.ask<LedgerCall>(`/v1/tool-calls/${toolCall}`, { key });
    expect(body).toMatchObject({ state: "denied", errorCode: "approval_rejected" });
    expect(JSON.stringify(body.result)).toContain("The invoice is wrong.");
  });
});

describe("an outcome that nobody knows", () => {
  it("is settled once by who has looked, and told to readers", async () => {
    const { toolCall } = await asked();
    await world.rows(
      "update signalbox.tool_call set state = 'unknown', started_at = clock_timestamp(), process = 1 where id = $1",
      [toolCall],
    );
    const path = `/v1/tool-calls/${toolCall}/reconcile`;
    const found = { outcome: "succeeded", result: "paid", note: "The bank shows it." };
    const { status, body } = await world.ask<LedgerCall>(path, { key, body: found });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      state: "succeeded",
      result: { content: [{ type: "text", text: "paid" }], isError: false },
      reconciliation: { note: "The bank shows it." },
    });
    expect((await world.ask(path, { key, body: found })).status).toBe(409);
    const told = await world.rows<{ data: string }>(
      "select data from signalbox.event where item_id = $1 and type = 'tool.finished' order by sequence desc limit 1",
      [toolCall],
    );
    expect(JSON.parse(told[0]?.data ?? "{}")).toMatchObject({ state: "succeeded" });
    const audited = await world.rows("select from signalbox.audit_pending where action = 'tool_reconciled'");
    expect(audited).toHaveLength(1);
  });
});
