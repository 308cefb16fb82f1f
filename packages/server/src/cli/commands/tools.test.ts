import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ToolDetail } from "@signalbox/contract";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runSignalbox } from "../../../../../tests/setup/cli-run.ts";
import { answerJson, serveHttp, type ScriptedAnswer } from "../../../../../tests/setup/scripted-http.ts";

const DIGEST = "d".repeat(64);
const DRIFTED: ToolDetail = {
  name: "shop__refund",
  server: "shop",
  tool: "refund",
  title: "Refund",
  state: "drifted",
  offered: true,
  definitionHash: "h",
  origin: "https://shop.example.com/mcp",
  digest: DIGEST,
  lints: [{ grade: "block", code: "hidden_text", pointer: "/description", detail: "It holds text that is not shown." }],
  approvedAt: null,
  classified: false,
  effect: "irreversible",
  approve: "policy",
  trusted: false,
  timeoutMs: null,
  definition: { description: "Pays back." },
  listed: {
    definition: {},
    definitionHash: "g",
    origin: "https://shop.example.com/mcp",
    changes: [{ pointer: "/description", before: "Pays back.", after: "Pays\u200b back." }],
  },
  history: [],
};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tools-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function said(answers: readonly ScriptedAnswer[], ...words: readonly string[]) {
  await using api = await serveHttp([...answers]);
  const environment = { SIGNALBOX_URL: api.url, SIGNALBOX_API_KEY: "sbx_key", SIGNALBOX_DATA_DIR: folder };
  const { exitCode, out, err } = await runSignalbox(["tools", ...words], { environment });
  return { exitCode, text: out + err };
}

describe("tools", () => {
  it("shows what differs, with what a terminal hides, and how exactly that is approved", async () => {
    const { text } = await said([answerJson(200, DRIFTED)], "show", "shop__refund");
    expect(text).toContain("unclassified, which counts as irreversible");
    expect(text).toContain("hidden_text at /description");
    expect(text).toContain(String.raw`is        "Pays\u200b back."`);
    expect(text).toContain(`signalbox tools approve shop__refund --digest ${DIGEST}`);
  });

  it("says what a tool is from now on", async () => {
    const tool = { ...DRIFTED, classified: true, effect: "read", trusted: true, timeoutMs: 500 };
    const { text } = await said(
      [answerJson(200, tool)],
      "classify",
      "shop__refund",
      "--effect",
      "read",
      "--trusted",
      "yes",
    );
    expect(text).toBe("shop__refund: read, ask: policy, its answers are vouched for, 500 ms at most.\n");
  });

  it.each([
    [["approve", "shop__refund"], "say what was shown: --digest"],
    [["classify", "shop__refund"], "say something of it: --effect"],
    [["classify", "shop__refund", "--effect", "harmless"], "--effect takes one of read"],
    [["classify", "shop__refund", "--timeout-ms", "soon"], '--timeout-ms takes a number, or "none"'],
    [["show"], "name a tool"],
    [["list", "shop__refund"], "too many words"],
    [["forget", "shop__refund"], 'there is no "tools forget"'],
    [["list", "--digest", DIGEST], "--digest"],
  ])("refuses %j in a sentence", async (words, sentence) => {
    const { exitCode, text } = await said([], ...words);
    expect(exitCode).toBe(2);
    expect(text).toContain(sentence);
  });
});
