/** Calls that have left: who goes away, who takes over and who cancels, and what the ledger says in the end. */
import { callVerdict, type ToolJudge } from "@signalbox/core";
import { describe, expect, it } from "vitest";
import { until } from "./gate-fixture.ts";
import { payCall, withHttpServer } from "./scripted-docs.ts";
import { callTool, post, propose, startToolFixture, textOf, type ToolFixture } from "./tool-fixture.ts";
import { TOKEN } from "./watched-record.ts";

/** Pays once it is let go, whoever waits for that. */
function heldPayment() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { letGo: resolve, scripted: { pay: { handler: () => promise.then(() => "paid") } } };
}

/** An engine that made a call and can leave it. */
function leavingEngine(url: string) {
  const gone = new AbortController();
  const params = { name: payCall.name, arguments: payCall.input };
  const meta = { "claudecode/toolUseId": payCall.id };
  const answered = post(url, "tools/call", { params, meta, signal: gone.signal }).then(
    () => true,
    () => false,
  );
  return { answered, leave: () => gone.abort() };
}

const LOOKS_OFTEN = { limits: { recheckEveryMs: 20 } };
const looked = ({ record }: ToolFixture, count: number) => until(() => (record.counts.cancelledRuns ?? 0) >= count);

const EFFECTS = { read: { pay: { effect: "read" } }, write: { pay: { effect: "write" } } } as const;

describe.each(["read", "write"] as const)("a call that has left, of effect %s", (effect) => {
  const effects = EFFECTS[effect];
  it.each<[string, (fixture: ToolFixture) => Promise<void> | void]>([
    ["", () => undefined],
    [" and another worker goes on", ({ record }) => record.changeWorker()],
    [" and its slot serves nobody", ({ record }) => record.unbind()],
    [
      " and a takeover rings",
      async ({ gate, record }) => {
        await record.changeWorker();
        gate.look(record.conversationId);
      },
    ],
  ])("is waited for when its engine goes away%s", (_and, happens) => {
    const { letGo, scripted } = heldPayment();
    return withHttpServer(
      async (fixture, neighbour) => {
        const { record, url } = fixture;
        await propose(record, payCall);
        const engine = leavingEngine(url);
        await neighbour.waitFor((calls) => calls.length === 1);
        engine.leave();
        expect(await engine.answered).toBe(false);
        await happens(fixture);
        await looked(fixture, 4);
        letGo();
        await until(() => record.toolSettlements.length === 1);
        expect(neighbour.calls).toMatchObject([{ outcome: "answered" }]);
        expect(record.toolCalls).toMatchObject([{ state: "succeeded", resultSummary: "paid" }]);
      },
      { scripted, effects, ...LOOKS_OFTEN },
    );
  });

  it("is told to stop when its run is cancelled, and has no outcome then", () =>
    withHttpServer(
      async (fixture, neighbour) => {
        const { record, url } = fixture;
        await propose(record, payCall);
        const engine = leavingEngine(url);
        await neighbour.waitFor((calls) => calls.length === 1);
        engine.leave();
        await engine.answered;
        await looked(fixture, 2);
        expect(neighbour.calls).toMatchObject([{ outcome: "open" }]);
        await record.cancel();
        await neighbour.waitFor((calls) => calls[0]?.outcome === "cancelled");
        await until(() => record.toolSettlements.length === 1);
        expect(record.toolSettlements).toMatchObject([
          { state: effect === "read" ? "failed" : "unknown", errorCode: "run_cancelled" },
        ]);
      },
      { scripted: { pay: { delayMs: 60_000, result: "x" } }, effects, ...LOOKS_OFTEN },
    ));

  it("is not stopped by an older client's words, and answers it after all", () => {
    const { letGo, scripted } = heldPayment();
    return withHttpServer(
      async (fixture, neighbour) => {
        const { record, url } = fixture;
        await propose(record, payCall);
        const asked = callTool(url, payCall, { era: "handshake", id: 7 });
        await neighbour.waitFor((calls) => calls.length === 1);
        await fetch(url, {
          method: "POST",
          headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
          body: JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } }),
        });
        await looked(fixture, 2);
        letGo();
        expect(textOf(await asked)).toBe("paid");
      },
      { scripted, effects, ...LOOKS_OFTEN },
    );
  });
});

