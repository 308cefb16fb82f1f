/** A gate of the previous release beside a run that an operator paused or stopped: it hears only what it knows. */
import type { StopKind } from "@signalbox/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { unpackPreviousRelease, type PreviousRelease } from "../../setup/previous-release.ts";
import { ACTOR, finishRun, newId, proposalOf, snapshotOf, startedRun } from "../store/record-parts.ts";
import { RecordWorld, type Bound, type RecordProcess } from "../store/record-world.ts";

let release: PreviousRelease;
let world: RecordWorld;
let process: RecordProcess;
let codes: ReadonlySet<string>;
beforeAll(async () => {
  release = unpackPreviousRelease();
  world = await RecordWorld.open();
  process = await world.process();
  const { ERROR_CODES } = await release.module("../../@signalbox/contract/dist/index.js");
  codes = new Set(Object.keys(ERROR_CODES as object));
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  release[Symbol.dispose]();
});

async function started() {
  const { admission, ownership } = await startedRun(process, await world.conversation());
  return { runId: admission.runId, bound: await process.bind(ownership) };
}

/** What the released statement of this name is answered. */
async function asked(name: string, values: readonly unknown[]): Promise<{ readonly code?: string }> {
  const statements = await release.module("store/statements/record-statements.js");
  const { text } = statements[name] as { readonly text: string };
  const { rows } = await process.pools.run.query<{ answer: { readonly code?: string } }>(text, [...values]);
  return rows[0]!.answer;
}

function asksModel({ tokenHash }: Bound) {
  const values = [tokenHash, newId("modelCall"), process.incarnation, "anthropic", "sim/echo", 10, []];
  return asked("OPEN_MODEL_CALL", values);
}

function put(kind: StopKind, subject: string) {
  const stop = { stopId: newId("stop"), kind, scope: "run", subject, reason: null } as const;
  return process.operators.createStop({ tenantId: "default", actor: ACTOR, ...stop });
}

const stateOf = async (runId: string) =>
  (await world.one<{ state: string }>("select state from signalbox.run where id = $1", [runId])).state;

test("a pause suspends the run at its next call, and once it is lifted any supervisor goes on with it", async () => {
  const { runId, bound } = await started();
  expect((await asksModel(bound)).code).toBeUndefined();
  await world.superuser.query("update signalbox.model_call set state = 'failed', finished_at = signalbox.clock()");
  const { stopId } = await put("pause", runId);
  const { code } = await asksModel(bound);
  expect(code).toBe("stale_generation");
  expect(codes).toContain(code);
  expect(await stateOf(runId)).toBe("suspended");
  expect((await asksModel(bound)).code).toBe("slot_unknown");

  await process.operators.liftStop({ tenantId: "default", actor: ACTOR, stopId });
  await process.operators.carryOut(10);
  expect(await stateOf(runId)).toBe("admitted");
  expect((await process.claimOne()).claim.runId).toBe(runId);
});

test("while another call of the run is outside, a paused one is to be made again", async () => {
  const { runId, bound } = await started();
  const proposal = proposalOf();
  await process.propose(bound, [proposal]);
  await asksModel(bound);
  const { stopId } = await put("pause", runId);
  const values = [bound.tokenHash, process.incarnation, proposal.toolUseId, proposal.name, proposal.argumentsDigest];
  const answers = await Promise.all([asked("OPEN_TOOL_CALL", values), asksModel(bound)]);
  expect(answers.map(({ code }) => code)).toEqual(["database_unavailable", "database_unavailable"]);
  expect(codes).toContain("database_unavailable");
  expect(await stateOf(runId)).toBe("running");
  await process.operators.liftStop({ tenantId: "default", actor: ACTOR, stopId });
  expect(await asked("OPEN_TOOL_CALL", values)).toMatchObject({ kind: "execute" });
});

test("its intents hold the ownership alone, so that no two of them wait for each other to suspend", async () => {
  const { runId, bound } = await started();
  const statements = await release.module("store/statements/record-statements.js");
  const { text } = statements["OPEN_MODEL_CALL"] as { readonly text: string };
  const first = await world.session();
  await first.query("begin");
  await first.query(text, [bound.tokenHash, newId("modelCall"), process.incarnation, "anthropic", "sim/echo", 10, []]);
  const second = asksModel(bound);
  await world.untilBlockedBy(first);
  await first.query("commit");
  expect((await second).code).toBeUndefined();
  expect(await stateOf(runId)).toBe("running");
});

test("its transcript begins behind what another runtime wrote, though it asks from the beginning", async () => {
  const place = await world.conversation();
  const { ownership } = await startedRun(process, place);
  const { tokenHash } = await process.bind(ownership);
  const item = (entryId: string) => ({ kind: "item", entryId, stream: "", body: Buffer.from(entryId) }) as const;
  await process.gates.appendTranscript(tokenHash, [item("theirs")]);
  await finishRun(ownership);
  const snapshot = { ...snapshotOf(place), runtime: "langgraph" };
  const next = await process.bind((await startedRun(process, place, { snapshot })).ownership);
  await process.gates.appendTranscript(next.tokenHash, [item("ours")]);
  const statements = await release.module("store/statements/record-statements.js");
  const { text } = statements["LOAD_TRANSCRIPT"] as { readonly text: string };
  const { conversationId, generation } = next.ownership.claim;
  const { rows } = await process.pools.run.query<{ entry_id?: string; entryId?: string }>(text, [
    conversationId,
    generation,
    0,
    1_048_576,
  ]);
  const seen = rows.map((row) => row.entryId ?? row.entry_id);
  expect(seen).toEqual(["ours"]);
  await finishRun(next.ownership, { rung: "rebuilt" });
});

test("a stop is a cancel to it, also before the run was marked", async () => {
  const { runId, bound } = await started();
  await put("stop", runId);
  const denied = [bound.tokenHash, process.incarnation, null, "pay", "digest", "tool_not_allowed", "No."];
  for (const { code } of [await asksModel(bound), await asked("DENY_TOOL_CALL", denied)]) {
    expect(code).toBe("run_cancelled");
    expect(codes).toContain(code);
  }
});
