/** What people at a terminal, and programs with the client, do to agents and conversations: against the real API. */
import type { Agent, AgentRevision, Conversation, Message } from "@signalbox/contract";
import { Signalbox } from "@signalbox/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, newId } from "../../setup/api-world.ts";
import { runSignalbox, type CliRun } from "../../setup/cli-run.ts";
import { conclusionOf, finalizationOf } from "../store/record-parts.ts";

let world: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

function run(...words: readonly string[]): Promise<CliRun> {
  return runSignalbox([...words, "--url", world.url, "--api-key", key, "--data-dir", "/does/not/exist"]);
}

/** The command as a program asks it: one line of JSON, nothing on standard error. */
async function value<T>(...words: readonly string[]): Promise<T> {
  const { exitCode, out, err } = await run(...words, "--json");
  expect([exitCode, err]).toEqual([0, ""]);
  expect(out.trimEnd().split("\n")).toHaveLength(1);
  // Every test looks into it.
  return JSON.parse(out) as T;
}

async function newAgent(): Promise<string> {
  const name = `agent-${newId("agent").slice(-12)}`;
  await value("agents", "create", name, "--model", "sim/quote");
  return name;
}

async function newConversation(agent: string): Promise<string> {
  return (await new Signalbox({ url: world.url, apiKey: key }).conversations.create({ agent })).id;
}

/** Says something in the conversation and has it answered. */
async function exchange(id: string, content: string): Promise<void> {
  await world.ask(`/v1/conversations/${id}/messages`, { key, body: { content } });
  const ownership = await world.claim(id);
  const { leaf, digest } = await ownership.seal(conclusionOf(ownership));
  await ownership.finish(
    finalizationOf({
      leaf,
      digest,
      answer: { messageId: newId("message"), text: "yes", partial: false },
      outcome: "completed",
    }),
  );
}

describe("agents", () => {
  it("are changed, revision by revision", async () => {
    const name = await newAgent();
    const changed = await run("agents", "update", name, "--instructions", "Be brief.", "--when-busy", "reject");
    expect(changed).toEqual({ exitCode: 0, out: `${name} is at revision 2\n`, err: "" });
    const agent = await value<Agent>("agents", "update", name, "--model", "sim/other", "--revision", "2");
    expect(agent).toMatchObject({ revision: 3, model: "sim/other", instructions: "Be brief.", whenBusy: "reject" });
    const late = await run("agents", "update", name, "--instructions", "Late.", "--revision", "2");
    expect([late.exitCode, late.out]).toEqual([1, ""]);
    expect(late.err).toContain("(revision_changed)");

    const { data } = await value<{ data: AgentRevision[] }>("agents", "revisions", name);
    expect(data.map(({ revision, model }) => `${revision} ${model}`)).toEqual([
      "3 sim/other",
      "2 sim/quote",
      "1 sim/quote",
    ]);
    const table = await run("agents", "revisions", name, "--limit", "1");
    expect(table.out).toMatch(/^3 .*langgraph .*sim\/other/);
    expect(table.err).toContain("There are more: --cursor ");
  });

  it("are disabled and enabled", async () => {
    const name = await newAgent();
    expect((await run("agents", "disable", name)).out).toBe(
      `${name} takes no new messages; what was accepted is answered\n`,
    );
    expect((await run("agents")).out).toContain(`${name} (disabled)`);
    expect((await run("agents", "show", name)).out).toContain("no, it is disabled");
    const refused = await run("chat", name, "--message", "hello");
    expect([refused.exitCode, refused.out]).toEqual([1, ""]);
    expect(refused.err).toContain("(agent_disabled)");
    expect(await value<Agent>("agents", "enable", name)).toMatchObject({ disabled: false, revision: 1 });
    expect((await run("agents")).out).not.toContain(`${name} (disabled)`);
  });

  it("are not changed by what means nothing", async () => {
    const name = await newAgent();
    const refused = await run("agents", "update", name, "--tool", "docs/none");
    expect([refused.exitCode, refused.err.includes("(tool_unknown)")]).toEqual([1, true]);
    expect(await value<Agent>("agents", "update", name, "--no-tools")).toMatchObject({ revision: 1, tools: [] });
  });
});

