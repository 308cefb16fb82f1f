/** A call of a tool from proposal to outcome: what the server saw, what the engine read, what the ledger keeps. */
import type { ScriptedTools } from "@signalbox/testkit";
import { describe, expect, it } from "vitest";
import { payCall, withHttpServer } from "./scripted-docs.ts";
import { callTool, propose, textOf } from "./tool-fixture.ts";

const REFUSED = (code: string, reason: string): string => `Refused (${code}): ${reason}`;

const readCall = { id: "toolu_1", name: "docs__read", input: { path: "a", n: 1 } };

describe("a call that was proposed", () => {
  it("is recorded, made with the proposed arguments and one idempotency key, recorded again, and answered", () =>
    withHttpServer(async ({ url, record }, neighbour) => {
      await propose(record, readCall);
      const states: string[] = [];
      record.db.watch(({ call }) =>
        states.push(`${call} ${record.toolCalls[0]?.state} calls=${neighbour.calls.length}`),
      );
      const answer = await callTool(url, { ...readCall, input: { n: 1, path: "a" } });
      expect(answer.message).toEqual({
        jsonrpc: "2.0",
        id: 1,
        result: { resultType: "complete", content: [{ type: "text", text: 'read {"n":1,"path":"a"}' }] },
      });
      expect(states).toEqual([
        "slot proposed calls=0",
        "open_tool_call proposed calls=0",
        "record_verdicts proposed calls=0",
        "open_tool_call executing calls=0",
        "settle_tool_call succeeded calls=1",
      ]);
      const { input, meta } = neighbour.calls[0]!;
      expect(input).toEqual(readCall.input);
      expect(meta["signalbox/idempotencyKey"]).toBe(`${record.runId} toolu_1`);
      expect(meta.traceparent).toMatch(/^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01$/);
      expect(record.toolSettlements).toMatchObject([
        {
          state: "succeeded",
          resultJson: '{"content":[{"type":"text","text":"read {\\"n\\":1,\\"path\\":\\"a\\"}"}]}',
          errorCode: null,
        },
      ]);
    }));

  it("is known by the id our own clients send, by the engine's prefix, and without an id by its arguments", () =>
    withHttpServer(async ({ url, record }, neighbour) => {
      await propose(record, readCall, { ...readCall, id: "toolu_b" }, payCall);
      const own = await callTool(
        url,
        { ...readCall, name: "mcp__signalbox__docs__read" },
        { meta: { "claudecode/toolUseId": undefined, "signalbox/toolUseId": "toolu_b" } },
      );
      const without = await callTool(url, payCall, { meta: { "claudecode/toolUseId": undefined } });
      expect([textOf(own), textOf(without)]).toEqual(['read {"n":1,"path":"a"}', "paid 1"]);
      expect(record.toolCalls.map(({ toolUseId, state }) => [toolUseId, state])).toEqual([
        ["toolu_1", "proposed"],
        ["toolu_b", "succeeded"],
        ["toolu_2", "succeeded"],
      ]);
      expect(neighbour.calls).toHaveLength(2);
    }));

  it("is executed once: asked again, the ledger answers", () =>
    withHttpServer(async ({ url, record }, neighbour) => {
      await propose(record, payCall);
      const first = await callTool(url, payCall);
      const second = await callTool(url, payCall);
      expect([textOf(first), textOf(second)]).toEqual(["paid 1", "paid 1"]);
      expect(neighbour.calls).toHaveLength(1);
    }));

  it("carries no lone surrogate and no NUL, and matches its proposal all the same", () =>
    withHttpServer(async ({ url, record }, neighbour) => {
      await propose(record, { ...readCall, input: { path: "\uFFFD\uFFFD" } });
      const answer = await callTool(url, { ...readCall, input: { path: "\ud83d\u0000" } });
      expect(textOf(answer)).toBe('read {"path":"\uFFFD\uFFFD"}');
      expect(neighbour.calls[0]!.input).toEqual({ path: "\uFFFD\uFFFD" });
    }));

  it("fails as the tool says", () =>
    withHttpServer(async ({ url, record }) => {
      const call = { id: "toolu_f", name: "docs__fails", input: {} };
      await propose(record, call);
      const answer = await callTool(url, call);
      expect(answer.message.result).toMatchObject({ isError: true, content: [{ type: "text", text: "no such file" }] });
      expect(record.toolSettlements).toMatchObject([{ state: "failed", errorCode: null }]);
    }));

  it("fails with the protocol's error, without the address of the server", async () => {
    const tools: Record<string, ScriptedTools[string]> = {};
    await withHttpServer(
      async ({ url, record }, neighbour) => {
        tools.breaks = { breaks: `cannot reach ${neighbour.url} now` };
        neighbour.setTools(tools);
        const call = { id: "toolu_b", name: "docs__breaks", input: {} };
        await propose(record, call);
        const answer = await callTool(url, call);
        expect(textOf(answer)).toBe("The tool refused the call: cannot reach <docs> now");
        expect(record.toolSettlements).toMatchObject([{ state: "failed" }]);
      },
      { scripted: { breaks: { breaks: "x" } } },
    );
  });
});

