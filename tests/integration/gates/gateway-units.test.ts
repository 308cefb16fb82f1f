/** All servers at one address: two eras of clients before two eras of servers, names, and what happens when one is gone. */
import {
  startEverythingServer,
  startMcpServer,
  startSessionServer,
  type LocalServer,
  type McpNeighbour,
} from "@signalbox/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "../../setup/until.ts";
import { clientOf, officialClient, type GatewayClient } from "./gateway-clients.ts";
import { LETS_ALL, startGatewayWorld, type GatewayWorld } from "./gateway-fixture.ts";
import { textOf } from "./tool-fixture.ts";

const START_MS = 60_000;
const stack = new AsyncDisposableStack();
let world: GatewayWorld;
let key: string;
let client: GatewayClient;
let unit: string;
let changing: McpNeighbour;
let dying: LocalServer;

beforeAll(async () => {
  const modern = stack.use(await startEverythingServer());
  const older = stack.use(await startSessionServer());
  changing = stack.use(await startMcpServer({ tools: { fine: { result: "fine" } } }));
  dying = stack.use(await startEverythingServer());
  const http = {
    transport: "http",
    headers: { authorization: "Bearer the operator's own" },
    tools: {},
    clients: "all",
  } as const;
  world = stack.use(
    await startGatewayWorld({
      policy: LETS_ALL,
      servers: {
        new: { ...http, url: modern.url },
        old: { ...http, url: older.url },
        shaky: { ...http, url: changing.url },
        dying: { ...http, url: dying.url },
      },
    }),
  );
  key = await world.key();
  unit = `${world.url}/mcp/units/default`;
  client = clientOf(key, unit);
}, START_MS);
afterAll(() => stack.disposeAsync());

