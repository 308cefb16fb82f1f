/** A platform inside another program: its functions are tools of every engine, through the same gate as all others. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import type { RunHandle } from "@signalbox/client";
import type { PlatformEvent } from "@signalbox/contract";
import { startSim } from "@signalbox/testkit";
import { defineTool, open, type OpenOptions, type OpenPlatform, type ToolContext } from "signalbox";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cloneDatabase } from "../../setup/clone-database.ts";
import { until } from "../../setup/until.ts";

const RUNTIMES = ["langgraph", "claude_sdk"] as const;
const MODEL = "sim/extractive-1";

interface Call {
  readonly input: unknown;
  readonly context: ToolContext;
}

function orders(calls: Call[], more: { readonly approve?: "always"; readonly timeoutMs?: number } = {}) {
  return defineTool({
    name: "refund_order",
    description: "Pays an order back.",
    effect: "write",
    ...more,
    input: z.object({ orderId: z.string(), cents: z.int().positive(), note: z.string().default("none") }),
    run: (input, context) => {
      calls.push({ input, context });
      return { refunded: input.cents, of: input.orderId };
    },
  });
}

async function opened(stack: AsyncDisposableStack, options: OpenOptions): Promise<OpenPlatform> {
  const dataDir = mkdtempSync(join(tmpdir(), "sbx-open-"));
  stack.defer(() => rmSync(dataDir, { recursive: true, force: true }));
  const database = stack.use(await cloneDatabase());
  const sim = stack.use(await startSim({ ids: "unique" }));
  const environment = { SIGNALBOX_SIM_URL: sim.url, PATH: process.env.PATH, HOME: dataDir };
  return stack.use(await open({ dataDir, databaseUrl: database.url, logLevel: "error", environment, ...options }));
}

/** As the runtime shows tools to its model. */
const PREFIX = { langgraph: "", claude_sdk: "mcp__signalbox__" } as const;

function refund(runtime: (typeof RUNTIMES)[number], input: object = { orderId: "7", cents: 250 }): string {
  return `[[sim:tool ${PREFIX[runtime]}app__refund_order ${JSON.stringify(input)}]] Refund order 7.`;
}

describe.each(RUNTIMES)("on %s", (runtime) => {
  it("a function is called once, with what its schema makes of the arguments", async () => {
    await using stack = new AsyncDisposableStack();
    const calls: Call[] = [];
    const tools = [orders(calls)];
    const agents = { support: { runtime, model: MODEL, instructions: "Help.", tools: ["refund_order"] } };
    const { client } = await opened(stack, { tools, agents });
    const conversation = await client.conversations.create({ agent: "support" });
    const run = await conversation.send(refund(runtime));
    expect((await run.result()).outcome).toBe("completed");
    expect(calls.map(({ input }) => input)).toEqual([{ orderId: "7", cents: 250, note: "none" }]);
    expect(calls[0]?.context.idempotencyKey).not.toBe("");
  });

  it("a person is asked first where the function says so", async () => {
    await using stack = new AsyncDisposableStack();
    const calls: Call[] = [];
    const tools = [orders(calls, { approve: "always" })];
    const agents = { support: { runtime, model: MODEL, tools: ["refund_order"] } };
    const { client } = await opened(stack, { tools, agents });
    const conversation = await client.conversations.create({ agent: "support" });
    const run = await conversation.send(refund(runtime));
    await until("somebody is asked", async () => (await client.holds.list({ state: "open" })).data.length === 1);
    const [hold] = (await client.holds.list({ state: "open" })).data;
    if (hold === undefined) throw new Error("nobody is asked");
    expect(calls).toEqual([]);
    await client.holds.decide(hold.id, { decision: "approve", digest: hold.digest ?? "" });
    expect((await run.result()).outcome).toBe("completed");
    expect(calls).toHaveLength(1);
  });

  it("what does not fit the schema does not reach the function, and the model is told why", async () => {
    await using stack = new AsyncDisposableStack();
    const calls: Call[] = [];
    const agents = { support: { runtime, model: MODEL, tools: ["refund_order"] } };
    const { client } = await opened(stack, { tools: [orders(calls)], agents });
    const conversation = await client.conversations.create({ agent: "support" });
    const run = await conversation.send(refund(runtime, { orderId: 7, cents: -1 }));
    const events = await toEnd(run);
    expect(calls).toEqual([]);
    expect(JSON.stringify(events.filter(({ type }) => type === "tool.finished"))).toMatch(/failed|denied/);
  });

  it("what a function throws is told to the model, and what takes too long is stopped", async () => {
    await using stack = new AsyncDisposableStack();
    const stopped: string[] = [];
    const failing = defineTool({
      name: "failing",
      effect: "read",
      input: z.object({}),
      run: () => {
        throw new Error("the till is locked");
      },
    });
    const endless = defineTool({
      name: "endless",
      effect: "read",
      timeoutMs: 300,
      input: z.object({}),
      run: (_input, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            stopped.push("stopped");
            reject(new Error("stopped"));
          });
        }),
    });
    const agents = { support: { runtime, model: MODEL, tools: ["failing", "endless"] } };
    const { client } = await opened(stack, { tools: [failing, endless], agents });
    const conversation = await client.conversations.create({ agent: "support" });
    const thrown = await toEnd(await conversation.send(`[[sim:tool ${PREFIX[runtime]}app__failing {}]] Try.`));
    expect(JSON.stringify(thrown.filter(({ type }) => type === "tool.finished"))).toContain("the till is locked");
    const late = await toEnd(await conversation.send(`[[sim:tool ${PREFIX[runtime]}app__endless {}]] Try.`));
    expect(JSON.stringify(late.filter(({ type }) => type === "tool.finished"))).toContain("failed");
    expect(stopped).toEqual(["stopped"]);
  });
});

