import type { PinnedTool } from "@signalbox/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { AgentQueries } from "../../../packages/server/src/store/queries/agent-queries.ts";
import { AnsweringQueries } from "../../../packages/server/src/store/queries/answering-queries.ts";
import { ConversationQueries } from "../../../packages/server/src/store/queries/conversation-queries.ts";
import { ACTOR, newId } from "./record-parts.ts";
import { pinTools } from "./pin-tools.ts";
import { RecordWorld, type RecordProcess } from "./record-world.ts";

let world: RecordWorld;
let process: RecordProcess;

beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

function pinOf(server: string, tool: string): PinnedTool {
  const definition = { name: tool, inputSchema: { type: "object" } };
  return { server, tool, title: tool, definition, definitionHash: `${server} ${tool}`, effect: "read" };
}

async function conversationOf(tools: readonly string[], user: string | null = null) {
  const agentId = newId("agent");
  const definition = { model: "sim/echo", tools };
  const agent = { tenantId: "default", agentId, name: agentId, runtime: "scripted", definition, actor: ACTOR };
  await new AgentQueries(process.tenants).create(agent, null);
  const conversationId = newId("conversation");
  const conversation = { tenantId: "default", conversationId, agentId, title: null, metadata: {} };
  await new ConversationQueries(process.tenants).create({ ...conversation, actor: { ...ACTOR, user } }, null);
  return { agentId, conversationId };
}

it("finds the agent as others find it, with those of its tools that are pinned", async () => {
  const answering = new AnsweringQueries(process.pools.app);
  const files = pinOf("files", "read/every.thing");
  const other = pinOf("files", "write");
  await pinTools(process.tenants, "default", [files, other]);
  await pinTools(process.tenants, "elsewhere", [pinOf("mail", "send")]);
  const { agentId, conversationId } = await conversationOf(["files/read/every.thing", "files/unlisted", "mail/send"]);
  const found = await answering.find({ tenantId: "default", user: null }, conversationId);
  const agent = await new AgentQueries(process.tenants).find("default", agentId);
  const { disabled: _, ...named } = agent!;
  expect(found).toEqual({ ...named, participant: null, pins: [files] });
});

it("finds nothing of a stranger's, and no pins where a definition names no tools", async () => {
  const answering = new AnsweringQueries(process.pools.app);
  const { conversationId } = await conversationOf([], "ada");
  const seenBy = (tenantId: string, user: string | null) => answering.find({ tenantId, user }, conversationId);
  expect(await seenBy("default", "ada")).toMatchObject({ pins: [] });
  expect(await seenBy("default", null)).toMatchObject({ pins: [] });
  expect(await seenBy("default", "eve")).toBeNull();
  expect(await seenBy("elsewhere", null)).toBeNull();
  expect(await answering.find({ tenantId: "default", user: null }, newId("conversation"))).toBeNull();
});
