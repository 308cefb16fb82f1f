/** Calls of clients that a person is asked about: in both eras, decided through the API, made once, whatever dies meanwhile. */
import { startMcpServer, type McpNeighbour } from "@signalbox/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "../../setup/until.ts";
import { clientOf, officialClient, type AskOptions, type GatewayClient } from "./gateway-clients.ts";
import { startGatewayWorld, type GatewayWorld } from "./gateway-fixture.ts";
import { textOf, type RpcAnswer } from "./tool-fixture.ts";

const stack = new AsyncDisposableStack();
const FORMS = { "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } };
let server: McpNeighbour;
let world: GatewayWorld;
let key: string;
let docs: GatewayClient;
let unit: GatewayClient;
let decider: string;
let orders = 0;

beforeAll(async () => {
  const inputSchema = { type: "object", properties: { order: { type: "integer" } }, required: ["order"] };
  server = stack.use(await startMcpServer({ tools: { refund: { title: "Refund", result: "refunded", inputSchema } } }));
  world = stack.use(
    await startGatewayWorld({
      servers: {
        docs: { transport: "http", url: server.url, headers: {}, tools: { refund: { effect: "irreversible" } } },
      },
      platformCount: 2,
    }),
  );
  key = await world.key();
  decider = await world.key({ rights: ["read", "write"] });
  docs = clientOf(key, ...world.platforms.map(({ url }) => `${url}/mcp/servers/docs`));
  unit = clientOf(key, ...world.platforms.map(({ url }) => `${url}/mcp/units/default`));
}, 90_000);
afterAll(() => stack.disposeAsync());

interface Approval {
  readonly id: string;
  readonly digest: string;
  readonly state: string;
  readonly arguments: unknown;
}

/** As much of the API's answers as is looked at here. */
interface Answered {
  readonly code: string;
  readonly data: readonly Approval[];
}

async function api(path: string, body?: unknown): Promise<{ readonly status: number; readonly body: Answered }> {
  const headers = { authorization: `Bearer ${decider}`, "content-type": "application/json" };
  const method = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(`${world.url}${path}`, { headers, ...method });
  // Answers of the API have these members, or none of them is looked at.
  return { status: response.status, body: (await response.json()) as Answered };
}

async function approvalOf(order: number): Promise<Approval> {
  return until("the approval", async () => {
    const { data } = (await api("/v1/approvals?state=open&limit=100")).body;
    return data.find((each) => JSON.stringify(each.arguments) === JSON.stringify({ order }));
  });
}

async function decide(order: number, decision: Readonly<Record<string, unknown>>): Promise<void> {
  const { id, digest } = await approvalOf(order);
  expect((await api(`/v1/approvals/${id}/decision`, { digest, ...decision })).status).toBe(200);
}

const made = (order: number): number => server.calls.filter(({ input }) => input.order === order).length;
const nextOrder = (): number => (orders += 1);

/** The next round of a call, as its client makes it. */
function again(asked: RpcAnswer, action = "accept"): AskOptions {
  const { requestState } = asked.message.result ?? {};
  return { meta: FORMS, params: { requestState, inputResponses: { approval: { action, content: {} } } } };
}

describe.each([
  ["at a server's own address", () => docs, "refund"],
  ["at the address of all", () => unit, "docs__refund"],
] as const)("a call that is asked about, %s", (_, client, name) => {
  const call = (order: number, options: AskOptions = {}): Promise<RpcAnswer> => {
    const params = { name, arguments: { order }, ...options.params };
    return client().ask("tools/call", { meta: FORMS, ...options, params });
  };

  it("waits for a person, is made once when approved, and answers the same to whoever asks once more", async () => {
    const order = nextOrder();
    const asked = await call(order);
    expect(asked.message.result).toMatchObject({
      resultType: "input_required",
      inputRequests: { approval: { method: "elicitation/create", params: { mode: "form" } } },
      requestState: expect.stringMatching(/^sbx\./),
    });
    expect(await approvalOf(order)).toMatchObject({
      runId: null,
      conversationId: null,
      gatewayCallId: expect.stringMatching(/^gtc_/),
      name: "docs__refund",
      title: "Refund",
      effect: "irreversible",
      rules: expect.arrayContaining(["ask-irreversible"]),
    });
    await decide(order, { decision: "approve" });
    expect(textOf(await call(order, again(asked)))).toBe("refunded");
    expect(textOf(await call(order, again(asked)))).toBe("refunded");
    expect(made(order)).toBe(1);
    // The approval is used up: the same call is another question.
    expect((await call(order)).message.result).toMatchObject({ resultType: "input_required" });
    expect(made(order)).toBe(1);
  });

  it("goes on waiting while nobody has decided, and hears of the decision", async () => {
    const order = nextOrder();
    const asked = await call(order);
    const waits = call(order, again(asked));
    await decide(order, { decision: "approve" });
    expect(textOf(await waits)).toBe("refunded");
    expect(made(order)).toBe(1);
  });

  it("is never made when it is refused, given up, or not decided in time", async () => {
    const refused = nextOrder();
    const first = await call(refused);
    await decide(refused, { decision: "reject", reason: "Ask the customer first." });
    const told = await call(refused, again(first));
    expect(told.message.result).toMatchObject({ isError: true });
    expect(textOf(told)).toMatch(/Ask the customer first.*approval_rejected/);

    const given = nextOrder();
    const asked = await call(given);
    const up = await call(given, again(asked, "decline"));
    expect(up.message.result).toMatchObject({ isError: true });
    const withdrawn = (await api("/v1/approvals?state=withdrawn&limit=100")).body.data;
    expect(withdrawn.map((each) => each.arguments)).toContainEqual({ order: given });

    const late = nextOrder();
    const waiting = await call(late);
    const { id } = await approvalOf(late);
    await world.rows("update signalbox.hold set expires_at = now() where id = $1", [id]);
    const over = await call(late, again(waiting));
    expect(over.message.result).toMatchObject({ isError: true });
    expect(textOf(over)).toMatch(/approval_expired/);
    expect([refused, given, late].map(made)).toEqual([0, 0, 0]);
  });

  it("is made as a person changed it, and says so", async () => {
    const order = nextOrder();
    const asked = await call(order);
    const { id, digest } = await approvalOf(order);
    const wrong = await api(`/v1/approvals/${id}/decision`, { decision: "edit", digest, arguments: { order: "x" } });
    expect([wrong.status, wrong.body.code]).toEqual([422, "tool_arguments_invalid"]);
    await decide(order, { decision: "edit", arguments: { order: order + 1_000 } });
    const answer = await call(order, again(asked));
    expect(textOf(answer)).toContain("A person changed the arguments");
    expect(JSON.stringify(answer.message.result)).toContain("refunded");
    expect([made(order), made(order + 1_000)]).toEqual([0, 1]);
  });

  it("may be answered by a person in place of the tool", async () => {
    const order = nextOrder();
    const asked = await call(order);
    await decide(order, { decision: "respond", response: "Done by hand." });
    const answer = await call(order, again(asked));
    expect(textOf(answer)).toBe("Done by hand.");
    expect(made(order)).toBe(0);
  });

  it("is asked for anew with other arguments, and by another client", async () => {
    const order = nextOrder();
    const asked = await call(order);
    await decide(order, { decision: "approve" });
    const other = await call(order + 500, again(asked));
    expect(other.message.result).toMatchObject({ resultType: "input_required" });
    const stranger = clientOf(
      await world.key(),
      `${world.url}/mcp/${name === "refund" ? "servers/docs" : "units/default"}`,
    );
    const options = again(asked);
    const theirs = await stranger.ask("tools/call", {
      ...options,
      params: { name, arguments: { order }, ...options.params },
    });
    expect(theirs.message.error).toMatchObject({ code: -32_602 });
    expect([made(order), made(order + 500)]).toEqual([0, 0]);
    expect(textOf(await call(order, again(asked)))).toBe("refunded");
  });

  it("comes back without words where the client cannot be asked", async () => {
    const asked = await call(nextOrder(), { meta: {} });
    expect(asked.message.result).not.toHaveProperty("inputRequests");
    expect(asked.message.result).toMatchObject({ resultType: "input_required", requestState: expect.anything() });
  });

  it(
    "waits a while in the older era, says that it waits, and is found by the same call",
    { timeout: 60_000 },
    async () => {
      const order = nextOrder();
      const options = { era: "handshake", meta: { progressToken: "mine" } } as const;
      const response = await client().stream("tools/call", { ...options, params: { name, arguments: { order } } });
      const body = await response.text();
      expect(body).toContain('"progressToken":"mine"');
      const said = JSON.parse([...body.matchAll(/^data: (.*)$/gm)].at(-1)![1]!);
      expect(said.result).toMatchObject({ isError: true });
      expect(JSON.stringify(said)).toMatch(/approval_pending, hld_/);
      await decide(order, { decision: "approve" });
      expect(textOf(await call(order, options))).toBe("refunded");
      expect(made(order)).toBe(1);
      const refused = nextOrder();
      const waits = call(refused, options);
      await decide(refused, { decision: "reject" });
      expect(textOf(await waits)).toMatch(/approval_rejected/);
    },
  );
});

it("the protocol's own client goes through it by itself", async () => {
  const order = nextOrder();
  const official = await officialClient("modern", { url: `${world.url}/mcp/servers/docs`, key, elicits: true });
  const answer = official.callTool({ name: "refund", arguments: { order } });
  await decide(order, { decision: "approve" });
  expect((await answer).content).toEqual([{ type: "text", text: "refunded" }]);
  expect(made(order)).toBe(1);
  await official.close();
});

it("two who come back at once make it once", async () => {
  const order = nextOrder();
  const asked = await docs.call("refund", { order }, { meta: FORMS });
  await decide(order, { decision: "approve" });
  const back = { ...again(asked), params: { ...again(asked).params, name: "refund", arguments: { order } } };
  const answers = await Promise.all(Array.from({ length: 6 }, () => docs.ask("tools/call", back)));
  expect(answers.map(textOf)).toEqual(Array.from({ length: 6 }, () => "refunded"));
  expect(made(order)).toBe(1);
});