async function toEnd(run: RunHandle): Promise<readonly PlatformEvent[]> {
  const events: PlatformEvent[] = [];
  for await (const event of run.events()) events.push(event);
  return events;
}

describe("a program", () => {
  it("opens a data directory once, and may open it again when it has closed it", async () => {
    await using stack = new AsyncDisposableStack();
    const dataDir = mkdtempSync(join(tmpdir(), "sbx-open-"));
    stack.defer(() => rmSync(dataDir, { recursive: true, force: true }));
    const database = stack.use(await cloneDatabase());
    const options = { dataDir, databaseUrl: database.url, logLevel: "silent", environment: {} } as const;
    const first = await open(options);
    await expect(open(options)).rejects.toMatchObject({ code: "command_refused" });
    await Promise.all([first.close(), first.close()]);
    const again = await open(options);
    expect((await again.client.info()).version).not.toBe("");
    await again.close();
  });

  it("finds its agents as it declared them last", async () => {
    await using stack = new AsyncDisposableStack();
    const dataDir = mkdtempSync(join(tmpdir(), "sbx-open-"));
    stack.defer(() => rmSync(dataDir, { recursive: true, force: true }));
    const database = stack.use(await cloneDatabase());
    const sim = stack.use(await startSim({ ids: "unique" }));
    const environment = { SIGNALBOX_SIM_URL: sim.url };
    const declared = async (instructions: string): Promise<number> => {
      const agents = { support: { model: MODEL, instructions } };
      await using platform = await open({
        dataDir,
        databaseUrl: database.url,
        logLevel: "silent",
        environment,
        agents,
      });
      return (await platform.client.agents.get("support")).revision;
    };
    expect(await declared("Help.")).toBe(1);
    expect(await declared("Help.")).toBe(1);
    expect(await declared("Help more.")).toBe(2);
  });

  it("may change its functions from one start to the next, and keeps them to itself", async () => {
    await using stack = new AsyncDisposableStack();
    const dataDir = mkdtempSync(join(tmpdir(), "sbx-open-"));
    stack.defer(() => rmSync(dataDir, { recursive: true, force: true }));
    const database = stack.use(await cloneDatabase());
    const sim = stack.use(await startSim({ ids: "unique" }));
    const environment = { SIGNALBOX_SIM_URL: sim.url };
    const agents = { support: { model: MODEL, tools: ["count"] } };
    const countedAs = async (description: string): Promise<number> => {
      let count = 0;
      const run = (): number => (count += 1);
      const tools = [defineTool({ name: "count", description, effect: "read", input: z.object({}), run })];
      const options = { dataDir, databaseUrl: database.url, logLevel: "silent", environment, agents, tools } as const;
      await using platform = await open(options);
      const conversation = await platform.client.conversations.create({ agent: "support" });
      await (await conversation.send("[[sim:tool app__count {}]] Count.")).result();
      const asked = await fetch(`${platform.url}/mcp/servers/app`, {
        method: "POST",
        headers: { authorization: `Bearer ${platform.apiKey}`, "content-type": "application/json" },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }),
      });
      expect(await asked.text()).not.toContain("Counts");
      return count;
    };
    expect(await countedAs("Counts.")).toBe(1);
    expect(await countedAs("Counts in another way.")).toBe(1);
  });

  it("is told what of its agents or functions cannot be", async () => {
    const input = z.object({});
    expect(() => defineTool({ name: "no spaces", effect: "read", input, run: () => "" })).toThrow("no spaces");
    expect(() => defineTool({ name: "list", effect: "read", input: z.array(z.string()), run: () => "" })).toThrow(
      "object",
    );
    const agents = { support: { runtime: "none", model: MODEL } };
    await expect(open({ agents, environment: {} })).rejects.toMatchObject({ code: "runtime_unknown" });
  });
});

it("the example runs as it stands, and its program ends by itself", async () => {
  await using stack = new AsyncDisposableStack();
  const home = mkdtempSync(join(tmpdir(), "sbx-open-"));
  stack.defer(() => rmSync(home, { recursive: true, force: true }));
  const database = stack.use(await cloneDatabase());
  const sim = stack.use(await startSim({ ids: "unique" }));
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--conditions=@signalbox/source", "examples/refunds.ts", refund("langgraph")],
    {
      env: {
        PATH: process.env.PATH,
        HOME: home,
        TMPDIR: home,
        SIGNALBOX_DATA_DIR: home,
        DATABASE_URL: database.url,
        SIGNALBOX_SIM_URL: sim.url,
        SIGNALBOX_MODEL: MODEL,
      },
      timeout: 60_000,
    },
  );
  expect(stdout).toContain('asked: {"');
  expect(stdout.trim().split("\n").at(-1)).toBe("completed");
});
