/** Clients of the gateway under the tenant's policy: what they are shown, what they may call, and under which conditions. */
import type { PolicyDocument, PolicyRule } from "@signalbox/contract";
import { startMcpServer, type McpNeighbour } from "@signalbox/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "../../setup/until.ts";
import { clientOf, type GatewayClient } from "./gateway-clients.ts";
import { putPolicy, startGatewayWorld, type GatewayWorld } from "./gateway-fixture.ts";
import { textOf } from "./tool-fixture.ts";

const stack = new AsyncDisposableStack();
let server: McpNeighbour;
let world: GatewayWorld;
let unit: GatewayClient;
let docs: GatewayClient;

const READS: PolicyRule = { id: "reads", verdict: "allow", tools: { effects: ["read"] } };

beforeAll(async () => {
  const tools = {
    find: { result: { content: [{ type: "text" as const, text: '{"name":"Emma","salary":7}' }] } },
    pay: { result: "paid" },
    drop: { result: "dropped" },
    long: { hugeBytes: 5_000 },
    slow: { result: "late", delayMs: 5_000 },
  };
  server = stack.use(await startMcpServer({ tools }));
  const classes = {
    find: { effect: "read" },
    pay: { effect: "write" },
    drop: { effect: "irreversible" },
    long: { effect: "read" },
    slow: { effect: "read" },
  } as const;
  world = stack.use(
    await startGatewayWorld({
      servers: { docs: { transport: "http", url: server.url, headers: {}, tools: classes } },
    }),
  );
  const key = await world.key();
  unit = clientOf(key, `${world.url}/mcp/units/default`);
  docs = clientOf(key, `${world.url}/mcp/servers/docs`);
}, 60_000);
afterAll(() => stack.disposeAsync());

/** In place, and known to the gate. */
async function inPlace(rules: readonly PolicyRule[]): Promise<void> {
  const mark: PolicyRule = { id: "mark", verdict: "forbid", tools: { names: ["docs__mark"] } };
  const document: PolicyDocument = { version: 1, description: crypto.randomUUID(), rules: [mark, ...rules] };
  await putPolicy(world.rows, document);
  const [row] = await world.rows<{ hash: string }>("select hash from signalbox.policy where active");
  await until("the policy is judged by", async () => {
    await docs.call("find", {});
    const text = "select policy_version from signalbox.gateway_call order by id desc limit 1";
    return (await world.rows<{ policy_version: string | null }>(text))[0]?.policy_version?.startsWith(row!.hash);
  });
}

async function names(client: GatewayClient): Promise<readonly string[]> {
  // Lists of tools have this shape.
  const { tools } = (await client.ask("tools/list")).message.result as { tools: { name: string }[] };
  return tools.map(({ name }) => name.replace("docs__", "")).toSorted();
}

describe("the shipped policy", () => {
  it("lets clients read, and asks about what changes something", async () => {
    expect(textOf(await docs.call("find"))).toContain("Emma");
    const asked = await docs.call("pay", { to: "a@example.com" });
    expect(asked.message.result).toMatchObject({ resultType: "input_required" });
    expect(server.count("pay")).toBe(0);
    const [call] = await world.rows("select state, verdict, judgement from signalbox.gateway_call where tool = 'pay'");
    expect(call).toMatchObject({
      state: "awaiting_approval",
      verdict: "ask",
      judgement: { rules: expect.arrayContaining(["ask-foreign-destination"]) },
    });
    expect(JSON.stringify(call?.judgement)).toContain("What this client has read is not known");
  });
});