describe("a call that is refused", () => {
  it("was not proposed, or was proposed with other arguments", () =>
    withHttpServer(async ({ url, record }, neighbour) => {
      const never = await callTool(url, payCall);
      await propose(record, payCall);
      const other = await callTool(url, { ...payCall, input: { cents: 500 } });
      const refused = REFUSED("tool_not_proposed", "The model did not propose this call.");
      expect([textOf(never), textOf(other)]).toEqual([refused, refused]);
      expect(never.message.result).toMatchObject({ isError: true });
      expect(neighbour.calls).toEqual([]);
    }));

  it("is of a tool the agent has not", () =>
    withHttpServer(async ({ url, record }) => {
      const call = { id: "toolu_x", name: "docs__rm", input: {} };
      await propose(record, call);
      const answer = await callTool(url, call);
      expect(textOf(answer)).toBe(REFUSED("tool_not_allowed", "This agent has no tool of that name."));
      expect(record.denials).toMatchObject([{ name: "docs__rm", code: "tool_not_allowed", toolUseId: "toolu_x" }]);
    }));

  it.each([
    ["a list", [1]],
    ["a text", "x"],
    ["null", null],
  ])("has arguments that are %s", async (_name, input) =>
    withHttpServer(async ({ url }) => {
      const answer = await callTool(url, { ...readCall, input });
      expect([answer.status, answer.message.error]).toEqual([
        200,
        { code: -32_602, message: "arguments must be an object." },
      ]);
    }),
  );

  it("comes after a cancel or from an earlier owner: the engine is told to stop", () =>
    withHttpServer(async ({ url, record }, neighbour) => {
      await propose(record, readCall);
      await record.changeWorker();
      const stale = await callTool(url, readCall);
      expect([stale.status, stale.headers.get("signalbox-code")]).toEqual([410, "slot_unknown"]);
      await record.bind();
      await record.cancel();
      const cancelled = await callTool(url, readCall);
      expect([cancelled.status, cancelled.message.error!.data]).toEqual([410, { code: "run_cancelled" }]);
      expect(neighbour.calls).toEqual([]);
    }));

  it("cannot be decided because the record is away: denied, and nothing is called", () =>
    withHttpServer(async ({ url, record, log }, neighbour) => {
      await propose(record, readCall);
      record.failures.openToolCall = ["database_unavailable"];
      const answer = await callTool(url, readCall);
      expect(textOf(answer)).toBe(REFUSED("database_unavailable", "The database cannot be reached."));
      expect(neighbour.calls).toEqual([]);
      expect(log.lines.filter((line) => line.level === "error")).toHaveLength(1);
    }));
});

describe("what a tool answers", () => {
  const result = async (answer: ScriptedTools[string]) => {
    let seen: Readonly<Record<string, unknown>> = {};
    await withHttpServer(
      async ({ url, record }) => {
        const call = { id: "toolu_r", name: "docs__says", input: {} };
        await propose(record, call);
        seen = (await callTool(url, call)).message.result!;
        expect(record.toolSettlements[0]!.resultJson).toBe(
          JSON.stringify({ content: seen.content, ...(seen.isError === true ? { isError: true } : {}) }),
        );
      },
      { scripted: { says: answer }, effects: { says: { effect: "read" } } },
    );
    return seen;
  };
  const textResult = (text: string): ScriptedTools[string] => ({ result: { content: [{ type: "text", text }] } });

  it("is cut at 40 KB, at a character, with a note", async () => {
    const { content } = await result(textResult(`${"x".repeat(40 * 1024 - 1)}🚀 and more`));
    expect(content).toEqual([
      { type: "text", text: "x".repeat(40 * 1024 - 1) },
      { type: "text", text: "[The result was cut: 40959 of 40972 bytes are shown. Ask for a smaller part.]" },
    ]);
  });

  it("may be exactly 40 KB", async () => {
    const text = "é".repeat(20 * 1024);
    expect((await result(textResult(text))).content).toEqual([{ type: "text", text }]);
  });

  it("is bounded over all its parts, and large images are named but not passed", async () => {
    const image = { type: "image", data: "A".repeat(1_000), mimeType: "image/png" } as const;
    const { content } = await result({
      result: {
        content: [
          { type: "text", text: "a".repeat(30_000) },
          image,
          { type: "text", text: "b".repeat(30_000) },
          { ...image, data: "A".repeat(6 * 1024 * 1024) },
        ],
      },
    });
    const parts = content as readonly { readonly type: string; readonly text?: string }[];
    expect(parts.map((part) => part.type)).toEqual(["text", "image", "text", "text", "text"]);
    expect(parts[2]!.text).toHaveLength(40 * 1024 - 30_000);
    expect(parts[3]!.text).toBe("[An image or sound of the result is too large to be passed on.]");
  });

  it("is never empty, and structured content stands in only where there is nothing else", async () => {
    expect((await result(textResult(""))).content).toEqual([{ type: "text", text: "(no output)" }]);
    expect((await result({ result: { content: [], structuredContent: { a: 1 } } })).content).toEqual([
      { type: "text", text: '{"a":1}' },
    ]);
    const both = await result({ result: { content: [{ type: "text", text: "x" }], structuredContent: { a: 1 } } });
    expect(both).toEqual({ resultType: "complete", content: [{ type: "text", text: "x" }] });
  });

  it("is well-formed", async () => {
    expect((await result(textResult("a\ud83d b\u0000 c \\u0000"))).content).toEqual([
      { type: "text", text: "a\uFFFD b\uFFFD c \\u0000" },
    ]);
  });
});
