import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, test } from "vitest";
import { nodeArguments } from "./node-entry.ts";
import { type SimProcess, startSimProcess } from "./sim-process.ts";

/** A process of its own starts in a second on a quiet machine. */
const TEST_MS = 30_000;

let sim: SimProcess | null = null;
afterEach(async () => {
  await sim?.close();
  sim = null;
});

async function ask(url: string, content: string): Promise<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer secret" },
    body: JSON.stringify({ model: "sim", messages: [{ role: "user", content }] }),
  });
  return response.text();
}

/** Runs the command to its end. */
async function run(args: readonly string[]): Promise<{ code: number; out: string; err: string }> {
  const child = spawn(process.execPath, [...nodeArguments("sim/main"), ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  return { code: Number(code), out, err };
}

describe("signalbox-sim", { timeout: TEST_MS }, () => {
  test("says where it is, answers, shows what it was asked, and ends on SIGTERM", async () => {
    sim = await startSimProcess(["--seed", "42", "--tokens", "3"]);
    expect(await ask(sim.url, "hello")).toContain("w0 w1 w2 ");
    const [request] = await sim.requests();
    expect(request).toMatchObject({ path: "/v1/chat/completions", wire: "completions", status: 200 });
    expect(JSON.stringify(request)).not.toContain("secret");
    await sim.close();
    await expect(fetch(sim.url)).rejects.toThrow("fetch failed");
  });

  test("ends when the standard input of --exit-with-parent closes, also while an answer hangs", async () => {
    const args = [...nodeArguments("sim/main"), "--exit-with-parent"];
    const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
    const exited = once(child, "exit");
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const { url } = JSON.parse(line.toString()) as { url: string };
    const hanging = ask(url, "[[sim:hang]]").catch((error: unknown) => error);
    child.stdin.end();
    expect(await exited).toEqual([0, null]);
    expect(await hanging).toBeInstanceOf(TypeError);
  });

  test("plays scripts of files", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sim-"));
    try {
      const file = join(folder, "script.json");
      const form = { script: [{ parts: [{ text: "from the file" }] }], scripts: { named: [{ status: 418 }] } };
      await writeFile(file, JSON.stringify(form));
      sim = await startSimProcess(["--script", file]);
      expect(await ask(sim.url, "hello")).toContain("from the file");
      expect(await ask(sim.url, "[[script:named]]")).toContain("418");
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test.each([
    [["--port", "many"]],
    [["--ids", "random"]],
    [["--timestamps"]],
    [["--unheard-of"]],
    [["--script", "/nowhere/x.json"]],
  ])("%j is refused with a sentence", async (args) => {
    const { code, out, err } = await run(args);
    expect(code).not.toBe(0);
    expect(out).toBe("");
    expect(err).toMatch(/^signalbox-sim: \S.*\n$/);
  });

  test("a port that is taken is refused with a sentence", async () => {
    sim = await startSimProcess();
    const { code, err } = await run(["--port", new URL(sim.url).port]);
    expect(code).toBe(2);
    expect(err).toContain("cannot listen");
  });
});
