/** Calls that nobody answers, or nobody waits for: what the server is told and what the ledger keeps. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readCallFile, stdioServerCommand } from "@signalbox/testkit";
import { describe, expect, it } from "vitest";
import { until } from "./gate-fixture.ts";
import { payCall, withHttpServer } from "./scripted-docs.ts";
import { callTool, propose, startToolFixture, textOf, type ToolFixture } from "./tool-fixture.ts";
import { TOKEN_HASH } from "./watched-record.ts";

const MAY_HAVE = "It may have taken effect: do not simply make it again.";

describe("a tool that does not answer", () => {
  it("in time: a read has failed, anything else is unknown, and the server is told to stop", () =>
    withHttpServer(
      async ({ url, record }, neighbour) => {
        const calls = ["look", "act"].map((tool) => ({ id: `toolu_${tool}`, name: `docs__${tool}`, input: {} }));
        await propose(record, ...calls);
        const [read, act] = await Promise.all(calls.map((call) => callTool(url, call)));
        expect(textOf(read!)).toBe("The tool did not answer in time. (tool_timeout)");
        expect(textOf(act!)).toBe(
          `The outcome of this call is not known. The tool did not answer in time. ${MAY_HAVE}`,
        );
        expect(record.toolCalls.map((row) => row.state)).toEqual(["failed", "unknown"]);
        expect(record.toolSettlements.map((each) => each.errorCode)).toEqual(["tool_timeout", "tool_timeout"]);
        await neighbour.waitFor((made) => made.every((call) => call.outcome === "cancelled"));
      },
      {
        scripted: { look: { delayMs: 60_000, result: "x" }, act: { delayMs: 60_000, result: "x" } },
        effects: { look: { effect: "read", timeoutMs: 150 }, act: { effect: "write", timeoutMs: 150 } },
      },
    ));

  it("shows that it is still at work when it takes long", () =>
    withHttpServer(
      async ({ url, record }) => {
        const call = { id: "toolu_l", name: "docs__long", input: {} };
        await propose(record, call);
        const answer = await callTool(url, call);
        expect(answer.headers.get("content-type")).toBe("text/event-stream");
        expect(answer.body).toMatch(/^(: still here\n\n)+event: message\ndata: \{.*\}\n\n$/);
        expect(textOf(answer)).toBe("long");
      },
      { scripted: { long: { delayMs: 350, result: "long" } }, limits: { quietMs: 100 } },
    ));

  const slowCall = { id: "toolu_s", name: "docs__slow", input: {} };

  it.each([
    [
      "a cancel rang",
      async ({ gate, record }: ToolFixture) => {
        await record.cancel();
        gate.look(record.conversationId);
      },
      "run_cancelled",
    ],
  ])("because %s", async (_name, cut, code) =>
    withHttpServer(async (fixture, neighbour) => {
      await propose(fixture.record, slowCall);
      const asked = callTool(fixture.url, slowCall);
      await neighbour.waitFor((calls) => calls.length === 1);
      await cut(fixture);
      await neighbour.waitFor((calls) => calls[0]?.outcome === "cancelled", 1_500);
      expect(textOf(await asked)).toBe(`The call was cancelled. (${code})`);
      expect(fixture.record.toolSettlements).toMatchObject([{ state: "failed", errorCode: code }]);
    }),
  );

  it("because its gate ends: whoever goes on with the turn may look again", () =>
    withHttpServer(async ({ url, record, gate }, neighbour) => {
      await propose(record, slowCall);
      const asked = callTool(url, slowCall);
      await neighbour.waitFor((calls) => calls.length === 1);
      await gate[Symbol.asyncDispose]();
      await asked;
      expect(record.toolSettlements).toMatchObject([{ state: "unknown", errorCode: "shutting_down" }]);
      await record.changeWorker();
      await record.bind();
      const again = { tokenHash: TOKEN_HASH, process: record.process, toolUseId: slowCall.id, name: slowCall.name };
      const [call] = record.toolCalls;
      const grant = await record.openToolCall({
        ...again,
        argumentsDigest: call!.argumentsDigest,
        policyVersion: null,
      });
      expect(grant).toMatchObject({ kind: "execute", toolCallId: call!.id });
    }));

  it("is settled again while the record is away, and the engine gets the answer once it is kept", () =>
    withHttpServer(async ({ url, record }) => {
      await propose(record, payCall);
      record.failures.settleToolCall = ["database_unavailable", "database_unavailable"];
      expect(textOf(await callTool(url, payCall))).toBe("paid 1");
      expect(record.toolCalls[0]!.state).toBe("succeeded");
    }));

  it("was never made when the reply to its intent was lost, and is closed by the gate that asked", () =>
    withHttpServer(async ({ url, record }, neighbour) => {
      await propose(record, payCall);
      record.lostReplyCount = 1;
      record.failures.begunToolCalls = ["database_unavailable"];
      record.failures.settleToolCall = ["database_unavailable"];
      expect(textOf(await callTool(url, payCall))).toContain("database_unavailable");
      expect(record.toolCalls[0]!.state).toBe("failed");
      expect(record.toolSettlements).toMatchObject([{ errorCode: "database_unavailable" }]);
      // Asked again, it is answered with what is recorded, and the tool has never heard of it.
      expect(textOf(await callTool(url, payCall))).toMatch(/^The call was not made/);
      await neighbour.waitFor((calls) => calls.length === 0);
    }));

  it("is left alone while the same gate carries it out for another request", () =>
    withHttpServer(async ({ url, record, gate }, neighbour) => {
      await propose(record, slowCall);
      const asked = callTool(url, slowCall);
      await neighbour.waitFor((calls) => calls.length === 1);
      record.failures.openToolCall = ["database_unavailable"];
      expect(textOf(await callTool(url, slowCall))).toContain("database_unavailable");
      expect(record.counts.begunToolCalls).toBe(1);
      expect(record.toolCalls[0]!.state).toBe("executing");
      await record.cancel();
      gate.look(record.conversationId);
      await asked;
      expect(record.toolSettlements).toMatchObject([{ errorCode: "run_cancelled" }]);
    }));

  it("is not given out when it cannot be recorded at all", () =>
    withHttpServer(async ({ url, record }) => {
      await propose(record, payCall);
      record.failures.settleToolCall = ["internal"];
      expect(textOf(await callTool(url, payCall))).toBe("The tool was called, but its outcome could not be recorded.");
      expect(record.toolCalls[0]!.state).toBe("executing");
    }));
});

describe("a server as a child process", () => {
  async function withChild(
    test: (fixture: ToolFixture, callsFile: string) => Promise<void>,
    slowMs = 60_000,
  ): Promise<void> {
    const folder = await mkdtemp(join(tmpdir(), "gate-"));
    const callsFile = join(folder, "calls");
    const command = stdioServerCommand({ callsFile, slowMs });
    const tools = {
      echo: { effect: "read" },
      slow: { effect: "read", timeoutMs: 2_000 },
      exit: { effect: "write" },
    } as const;
    const child = { transport: "stdio", ...command, env: {}, tools } as const;
    try {
      await using fixture = await startToolFixture({ servers: { child } });
      await test(fixture, callsFile);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  it("is called in parallel over one process, and gets its arguments as proposed", () =>
    withChild(async ({ url, record }, callsFile) => {
      const calls = ["a", "b", "c"].map((text) => ({ id: `toolu_${text}`, name: "child__echo", input: { text } }));
      await propose(record, ...calls);
      const answers = await Promise.all(calls.map((call) => callTool(url, call)));
      expect(answers.map(textOf)).toEqual(['{"text":"a"}', '{"text":"b"}', '{"text":"c"}']);
      const seen = await readCallFile(callsFile);
      expect(new Set(seen.map((call) => call.pid)).size).toBe(1);
      expect(seen[0]!.meta["signalbox/idempotencyKey"]).toContain("toolu_");
    }));

  it("that dies in a call leaves it unknown, and runs again for the next one", () =>
    withChild(async ({ url, record }, callsFile) => {
      const exit = { id: "toolu_x", name: "child__exit", input: {} };
      const echo = { id: "toolu_e", name: "child__echo", input: { text: "again" } };
      await propose(record, exit, echo);
      expect(textOf(await callTool(url, exit))).toBe(
        `The outcome of this call is not known. The tool server has ended. ${MAY_HAVE}`,
      );
      expect(record.toolSettlements).toMatchObject([{ state: "unknown", errorCode: "tool_upstream_failed" }]);
      expect(textOf(await callTool(url, echo))).toBe('{"text":"again"}');
      expect(new Set((await readCallFile(callsFile)).map((call) => call.pid)).size).toBe(2);
    }));

  it("is told when a call takes too long", () =>
    withChild(async ({ url, record }, callsFile) => {
      const slow = { id: "toolu_s", name: "child__slow", input: {} };
      await propose(record, slow);
      expect(textOf(await callTool(url, slow))).toBe("The tool did not answer in time. (tool_timeout)");
      let outcome = "";
      await until(() => {
        readCallFile(callsFile).then(
          (calls) => (outcome = calls[0]?.outcome ?? ""),
          () => undefined,
        );
        return outcome === "cancelled";
      });
    }));
});
