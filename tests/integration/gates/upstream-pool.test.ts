/** Tool servers that are processes and die under their callers: how many there are, and what is left of them. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { HttpClient } from "../../../packages/server/src/gates/http-client.ts";
import { NotAnswered } from "../../../packages/server/src/tool-gate/rpc-wire.ts";
import { until } from "../../setup/until.ts";
import { recordingLog } from "./gate-fixture.ts";
import { newPool } from "./tool-fixture.ts";

const CALLS = 10_000;
const CRASH_EVERY = 1_000;
/** Calls after which everything that is kept once is kept. */
const SETTLED = 2_000;
const GROWTH_BYTES_MAX = 16 * 1024 * 1024;
const PRINCIPALS = ["ana", "ben"];
const LIVE_MS = 90_000;

/** Speaks lines, keeps what it was told, writes down its own number, and dies now and then in the middle of a call. */
const SERVER = `
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
appendFileSync(process.argv[2], process.pid + "\\n");
let kept = "nothing", count = 0;
const tools = ["set", "get"].map((name) => ({ name, inputSchema: { type: "object" } }));
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  const answer = (result) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n");
  if (method === "initialize") answer({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "x", version: "1" } });
  else if (method === "tools/list") answer({ tools });
  else if (method === "tools/call") {
    count += 1;
    if (count === ${CRASH_EVERY}) process.exit(1);
    if (params.name === "set") kept = params.arguments.value;
    answer({ content: [{ type: "text", text: kept }] });
  } else if (id !== undefined) process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "no" } }) + "\\n");
}
`;

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** What is used once nothing that is not needed is kept. */
function usedBytes(): number {
  setFlagsFromString("--expose-gc");
  // A context that is made after the flag was set has it.
  const collect = runInNewContext("gc") as () => void;
  collect();
  return process.memoryUsage().heapUsed;
}

describe("tool servers that are processes", () => {
  it(
    "are one for each principal, are started again when they die, and leave nothing behind",
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "pool-"));
      const started = join(folder, "pids");
      const pids = (): readonly number[] => readFileSync(started, "utf8").trim().split("\n").map(Number);
      writeFileSync(join(folder, "server.mjs"), SERVER);
      writeFileSync(started, "");
      const http = new HttpClient();
      const args = [join(folder, "server.mjs"), started];
      const server = { transport: "stdio", command: process.execPath, args, env: {}, tools: {} } as const;
      const pool = newPool({ lines: server }, { log: recordingLog(), http });
      let failed = 0;
      const call = async (principal: string, tool: string, input: object): Promise<string> => {
        const request = {
          tool,
          argumentsJson: JSON.stringify(input),
          meta: {},
          headers: {},
          timeoutMs: 20_000,
          signal: new AbortController().signal,
        };
        return until(`an answer for ${principal}`, async () => {
          try {
            const answer = await pool.with({ server: "lines", principal }, (connection) => connection.call(request));
            return JSON.stringify(answer);
          } catch (thrown) {
            if (!(thrown instanceof NotAnswered)) throw thrown;
            failed += thrown.sent ? 1 : 0;
            return null;
          }
        });
      };
      for (const principal of PRINCIPALS) await call(principal, "set", { value: principal });
      for (const principal of PRINCIPALS) expect(await call(principal, "get", {})).toContain(principal);
      let before = 0;
      for (let at = 0; at < CALLS; at += 1) {
        if (at === SETTLED) before = usedBytes();
        await call(PRINCIPALS[at % PRINCIPALS.length] ?? "", "get", {});
        if (at % 100 === 0) expect(pids().filter(isAlive).length).toBeLessThanOrEqual(PRINCIPALS.length);
      }
      const crashes = failed;
      expect(crashes).toBeGreaterThanOrEqual(8);
      expect(pids().length).toBe(PRINCIPALS.length + crashes);
      expect(pool.count("lines")).toBe(PRINCIPALS.length);
      expect(usedBytes() - before).toBeLessThan(GROWTH_BYTES_MAX);
      await pool[Symbol.asyncDispose]();
      expect(pids().filter(isAlive)).toEqual([]);
      http[Symbol.dispose]();
      rmSync(folder, { recursive: true, force: true });
    },
    LIVE_MS,
  );
});