describe("all servers at one address", () => {
  describe.each(["modern", "handshake"] as const)("for clients of the %s era", (era) => {
    it("are greeted, listed and called by the protocol's own client", async () => {
      const official = await officialClient(era, { url: unit, key });
      const names = (await official.listTools()).tools.map(({ name }) => name);
      expect(names).toEqual([...names].toSorted());
      expect(names).toEqual(expect.arrayContaining(["new__test_simple_text", "old__get", "shaky__fine"]));
      const newer = await official.callTool({ name: "new__test_simple_text", arguments: {} });
      expect(newer.content).toEqual([{ type: "text", text: "This is a simple text response for testing." }]);
      await official.callTool({ name: "old__set", arguments: { value: era } });
      const older = await official.callTool({ name: "old__get", arguments: {} });
      expect(older.content).toEqual([{ type: "text", text: era }]);
      const prompts = (await official.listPrompts()).prompts.map(({ name }) => name);
      expect(prompts).toContain("new__test_simple_prompt");
      const prompt = await official.getPrompt({ name: "new__test_simple_prompt" });
      expect(prompt.messages).toHaveLength(1);
      const resources = (await official.listResources()).resources.map(({ uri }) => uri);
      expect(resources).toContain("mcp+new+test://static-text");
      const read = await official.readResource({ uri: "mcp+new+test://static-text" });
      expect(read.contents).toMatchObject([{ uri: "mcp+new+test://static-text", mimeType: "text/plain" }]);
      const templates = (await official.listResourceTemplates()).resourceTemplates.map(
        ({ uriTemplate }) => uriTemplate,
      );
      expect(templates).toContain("mcp+new+test://template/{id}/data");
      await official.close();
    });

    it("tell how far a call is, under the token of whoever asked", async () => {
      const response = await client.stream("tools/call", {
        era,
        params: { name: "new__test_tool_with_progress", arguments: {} },
        meta: { progressToken: "mine" },
      });
      const messages = [...(await response.text()).matchAll(/^data: (.*)$/gm)].map(([, json = ""]) => JSON.parse(json));
      const progress = messages.filter(({ method }) => method === "notifications/progress");
      expect(progress.map(({ params }) => [params.progressToken, params.progress])).toEqual([
        ["mine", 0],
        ["mine", 50],
        ["mine", 100],
      ]);
      expect(messages.at(-1).result.content).toEqual([{ type: "text", text: "done" }]);
    });

    it("complete arguments, and know nothing of what is not there", async () => {
      const ref = { type: "ref/prompt", name: "new__test_prompt_with_arguments" };
      const completed = await client.ask("completion/complete", {
        era,
        params: { ref, argument: { name: "arg1", value: "a" } },
      });
      expect(completed.message.result).toMatchObject({ completion: { values: [] } });
      const unknown = await client.call("new__no_such_tool", {}, { era });
      expect(unknown.message.error).toMatchObject({ code: -32_602 });
      const elsewhere = await client.ask("prompts/get", { era, params: { name: "nowhere__p" } });
      expect(elsewhere.message.error).toMatchObject({ code: -32_602 });
      const method = await client.ask("no/such/method", { era });
      expect([method.status, method.message.error?.code]).toEqual([era === "modern" ? 404 : 200, -32_601]);
    });
  });

  it("ask for input where the client can give it, and end with an error where it cannot", async () => {
    const capabilities = { "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } };
    const name = "new__test_input_required_result_request_state";
    const asked = await client.call(name, {}, { meta: capabilities });
    expect(asked.message.result).toMatchObject({ resultType: "input_required" });
    const { requestState } = asked.message.result ?? {};
    const inputResponses = { confirm: { action: "accept", content: { ok: true } } };
    const done = await client.call(
      name,
      {},
      { meta: capabilities, params: { name, arguments: {}, inputResponses, requestState } },
    );
    expect(textOf(done)).toBe("state-ok");
    const older = await client.call("new__test_input_required_result_elicitation", {}, { era: "handshake" });
    expect(older.message.result).toMatchObject({ isError: true });
  });

  it("tell who listens that tools have changed", async () => {
    const response = await client.stream("subscriptions/listen", {
      id: "listen",
      params: { notifications: { toolsListChanged: true, promptsListChanged: true } },
    });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const acknowledged = JSON.parse((await reader.read()).value!.split("data: ")[1]!);
    expect(acknowledged.params.notifications).toEqual({ toolsListChanged: true });
    changing.setTools({ fine: { result: "fine" }, more: { result: "more" } });
    await until("the new tool", async () => (await client.ask("tools/list")).body.includes("shaky__more"));
    const told = JSON.parse((await reader.read()).value!.split("data: ")[1]!);
    expect(told).toMatchObject({
      method: "notifications/tools/list_changed",
      params: { _meta: { "io.modelcontextprotocol/subscriptionId": "listen" } },
    });
    await reader.cancel();
  });

  it("lists the others in less than a second when one is dead, and says so", async () => {
    const before = (await client.ask("tools/list")).message.result;
    expect(before?._meta).not.toHaveProperty("signalbox/degraded");
    await dying.close();
    const degraded = { "signalbox/degraded": [{ server: "dying", code: "tool_upstream_failed" }] };
    for (const method of ["prompts/list", "resources/list", "resources/templates/list"]) {
      const startedAtMs = performance.now();
      const { message } = await client.ask(method);
      expect(performance.now() - startedAtMs).toBeLessThan(1_000);
      expect(message.result?._meta).toMatchObject(degraded);
    }
    const listed = async () => (await client.ask("tools/list")).message.result;
    await until("a list without the dead", async () => !JSON.stringify(await listed()).includes("dying__"));
    const startedAtMs = performance.now();
    const after = await listed();
    expect(performance.now() - startedAtMs).toBeLessThan(1_000);
    expect(after?._meta).toMatchObject(degraded);
    expect(JSON.stringify(after?.tools)).toContain("new__test_simple_text");
    const called = await client.call("dying__test_simple_text");
    expect(called.message.result).toMatchObject({ isError: true });
    expect(called.body).not.toContain(String(dying.port));
    expect(textOf(await client.call("old__get"))).toBe("handshake");
  });
});
