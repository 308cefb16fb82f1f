/** Everything that is audited besides the life of a run itself: waiting, operators' commands, changes and deletions. */
import type { HoldId } from "@signalbox/contract";
import { callVerdict } from "@signalbox/core";
import { actorText } from "../../../packages/server/src/store/actor-text.ts";
import { ToolCommands } from "../../../packages/server/src/store/queries/tool-commands.ts";
import { ToolQueries } from "../../../packages/server/src/store/queries/tool-queries.ts";
import { PolicyQueries } from "../../../packages/server/src/store/queries/policy-queries.ts";
import { ConversationQueries } from "../../../packages/server/src/store/queries/conversation-queries.ts";
import { AgentQueries } from "../../../packages/server/src/store/queries/agent-queries.ts";
import { WebhookQueries } from "../../../packages/server/src/store/queries/webhook-queries.ts";
import { ACTOR, codeOf, finishRun, newId, proposalOf, startedRun } from "./record-parts.ts";
import { listingOf } from "./pin-tools.ts";
import { until, type RecordProcess, type RecordWorld } from "./record-world.ts";

const TENANT = "default";

export async function operatedStory(own: RecordWorld): Promise<void> {
  const process = await own.process();
  await waits(own, process);
  await commands(own, process);
  await adoption(own, process);
  await changes(own, process);
  await webhooks(own, process);
  await approvals(own, process);
  await tools(process);
}

/** A tool that is listed, changes, is what it was, moves, and is looked at by somebody. */
async function tools(process: RecordProcess): Promise<void> {
  const queries = new ToolQueries(process.tenants);
  const pinned = { server: "mail", tool: "send", title: "Send", effect: "write" } as const;
  const first = { ...pinned, definition: { name: "send" }, definitionHash: "one" };
  const other = { ...pinned, definition: { name: "send", description: "And \u00e9" }, definitionHash: "two" };
  await queries.observe(listingOf(TENANT, [first]));
  await queries.observe(listingOf(TENANT, [other]));
  await queries.observe(listingOf(TENANT, [first]));
  await queries.observe(listingOf(TENANT, [first], { originHash: "elsewhere" }));
  const commands = new ToolCommands(process.tenants);
  const place = { tenantId: TENANT, server: "mail", tool: "send", actor: ACTOR };
  await commands.approve(place, () => true);
  await commands.classify(place, { effect: "read" });
}

async function begun(own: RecordWorld, process: RecordProcess) {
  const place = await own.conversation();
  const { admission, ownership } = await startedRun(process, place);
  return { place, runId: admission.runId, ...(await process.bind(ownership)) };
}

async function waits(own: RecordWorld, process: RecordProcess): Promise<void> {
  const decided = await begun(own, process);
  const holdId = await openHold(process, decided.tokenHash, null);
  await decided.ownership.suspend();
  const decision = { tenantId: TENANT, actor: ACTOR, holdId, decision: "approve", response: {}, digest: null } as const;
  await process.operators.decide(decision);
  await process.operators.decide(decision);
  await finishRun(await process.claimOne());

  const expiring = await begun(own, process);
  const expired = await openHold(process, expiring.tokenHash, 1);
  await expiring.ownership.suspend();
  await until("the hold is expired", async () => {
    await process.processes.sweep(process.incarnation);
    return (
      (await own.one<{ state: string }>("select state from signalbox.hold where id = $1", [expired])).state ===
      "expired"
    );
  });
  await finishRun(await process.claimOne());

  const withdrawn = await begun(own, process);
  await openHold(process, withdrawn.tokenHash, null);
  await withdrawn.ownership.suspend();
  await process.admission.requestCancel({ tenantId: TENANT, runId: withdrawn.runId, actor: ACTOR });
}

async function openHold(process: RecordProcess, tokenHash: string, expiresInMs: number | null) {
  const holdId = newId("hold");
  const hold = { kind: "approval", subject: { tool: "pay" }, digest: null } as const;
  await process.gates.openHold({ tokenHash, process: process.incarnation, holdId, ...hold, expiresInMs });
  return holdId;
}

