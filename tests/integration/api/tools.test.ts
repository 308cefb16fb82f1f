/** Tools as an operator sees them: what is pinned, what changed, and what may be called because somebody looked at it. */
import type { McpServer, Tool, ToolDetail } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, newId, type Told } from "../../setup/api-world.ts";
import { listingOf } from "../store/pin-tools.ts";
import { expectProblem } from "./problems.ts";

let world: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

interface Listed {
  readonly tools?: readonly string[];
  readonly description?: string;
  readonly origin?: string;
}

/** What a server lists now, under a posture that trusts what it sees first. */
async function list(server: string, { tools = ["refund"], description = "Pays back.", origin = "here" }: Listed = {}) {
  const pins = tools.map((tool) => {
    const definition = { name: tool, description, inputSchema: { type: "object" } };
    return {
      server,
      tool,
      title: tool,
      definition,
      definitionHash: `${tool} ${description}`,
      effect: "write",
    } as const;
  });
  await world.record.queries.tools.observe(
    listingOf("default", pins, { server, origin: `http://${origin}.test/mcp`, originHash: origin }),
  );
}

const serverName = (): string => `shop-${newId("agent").slice(-8)}`;
const get = async (path: string): Promise<ToolDetail> => (await world.ask<ToolDetail>(path, { key })).body;
const post = <Body = Tool>(path: string, body: object): Promise<Told<Body>> => world.ask<Body>(path, { key, body });

describe("the tools", () => {
  it("are listed by name in pages, of one server and in one state", async () => {
    const server = serverName();
    await list(server, { tools: ["refund", "cancel", "ship"] });
    const names: string[] = [];
    let cursor: string | null = null;
    do {
      const from: string = cursor === null ? "" : `&cursor=${cursor}`;
      const { body } = await world.ask<{ data: Tool[]; nextCursor: string | null }>(
        `/v1/tools?server=${server}&limit=2${from}`,
        { key },
      );
      names.push(...body.data.map(({ name }) => name));
      cursor = body.nextCursor;
    } while (cursor !== null);
    expect(names).toEqual([`${server}__cancel`, `${server}__refund`, `${server}__ship`]);
    const drifted = await world.ask<{ data: Tool[] }>(`/v1/tools?server=${server}&state=drifted`, { key });
    expect(drifted.body.data).toEqual([]);
    const refusals = { "state=odd": "invalid_request", "limit=0": "invalid_request", "order=asc": "field_unknown" };
    for (const [query, code] of Object.entries({ ...refusals, "cursor=%21": "invalid_cursor" })) {
      expectProblem(await world.refused(`/v1/tools?${query}`, { key }), code);
    }
  });

  it("come from servers that say how they are", async () => {
    const server = serverName();
    await list(server);
    const servers = async (): Promise<McpServer | undefined> =>
      (await world.ask<{ data: McpServer[] }>("/v1/mcp-servers", { key })).body.data.find(
        ({ name }) => name === server,
      );
    expect(await servers()).toMatchObject({ transport: "http", origin: "http://here.test/mcp", problem: null });
    const place = {
      tenantId: "default",
      server,
      transport: "http",
      origin: "http://here.test/mcp",
      originHash: "here",
    };
    await world.record.queries.tools.noteFailure({ ...place, transport: "http" }, "It cannot be reached.");
    expect(await servers()).toMatchObject({ problem: "It cannot be reached.", failingSince: expect.any(String) });
  });
});

describe("a tool that changed", () => {
  it("shows what differs, and is approved in exactly the form that was shown", async () => {
    const server = serverName();
    const path = `/v1/tools/${server}__refund`;
    await list(server);
    const first = await get(path);
    expect(first).toMatchObject({ state: "approved", offered: true, listed: null, effect: "write", classified: true });
    await list(server, { description: "Pays back, and more." });
    const drifted = await get(path);
    expect(drifted).toMatchObject({
      state: "drifted",
      listed: { changes: [{ pointer: "/description", before: "Pays back.", after: "Pays back, and more." }] },
    });
    expectProblem(await world.refused(`${path}/approve`, { key, body: { digest: first.digest } }), "approval_changed");
    // Listed otherwise once more between the look and the approval.
    await list(server, { description: "Pays back to anybody." });
    expectProblem(
      await world.refused(`${path}/approve`, { key, body: { digest: drifted.digest } }),
      "approval_changed",
    );
    const shown = await get(path);
    expect((await post(`${path}/approve`, { digest: shown.digest })).body).toMatchObject({
      state: "approved",
      digest: shown.digest,
    });
    const after = await get(path);
    expect(after).toMatchObject({
      state: "approved",
      listed: null,
      definition: { description: "Pays back to anybody." },
    });
    expect(after.history.map(({ event }) => event)).toEqual(["approve", "drift", "drift", "trust"]);
    expect(after.history[0]?.by).toMatchObject({ user: null });
  });

  it("is another one at another address, with the same definition", async () => {
    const server = serverName();
    const path = `/v1/tools/${server}__refund`;
    await list(server);
    const before = await get(path);
    await list(server, { origin: "elsewhere" });
    const moved = await get(path);
    expect(moved).toMatchObject({ state: "quarantined", listed: { origin: "http://elsewhere.test/mcp", changes: [] } });
    expect(moved.digest).not.toBe(before.digest);
    expectProblem(await world.refused(`${path}/approve`, { key, body: { digest: before.digest } }), "approval_changed");
    expect((await post(`${path}/approve`, { digest: moved.digest })).body).toMatchObject({ state: "approved" });
  });
});

describe("what an operator says of a tool", () => {
  it("stands from then on, member by member", async () => {
    const server = serverName();
    const path = `/v1/tools/${server}__refund`;
    await list(server);
    expect((await post(`${path}/classify`, { approve: "always", timeoutMs: 5_000 })).body).toMatchObject({
      effect: "write",
      approve: "always",
      timeoutMs: 5_000,
      trusted: false,
    });
    expect((await post(`${path}/classify`, { effect: "read", timeoutMs: null })).body).toMatchObject({
      effect: "read",
      approve: "always",
      timeoutMs: null,
    });
  });

  it.each<[object, string]>([
    [{}, "invalid_request"],
    [{ effect: "harmless" }, "invalid_request"],
    [{ timeoutMs: 1 }, "invalid_request"],
    [{ trusted: "yes" }, "invalid_request"],
    [{ unit: "acme" }, "field_unknown"],
  ])("is refused as %j", async (body, code) => {
    const server = serverName();
    await list(server);
    expectProblem(await world.refused(`/v1/tools/${server}__refund/classify`, { key, body }), code);
  });

  it("is said of a tool that there is", async () => {
    for (const path of ["/v1/tools/no__tool", "/v1/tools/%00", "/v1/tools/__proto__"]) {
      expectProblem(await world.refused(path, { key }), "not_found");
      expectProblem(await world.refused(`${path}/classify`, { key, body: { effect: "read" } }), "not_found");
    }
  });
});
