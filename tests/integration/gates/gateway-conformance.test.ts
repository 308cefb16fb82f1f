/** The protocol's own conformance suite, in both revisions, through the gateway. */
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startEverythingServer } from "@signalbox/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LETS_ALL, startGatewayWorld, startKeyProxy, type GatewayWorld, type KeyProxy } from "./gateway-fixture.ts";

const SUITE = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json")),
  "dist/index.js",
);
/** Scenarios that no revision scores. */
const BASELINE = fileURLToPath(new URL("conformance-unscored.yml", import.meta.url));
const SUITE_MS = 120_000;

const stack = new AsyncDisposableStack();
let world: GatewayWorld;
let proxy: KeyProxy;

beforeAll(async () => {
  const everything = stack.use(await startEverythingServer());
  world = stack.use(
    await startGatewayWorld({
      policy: LETS_ALL,
      servers: {
        all: { transport: "http", url: everything.url, headers: {}, tools: {}, clients: "all" },
      },
    }),
  );
  proxy = stack.use(await startKeyProxy(await world.key(), world.url));
}, SUITE_MS);
afterAll(() => stack.disposeAsync());

interface Outcome {
  readonly code: number;
  readonly output: string;
}

function runSuite(revision: string): Promise<Outcome> {
  const url = `${proxy.url}/mcp/servers/all`;
  const out = mkdtempSync(join(tmpdir(), "conformance-"));
  stack.defer(() => rmSync(out, { recursive: true, force: true }));
  const words = ["server", "--url", url, "--requirements", revision, "--expected-failures", BASELINE, "-o", out];
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [SUITE, ...words],
      { timeout: SUITE_MS, maxBuffer: 2 ** 26 },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : Number(error.code ?? 1);
        resolve({ code, output: `${stdout}\n${stderr}\n${failedChecks(out)}` });
      },
    );
  });
}

/** Which checks failed, and why, of scenarios that count. */
function failedChecks(out: string): string {
  const files = readdirSync(out, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith("checks.json"));
  const lines = files
    .filter((name) => !name.includes("tasks-"))
    .flatMap((name): readonly { readonly status: string; readonly id: string; readonly errorMessage?: string }[] =>
      JSON.parse(readFileSync(join(out, name), "utf8")),
    )
    .filter(({ status }) => status === "FAILURE")
    .map(({ id, errorMessage }) => `${id}: ${errorMessage}`);
  return lines.join("\n");
}

describe("the gateway at the address of one server", () => {
  it.each([
    ["2025-11-25", 75],
    ["2026-07-28", 100],
  ])(
    "passes every scored check of %s",
    async (revision, fewest) => {
      const { code, output } = await runSuite(revision);
      const summary = output.slice(output.indexOf("=== SUMMARY ==="));
      expect(code === 0 ? "" : summary).toBe("");
      const [, passed = "0"] = /Total: (\d+) passed/.exec(summary) ?? [];
      expect(Number(passed)).toBeGreaterThanOrEqual(fewest);
    },
    SUITE_MS,
  );

  it("has every call of a tool in its ledger, closed, and in the audit", async () => {
    const calls = await world.rows<{ state: string; n: number }>(
      "select state, count(*)::int as n from signalbox.gateway_call group by state order by state",
    );
    const count = new Map(calls.map(({ state, n }) => [state, n]));
    expect(count.get("succeeded")).toBeGreaterThan(20);
    expect(count.get("executing")).toBeUndefined();
    const [audited] = await world.rows<{ called: number; settled: number }>(
      `select count(*) filter (where action = 'tool_called')::int as called,
              count(*) filter (where action = 'tool_settled')::int as settled
       from signalbox.audit_pending`,
    );
    expect(audited?.called).toBe([...count.values()].reduce((sum, n) => sum + n, 0));
    expect(audited?.settled).toBe(audited?.called);
  });
});