async function commands(own: RecordWorld, process: RecordProcess): Promise<void> {
  const failed = await begun(own, process);
  const stopId = newId("stop");
  const stop = { kind: "pause", scope: "run", subject: failed.runId, reason: null } as const;
  await process.operators.createStop({ tenantId: TENANT, actor: ACTOR, stopId, ...stop });
  await process.operators.liftStop({ tenantId: TENANT, actor: ACTOR, stopId });
  await process.operators.fail({ tenantId: TENANT, actor: ACTOR, runId: failed.runId, force: false });
  const again = { requested: { retryOf: failed.runId } };
  await finishRun((await startedRun(process, failed.place, again)).ownership);

  const released = await begun(own, process);
  await process.operators.release({ tenantId: TENANT, actor: ACTOR, runId: released.runId });
  await finishRun(await process.claimOne());
}

async function adoption(own: RecordWorld, process: RecordProcess): Promise<void> {
  const dead = await begun(own, process);
  const entry = { kind: "item", entryId: "a", stream: "", body: Buffer.from("a") } as const;
  await process.gates.appendTranscript(dead.tokenHash, [entry]);
  const next = await dead.ownership.changeWorker({ attemptLimit: 5 });
  await next.takeOver({ adopt: true });
  await finishRun(next, { continuity: "kept" });
}

async function changes(own: RecordWorld, process: RecordProcess): Promise<void> {
  const place = await own.conversation();
  const { agentId, conversationId } = place;
  const fields = { instructions: "Help quickly." };
  await new AgentQueries(process.tenants).change({
    tenantId: TENANT,
    agentId,
    fields,
    disabled: null,
    revision: null,
    actor: ACTOR,
  });
  const policies = new PolicyQueries(process.tenants);
  const policy = { tenantId: TENANT, policyId: newId("policy"), hash: "00", document: "{}", actor: ACTOR };
  await policies.create(policy, null);
  const { policyId } = policy;
  await policies.activate({ tenantId: TENANT, policyId, replaces: undefined, actor: ACTOR }, null);
  const viewer = { tenantId: TENANT, user: null };
  const change = { title: "Named" };
  await new ConversationQueries(process.tenants).change(viewer, conversationId, { change, actor: ACTOR });
  await own.rows("select signalbox.delete_conversation($1, null, $2, $3)", [TENANT, conversationId, actorText(ACTOR)]);
}

async function webhooks(own: RecordWorld, process: RecordProcess): Promise<void> {
  const queries = new WebhookQueries(process.tenants);
  const named = { tenantId: TENANT, webhookId: newId("webhook"), actor: ACTOR };
  const sealed = { secret: Buffer.from("sealed"), secretKey: "key" };
  const definition = { url: "https://example.com/\u00e9", description: "", events: ["run.finished"], disabled: false };
  await queries.create({ ...named, ...definition, ...sealed, countMax: 10 });
  await queries.change({ ...named, description: "changed" });
  await queries.rotate({ ...named, ...sealed, graceMs: 1_000 });
  await own.rows("select signalbox.disable_webhook($1, 'gone')", [named.webhookId]);
  await queries.remove(named);
}

/** An approval that does not count any more when it is used, and an outcome that somebody settles. */
async function approvals(own: RecordWorld, process: RecordProcess): Promise<void> {
  const { ownership, tokenHash, runId } = await begun(own, process);
  const bound = { ownership, tokenHash };
  const ask = callVerdict({ verdict: "ask", reason: "A person is asked." });
  const known = proposalOf({ server: "bank", tool: "pay", effect: "irreversible" });
  const judged = { ...ask, callDigest: "d", policyVersion: "v" };
  await process.propose(bound, [{ ...known, callDigest: "d", judged }]);
  await codeOf(process.openTool(bound, known));
  const { id } = await own.one<{ id: HoldId }>("select id from signalbox.hold where run_id = $1", [runId]);
  const decision = { tenantId: TENANT, actor: { ...ACTOR, keyId: "key_unheard_of" }, holdId: id } as const;
  await process.operators.decide({ ...decision, decision: "approve", response: null, digest: "d" });
  await codeOf(process.openTool(bound, known));

  const open = proposalOf({ effect: "write" });
  await process.propose(bound, [open]);
  const { toolCallId } = await process.openTool(bound, open);
  const outcome = { toolCallId, state: "unknown", resultJson: "{}", resultSummary: "", errorCode: null } as const;
  await process.gates.settleToolCall(outcome);
  const found = { toolCallId, outcome: "succeeded", resultJson: null, note: "I looked." } as const;
  await process.operators.reconcile({ tenantId: TENANT, actor: ACTOR, ...found });
}
