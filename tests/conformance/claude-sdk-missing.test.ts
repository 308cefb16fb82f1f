import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";

const scratchDir = mkdtempSync(join(tmpdir(), "x-"));
const probe = fileURLToPath(new URL("claude-sdk/probe.ts", import.meta.url));

afterAll(() => {
  rmSync(scratchDir, { recursive: true });
});

interface Seen {
  readonly description: { readonly available: boolean; readonly version: string; readonly problem: string };
  readonly refusal: { readonly code: string; readonly detail: string };
}

/** What a process sees in which packages of these names cannot be found. */
async function withoutPackages(pattern: string): Promise<Seen> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--conditions=@signalbox/source", probe, pattern, scratchDir],
    { encoding: "utf8" },
  );
  return JSON.parse(stdout) as Seen;
}

test("without the SDK the runtime says what to install, a session is refused, and nothing else breaks", async () => {
  const { description, refusal } = await withoutPackages("^@anthropic-ai/claude-agent-sdk");
  expect(description).toMatchObject({ available: false, version: "" });
  expect(description.problem).toContain("npm install @anthropic-ai/claude-agent-sdk@0.3.332");
  expect(refusal).toEqual({ code: "SDK_UNAVAILABLE", detail: description.problem });
  expect(readdirSync(scratchDir)).toEqual([]);
});

test("without its program for this platform the SDK counts as missing too", async () => {
  const { description, refusal } = await withoutPackages("^@anthropic-ai/claude-agent-sdk-");
  expect(description).toMatchObject({ available: false, version: "0.3.332" });
  expect(description.problem).toContain(`${process.platform}-${process.arch}`);
  expect(refusal.code).toBe("SDK_UNAVAILABLE");
});

test("with both it is available", async () => {
  const { description } = await withoutPackages("^nothing$");
  expect(description).toMatchObject({ available: true, version: "0.3.332", problem: "" });
});
