/** The operators' commands of the command line against a real API: what they print, and how they are refused. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AcceptedMessage, Conversation, Explanation, Run } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, newId, VERSION } from "../../setup/api-world.ts";
import { runSignalbox, type CliRun } from "../../setup/cli-run.ts";

let world: ApiWorld;
let key: string;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "cli-"));
  world = await ApiWorld.open();
  key = await world.key();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/** Words said to this platform, and nothing else on this machine. */
function say(...words: readonly string[]): Promise<CliRun> {
  return runSignalbox([...words, "--url", world.url, "--api-key", key, "--data-dir", folder]);
}

async function done(...words: readonly string[]): Promise<string> {
  const { exitCode, out, err } = await say(...words);
  expect([exitCode, err]).toEqual([0, ""]);
  return out;
}

async function refused(...words: readonly string[]): Promise<string> {
  const { exitCode, out, err } = await say(...words);
  expect([exitCode, out]).toEqual([1, ""]);
  return err;
}

async function agentThat(whenBusy: string): Promise<string> {
  const agent = `agent-${newId("agent").slice(-12)}`;
  await world.ask("/v1/agents", { key, body: { name: agent, model: "sim/quote", whenBusy } });
  return agent;
}

async function sent(): Promise<{ readonly conversation: string; readonly run: string }> {
  const agent = `agent-${newId("agent").slice(-12)}`;
  await world.ask("/v1/agents", { key, body: { name: agent, model: "sim/quote" } });
  const { body } = await world.ask<Conversation>("/v1/conversations", { key, body: { agent } });
  const path = `/v1/conversations/${body.id}/messages`;
  const accepted = await world.ask<AcceptedMessage>(path, { key, body: { content: "hello" } });
  return { conversation: body.id, run: accepted.body.run.id };
}

describe("explain", () => {
  it("says where a run stands, in sentences and as JSON", async () => {
    const { run, conversation } = await sent();
    expect(await done("explain", run)).toMatch(/nobody has claimed it yet/);
    const ownership = await world.claim(conversation);
    const told = await done("explain", run);
    expect(told).toMatch(/^Process \d+ drives it under generation \d+\./);
    expect(told).toMatch(/generation +\d+, attempt 1 on langgraph/);
    expect(told).toMatch(/waits for +nothing/);
    const json = JSON.parse(await done("explain", run, "--json")) as Explanation;
    expect(json).toMatchObject({ runId: run, state: "running", generation: ownership.claim.generation });
  });

  it("knows nothing of a run that does not exist", async () => {
    expect(await refused("explain", newId("run"))).toContain("(not_found)");
  });
});

describe("pause and resume", () => {
  it("keep a run and let it go on, and explain and status show it meanwhile", async () => {
    const { run } = await sent();
    expect(await done("pause", run)).toContain(run);
    expect(await done("explain", run)).toMatch(/stops +pause of its run stp_/);
    expect(await done("status")).toMatch(new RegExp(`pause +stp_\\w+ +run ${run} since`));
    await done("resume", run);
    expect(await done("explain", run)).toMatch(/stops +none/);
    expect(await done("status")).not.toContain(run);
  });
});

describe("fail, retry and release", () => {
  it("retry waits behind the active run, also where the agent's messages interrupt", async () => {
    const { body } = await world.ask<Conversation>("/v1/conversations", {
      key,
      body: { agent: await agentThat("interrupt") },
    });
    const send = async () => {
      const told = await world.ask<AcceptedMessage>(`/v1/conversations/${body.id}/messages`, {
        key,
        body: { content: "hello" },
      });
      return told.body.run.id;
    };
    const first = await send();
    await done("fail", first);
    const active = await send();
    await done("retry", first);
    const states = await world.rows<{ id: string; state: string }>(
      "select id, state from signalbox.run where conversation_id = $1 order by position",
      [body.id],
    );
    expect(states.map(({ state }) => state)).toEqual(["failed", "admitted", "queued"]);
    expect(states[1]?.id).toBe(active);
  });

  it("end a run, answer its message again, and say why they do not", async () => {
    const { run } = await sent();
    expect(await refused("release", run)).toMatch(/Nobody drives the run: it is admitted\. \(command_refused\)/);
    expect(await refused("retry", run)).toContain("(command_refused)");
    expect(await done("fail", run)).toBe(`${run} is failed (operator_stop)\n`);
    expect(await refused("fail", run)).toContain("ended already");
    const again = JSON.parse(await done("retry", run, "--json")) as Run;
    expect(again).toMatchObject({ retryOf: run });
    expect(again.id).not.toBe(run);
  });

  it("release takes a run from its owner", async () => {
    const { run, conversation } = await sent();
    const { claim } = await world.claim(conversation);
    expect(await done("release", run)).toContain(run);
    const next = await world.claim(conversation);
    expect(next.claim).toMatchObject({ runId: claim.runId });
    expect(next.claim.generation).toBeGreaterThan(claim.generation);
  });
});

describe("stop", () => {
  it("ends what it covers, is listed with its reason, and is lifted by name", async () => {
    const { run, conversation } = await sent();
    const made = await done("stop", "conversation", conversation, "--reason", "it misbehaves");
    const [, stop] = /^(stp_\w+): a stop of conversation cnv_\w+ stands\.\n$/.exec(made)!;
    expect(await done("explain", run)).toContain("It has ended: cancelled.");
    expect(await done("stop")).toMatch(new RegExp(`${stop} +stop +conversation +${conversation} .*it misbehaves`));
    expect(await done("stop", "--lift", stop!)).toBe(`The stop of conversation ${conversation} is lifted.\n`);
    expect(await done("stop")).not.toContain(stop);
  });

  it("is refused where there is nothing of that name", async () => {
    expect(await refused("stop", "run", newId("run"))).toContain("(not_found)");
  });
});

describe("status", () => {
  it("shows what can run, what waits and what is owed", async () => {
    const { conversation } = await sent();
    const holdId = await world.openHold(conversation);
    const told = await done("status");
    expect(told).toContain(`signalbox ${VERSION}`);
    expect(told).toMatch(/runtime +langgraph +room for 4/);
    expect(told).toMatch(new RegExp(`hold +${holdId} +input of run_`));
    expect(told).toContain("Nothing is owed for longer than 10 s.");
    const json = JSON.parse(await done("status", "--json")) as Record<string, unknown>;
    expect(json).toMatchObject({ version: VERSION, obligations: [] });
  });
});

describe("words that are off", () => {
  it.each([["pause"], ["resume"], ["retry"], ["fail"], ["release"], ["explain"]])("%s wants a run", async (verb) => {
    const { exitCode, err } = await say(verb);
    expect(exitCode).toBe(2);
    expect(err).toContain("name a run");
    expect((await say(verb, "a", "b")).err).toContain("too many words");
  });
});
