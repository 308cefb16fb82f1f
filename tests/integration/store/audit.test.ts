import { AUDIT_ACTIONS, canonicalJson } from "@signalbox/contract";
import { afterAll, beforeAll, expect, it } from "vitest";
import { proves } from "../../setup/proves.ts";
import {
  ACTOR,
  codeOf,
  commandFor,
  conclusionOf,
  finishRun,
  modelSettlement,
  proposalOf,
  startedRun,
  textEvent,
  TURN,
} from "./record-parts.ts";
import { operatedStory } from "./operated-story.ts";
import { RecordWorld } from "./record-world.ts";

let world: RecordWorld;

beforeAll(async () => {
  world = await RecordWorld.open();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

interface Entry {
  readonly action: string;
  readonly actor: string | null;
  readonly tenant_id: string;
  readonly conversation_id: string | null;
  readonly run_id: string | null;
  readonly generation: number | null;
  readonly bytes: Buffer;
  readonly at: Date;
}

/** Everything that is audited, in one story. */
async function story(own: RecordWorld): Promise<void> {
  const actor = { ...ACTOR, user: 'u "quoted" \u0001 é 😀', roles: ["b", "a"] };
  const place = await own.conversation({ user: actor.user });
  const process = await own.process();
  const { admission, ownership } = await startedRun(process, place, { actor });
  const bound = await process.bind(ownership);
  const calls = [proposalOf(), proposalOf({ server: null, tool: null, name: "no__tool" })];
  await process.propose(bound, calls);
  const grant = await process.openTool(bound, calls[0]!);
  await process.gates.settleToolCall({
    toolCallId: grant.toolCallId,
    state: "failed",
    resultJson: "{}",
    resultSummary: "",
    errorCode: "tool_timeout",
  });
  const open = await process.openModel(bound.tokenHash);
  await process.admission.admit(commandFor(place, { actor }));
  const next = await ownership.changeWorker({ attemptLimit: 5 });
  await codeOf(ownership.append([textEvent("late")], TURN));
  await process.events[Symbol.asyncDispose]();
  await process.gates.settleModelCall(modelSettlement(open));
  await process.admission.requestCancel({ tenantId: place.tenantId, runId: admission.runId, actor });
  await next.release();
  const again = await process.claimOne();
  await finishRun(again, { outcome: "cancelled", reason: "user_cancel", answer: null });
}

proves("INV-14", {
  title: "each change of state leaves an entry of its own transaction, in canonical bytes that say what the row says",
  sabotages: ["members_out_of_order", "no_entry_for_a_claim"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "members_out_of_order") {
      await own.sabotage(
        "note_taken",
        `'{"attempt":' || p_run.attempt || ',"cause":' || signalbox.quoted(p_cause) || ',"process":' || p_run.owner || '}'`,
        `'{"process":' || p_run.owner || ',"attempt":' || p_run.attempt || '}'`,
      );
    } else if (sabotage === "no_entry_for_a_claim") {
      await own.sabotage("note_taken", "perform signalbox.audit(", "perform signalbox.no_audit(");
      await own.superuser.query(
        "create function signalbox.no_audit(text, text, text, text, text, bigint, text) returns void language sql as ''",
      );
    }
    await story(own);
    await operatedStory(own);
    await own.rows("select signalbox.open_era('operator', null)");
    const entries = await own.rows<Entry>(
      `select action, actor, tenant_id, conversation_id, run_id, generation, bytes, at
       from signalbox.audit_pending order by id`,
    );
    for (const entry of entries) {
      const text = entry.bytes.toString("utf8");
      const read = JSON.parse(text);
      expect(text, "INV-14: canonical").toBe(canonicalJson(read));
      expect(AUDIT_ACTIONS).toContain(entry.action);
      expect(read).toEqual({
        version: 1,
        action: entry.action,
        actor: entry.actor === null ? null : JSON.parse(entry.actor),
        at: entry.at.toISOString(),
        tenantId: entry.tenant_id,
        conversationId: entry.conversation_id,
        runId: entry.run_id,
        generation: entry.generation,
        facts: read.facts,
      });
    }
    const actions = new Set(entries.map((entry) => entry.action));
    expect([...actions].toSorted(), "INV-14: every change").toEqual(
      AUDIT_ACTIONS.filter((action) => action !== "api_key_created").toSorted(),
    );
  },
});

it("a transaction that fails leaves no entry, and one that commits leaves it with its own number", async () => {
  const place = await world.conversation();
  const process = await world.process();
  const { ownership } = await startedRun(process, place);
  const count = async () => (await world.one<{ n: number }>("select count(*) as n from signalbox.audit_pending")).n;
  const before = await count();
  await ownership.seal(conclusionOf(ownership));
  const session = await world.session();
  await session.query("begin");
  const { rows } = await session.query<{ xid: string }>("select pg_current_xact_id()::text as xid");
  await session.query(
    "select signalbox.finish($1, $2, 'failed', 'internal', null, null, null, null, null, 'kept', null, null, null)",
    [place.conversationId, ownership.claim.generation],
  );
  await session.query("rollback");
  expect(await count()).toBe(before);
  expect(await world.rows("select from signalbox.audit_pending where xid::text = $1", [rows[0]!.xid])).toEqual([]);
});