describe("a policy of the tenant", () => {
  it("refuses in words that the client reads, and the audit names the policy", async () => {
    const when = { kind: "argument", at: "/amount", test: "more_than", value: 50 } as const;
    const pays: PolicyRule = { id: "pays", verdict: "allow", tools: { names: ["docs__pay"] } };
    const large: PolicyRule = { id: "large", verdict: "forbid", when, reason: "Nothing above 50 leaves here." };
    await inPlace([READS, pays, large]);
    expect(textOf(await docs.call("pay", { amount: 50 }))).toBe("paid");
    const before = server.count("pay");
    for (const client of [docs, unit]) {
      const name = client === docs ? "pay" : "docs__pay";
      const refused = await client.call(name, { amount: 51 });
      expect(refused.message.result).toMatchObject({ isError: true });
      expect(textOf(refused)).toBe("Refused (policy_denied): Nothing above 50 leaves here.");
    }
    // An argument of another type cannot be judged.
    expect(textOf(await docs.call("pay", { amount: "51" }))).toMatch(/policy_unavailable/);
    expect(server.count("pay")).toBe(before);
    const [denied] = await world.rows(
      `select convert_from(bytes, 'UTF8')::json -> 'facts' as facts from signalbox.audit_pending
       where action = 'tool_denied' and convert_from(bytes, 'UTF8') like '%above 50%' limit 1`,
    );
    expect(denied?.facts).toMatchObject({ errorCode: "policy_denied", name: "docs/pay", state: "denied" });
    const [row] = await world.rows("select judgement from signalbox.gateway_call where error_code = 'policy_denied'");
    expect(row?.judgement).toMatchObject({ rules: ["large"] });
  });

  it("is explained for a call that was recorded, rule by rule", async () => {
    await inPlace([
      READS,
      { id: "never", verdict: "forbid", tools: { names: ["docs__pay"] }, reason: "Not from here." },
    ]);
    await docs.call("pay", { amount: 7 });
    const [call] = await world.rows<{ id: string }>("select id from signalbox.gateway_call order by id desc limit 1");
    const reader = await world.key({ rights: ["read", "operate"] });
    const response = await fetch(`${world.url}/v1/policies/current/explain`, {
      method: "POST",
      headers: { authorization: `Bearer ${reader}`, "content-type": "application/json" },
      body: JSON.stringify({ toolCallId: call?.id }),
    });
    expect(await response.json()).toMatchObject({
      tool: "docs__pay",
      state: "denied",
      decision: { verdict: "deny", rules: ["never"], reason: "Not from here." },
      rules: expect.arrayContaining([expect.objectContaining({ id: "never", isAbout: true, matches: true })]),
      facts: { areSourcesCut: true },
    });
  });

  it("shows no tool that it forbids whatever its arguments, and those that depend on them", async () => {
    const when = { kind: "argument", at: "/amount", test: "more_than", value: 50 } as const;
    const pays: PolicyRule = { id: "pays", verdict: "ask", tools: { names: ["docs__pay"] }, when };
    const clients: PolicyRule = { id: "clients", verdict: "forbid", tools: { names: ["docs__long"] } };
    const agents: PolicyRule = { id: "agents", verdict: "allow", principals: { runtimes: ["langgraph"] } };
    await inPlace([READS, pays, { ...clients, principals: { runtimes: ["mcp_client"] } }, agents]);
    expect(await names(docs)).toEqual(["find", "pay", "slow"]);
    expect(await names(unit)).toEqual(["find", "pay", "slow"]);
    expect(textOf(await docs.call("drop"))).toMatch(/policy_denied/);
  });

  it.each(["modern", "handshake"] as const)("hides and bounds results for the %s era", async (era) => {
    await inPlace([
      { ...READS, conditions: [{ kind: "redact", at: ["/salary"] }] },
      {
        id: "short",
        verdict: "allow",
        tools: { names: ["docs__long"] },
        conditions: [{ kind: "limit", resultBytes: 1_024 }],
      },
      {
        id: "soon",
        verdict: "allow",
        tools: { names: ["docs__slow"] },
        conditions: [{ kind: "limit", timeoutMs: 100 }],
      },
    ]);
    for (const client of [docs, unit]) {
      const prefix = client === docs ? "" : "docs__";
      const found = await client.call(`${prefix}find`, {}, { era });
      expect(JSON.parse(textOf(found))).toEqual({ name: "Emma", salary: "[redacted]" });
      const long = await client.call(`${prefix}long`, {}, { era });
      expect(long.body.length).toBeLessThan(2_000);
      expect(textOf(await client.call(`${prefix}slow`, {}, { era }))).toMatch(/tool_timeout/);
    }
    const kept = "select count(*)::int as n from signalbox.gateway_call where tool = 'find' and result like '%7%'";
    const [before] = await world.rows<{ n: number }>(kept);
    await docs.call("find", {}, { era });
    expect(await world.rows(kept)).toEqual([before]);
  });

  it("counts the calls of a client, also those made at once", async () => {
    const calls = { names: ["docs__pay"] };
    await inPlace([
      READS,
      { id: "pays", verdict: "allow", tools: calls },
      {
        id: "few",
        verdict: "forbid",
        tools: calls,
        when: {
          kind: "history",
          calls: { ...calls, withinMs: 3_600_000 },
          sum: "/n",
          includesThis: true,
          moreThan: 30,
        },
        reason: "Enough for an hour.",
      },
    ]);
    const other = clientOf(await world.key(), `${world.url}/mcp/servers/docs`);
    const answers = await Promise.all(Array.from({ length: 8 }, () => other.call("pay", { n: 10 })));
    const texts = answers.map(textOf).toSorted();
    expect(texts.filter((text) => text === "paid")).toHaveLength(3);
    expect(texts.filter((text) => /Enough for an hour/.test(text)).length).toBeGreaterThan(0);
    const another = clientOf(await world.key(), `${world.url}/mcp/servers/docs`);
    expect(textOf(await another.call("pay", { n: 10 }))).toBe("paid");
  });

  it("denies everything while it cannot be read", async () => {
    const broken = { version: 1, rules: [{ id: "guard.mine", verdict: "allow" }] } as const;
    await putPolicy(world.rows, broken);
    await until("nothing is judged", async () => /policy_unavailable/.test(textOf(await docs.call("find"))));
    const list = await docs.ask("tools/list");
    expect(list.message.error?.data).toMatchObject({ code: "policy_unavailable" });
  });

  it("is told of to whoever listens, at either address", async () => {
    await inPlace([READS]);
    const listening = await Promise.all(
      [unit, docs].map(async (client) => {
        const params = { notifications: { toolsListChanged: true } };
        const response = await client.stream("subscriptions/listen", { id: "listen", params });
        return response.body!.pipeThrough(new TextDecoderStream()).getReader();
      }),
    );
    for (const reader of listening) expect((await reader.read()).value).toContain("acknowledged");
    await putPolicy(world.rows, { version: 1, rules: [{ ...READS, id: "other" }] });
    for (const reader of listening) {
      const told = JSON.parse((await reader.read()).value!.split("data: ")[1]!);
      expect(told).toMatchObject({
        method: "notifications/tools/list_changed",
        params: { _meta: { "io.modelcontextprotocol/subscriptionId": "listen" } },
      });
      await reader.cancel();
    }
  });
});

describe("what a client writes", () => {
  it("is answered under its own id, or not at all", async () => {
    const body = (id: string): string => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`;
    const [key] = [await world.key()];
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const ask = async (id: string): Promise<string> =>
      (await fetch(`${world.url}/mcp/units/default`, { method: "POST", headers, body: body(id) })).text();
    expect(await ask("9007199254740991")).toContain('"id":9007199254740991');
    for (const id of ["123456789012345678901234", "9007199254740993", "1.5", "1e400", "true"]) {
      expect(JSON.parse(await ask(id))).toMatchObject({ id: null, error: { code: -32_600 } });
    }
  });

  it("reaches servers as text that everybody can read", async () => {
    await inPlace([READS]);
    for (const [client, name] of [
      [docs, "find"],
      [unit, "docs__find"],
    ] as const) {
      await client.call(name, { path: "a\ud800b", "k\udc00": ["\u0000"] });
      expect(server.calls.at(-1)?.input).toEqual({ path: "a\ufffdb", "k\ufffd": ["\ufffd"] });
    }
  });
});
