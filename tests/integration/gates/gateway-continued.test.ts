/** An approved call whose server asks its client for input: the approval covers the answer, once, and nothing else. */
import { startEverythingServer } from "@signalbox/testkit";
import { expect, it } from "vitest";
import { clientOf } from "./gateway-clients.ts";
import { startGatewayWorld } from "./gateway-fixture.ts";
import { textOf } from "./tool-fixture.ts";

const META = { "io.modelcontextprotocol/clientCapabilities": { elicitation: {} } };
const NAME = "test_input_required_result_request_state";

it.each([
  ["servers/all", NAME],
  ["units/default", `all__${NAME}`],
])("at %s", { timeout: 90_000 }, async (endpoint, name) => {
  await using everything = await startEverythingServer();
  await using world = await startGatewayWorld({
    servers: {
      all: { transport: "http", url: everything.url, headers: {}, tools: { [NAME]: { effect: "irreversible" } } },
    },
  });
  const client = clientOf(await world.key(), `${world.url}/mcp/${endpoint}`);
  const call = (params: Readonly<Record<string, unknown>> = {}) =>
    client.ask("tools/call", { meta: META, params: { name, arguments: {}, ...params } });
  const asked = await call();
  const decider = await world.key({ rights: ["read", "write"] });
  const headers = { authorization: `Bearer ${decider}`, "content-type": "application/json" };
  const list = await fetch(`${world.url}/v1/approvals`, { headers });
  // Lists of approvals have this shape.
  const { data } = (await list.json()) as { data: readonly { id: string; digest: string }[] };
  const [approval] = data;
  const body = JSON.stringify({ decision: "approve", digest: approval?.digest });
  await fetch(`${world.url}/v1/approvals/${approval?.id}/decision`, { method: "POST", headers, body });

  const going = await call({ requestState: asked.message.result?.requestState });
  expect(going.message.result).toMatchObject({ resultType: "input_required", inputRequests: { confirm: {} } });
  const { requestState } = going.message.result ?? {};
  expect(requestState).toMatch(/^sbx\./);
  const inputResponses = { confirm: { action: "accept", content: { ok: true } } };
  expect(textOf(await call({ requestState, inputResponses }))).toBe("state-ok");
  const [row] = await world.rows<{ n: number }>(
    "select count(*)::int as n from signalbox.gateway_call where state = 'succeeded'",
  );
  expect(row?.n).toBe(2);
  // The same answer a second time is covered by nothing.
  const again = await call({ requestState, inputResponses });
  expect(textOf(again)).not.toBe("state-ok");
});