/** A tool server that goes on working and says what it came to as soon as it is told to stop. */
const HONEST_SERVER = `
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
let open = null;
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} },
    serverInfo: { name: "honest", version: "1" } } });
  else if (method === "tools/list") say({ id, result: { tools: [{ name: "act", inputSchema: { type: "object" } }] } });
  else if (method === "tools/call") open = id;
  else if (method === "notifications/cancelled" && open !== null)
    say({ id: open, result: { content: [{ type: "text", text: "done" }] } });
  else if (id !== undefined) say({ id, error: { code: -32601, message: "no" } });
});`;

describe("a server that answers when it is told to stop", () => {
  const act = { id: "toolu_a", name: "child__act", input: {} };

  async function withHonestServer(timeoutMs: number, test: (fixture: ToolFixture) => Promise<void>): Promise<void> {
    const child = {
      transport: "stdio",
      command: process.execPath,
      args: ["-e", HONEST_SERVER],
      env: {},
      tools: { act: { effect: "write", timeoutMs } },
    } as const;
    await using fixture = await startToolFixture({ servers: { child } });
    await propose(fixture.record, act);
    await test(fixture);
  }

  it("is believed after its time is over", () =>
    withHonestServer(150, async ({ url, record }) => {
      expect(textOf(await callTool(url, act))).toBe("done");
      expect(record.toolCalls).toMatchObject([{ state: "succeeded" }]);
    }));

  it("is believed after a cancel", () =>
    withHonestServer(60_000, async ({ url, record, gate }) => {
      const asked = callTool(url, act);
      await until(() => record.toolCalls[0]?.state === "executing");
      await record.cancel();
      gate.look(record.conversationId);
      expect(textOf(await asked)).toBe("done");
      expect(record.toolCalls).toMatchObject([{ state: "succeeded" }]);
    }));
});

/** Allows every call, on conditions. */
function on(...conditions: readonly unknown[]): ToolJudge {
  return {
    version: () => "conditional",
    judge: async ({ calls }) => calls.map(() => callVerdict({ verdict: "allow", reason: "", conditions })),
  };
}

describe("a call that the policy allows on conditions", () => {
  it.each<[string, { readonly conditions: readonly unknown[]; readonly said: string; readonly shown: RegExp }]>([
    [
      "hides members",
      {
        conditions: [{ kind: "redact", at: ["/iban"] }],
        said: '{"iban":"DE02","to":"Ann"}',
        shown: /^\{"iban":"\[redacted\]","to":"Ann"\}$/,
      },
    ],
    ["hides what it cannot find", { conditions: [{ kind: "redact", at: ["/iban"] }], said: "DE02", shown: /withheld/ }],
    [
      "shows no more than it may",
      { conditions: [{ kind: "limit", resultBytes: 256 }], said: `${"1".repeat(256)}23456`, shown: /^1{256}$/ },
    ],
  ])("%s", (_what, { conditions, said, shown }) =>
    withHttpServer(
      async ({ record, url }) => {
        await propose(record, payCall);
        expect(textOf(await callTool(url, payCall))).toMatch(shown);
        expect(JSON.stringify(record.toolSettlements)).not.toMatch(/DE02|23456/);
      },
      { scripted: { pay: { handler: () => said } }, judge: on(...conditions) },
    ),
  );

  it("is not made when the gate does not know one of them", () =>
    withHttpServer(
      async ({ record, url }, neighbour) => {
        await propose(record, payCall);
        expect(textOf(await callTool(url, payCall))).toContain("policy_unavailable");
        expect(neighbour.calls).toEqual([]);
        expect(record.toolCalls).toMatchObject([{ state: "failed" }]);
      },
      { scripted: { pay: { handler: () => "paid" } }, judge: on({ kind: "encrypt" }) },
    ));
});