describe("conversations", () => {
  it("are found by words, agent and archive", async () => {
    const [agent, other] = [await newAgent(), await newAgent()];
    const [first, second, third] = [
      await newConversation(agent),
      await newConversation(agent),
      await newConversation(other),
    ];
    await exchange(first, "where is the lighthouse");
    await exchange(third, "a lighthouse keeper");
    const ids = async (...words: readonly string[]): Promise<readonly string[]> =>
      (await value<{ data: Conversation[] }>("conversations", ...words)).data.map(({ id }) => id);
    expect(await ids("--q", "lighthouse")).toEqual([third, first]);
    expect(await ids("--q", "lighthouse", "--agent", agent)).toEqual([first]);
    expect(await ids("--agent", agent)).toEqual([second, first]);

    expect((await run("conversations", "archive", first)).out).toBe(`${first} is archived\n`);
    expect(await ids("--agent", agent)).toEqual([second]);
    expect(await ids("--agent", agent, "--archived", "true")).toEqual([first]);
    expect(await ids("--agent", agent, "--archived", "all")).toEqual([second, first]);
    expect((await run("conversations", "--agent", agent, "--archived", "true")).out).toContain("archived");
    expect((await run("conversations", "unarchive", first)).out).toBe(`${first} is in lists again\n`);
    expect(await ids("--agent", agent)).toEqual([second, first]);
    expect((await run("conversations", "--q", "nobody said this")).out).toBe("No such conversations.\n");
  });

  it("are renamed", async () => {
    const id = await newConversation(await newAgent());
    expect((await run("conversations", "rename", id, "Order 7")).out).toBe(`${id} is now "Order 7"\n`);
    expect(await value<Conversation>("conversations", "rename", id, "Order 8")).toMatchObject({ title: "Order 8" });
    expect((await run("conversations", "rename", id, "")).out).toBe(`${id} has no title now\n`);
  });

  it("are forked, as a whole or up to a message", async () => {
    const id = await newConversation(await newAgent());
    await exchange(id, "first");
    await exchange(id, "second");
    const said = async (conversation: string): Promise<readonly string[]> =>
      (await run("conversations", "show", conversation)).out.split("\n").filter((line) => line !== "");
    const whole = await value<Conversation>("conversations", "fork", id);
    expect(whole.forkedFrom).toBe(id);
    expect(await said(whole.id)).toEqual(["user", "first", "assistant", "yes", "user", "second", "assistant", "yes"]);

    const client = new Signalbox({ url: world.url, apiKey: key });
    const messages: Message[] = [];
    for await (const message of client.conversations.open(id).messages()) messages.push(message);
    const part = await run("conversations", "fork", id, "--message", messages[1]?.id ?? "");
    expect(part.out).toMatch(new RegExp(`^cnv_[0-9a-f]{32} begins with what was said in ${id}\n$`));
    expect(await said(part.out.split(" ")[0] ?? "")).toEqual(["user", "first", "assistant", "yes"]);
    const lost = await run("conversations", "fork", id, "--message", newId("message"));
    expect([lost.exitCode, lost.err.includes("(not_found)")]).toEqual([1, true]);
  });

  it("are deleted, at once or when their last run has ended", async () => {
    const agent = await newAgent();
    const [idle, busy] = [await newConversation(agent), await newConversation(agent)];
    expect((await run("conversations", "delete", idle)).out).toBe(`${idle} is gone\n`);
    expect((await run("conversations", "show", idle)).err).toContain("(not_found)");
    await world.ask(`/v1/conversations/${busy}/messages`, { key, body: { content: "hello" } });
    await world.claim(busy);
    expect(await value("conversations", "delete", busy)).toEqual({ id: busy, state: "deleting" });
    expect((await run("conversations", "delete", busy)).out).toContain("is gone once its last call has ended");
  });
});
