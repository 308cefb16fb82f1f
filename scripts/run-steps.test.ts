import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { countTests, runSteps } from "./run-steps.mjs";
import { stepsOf, type Step } from "./steps.mjs";

let root = "";
const written: string[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "steps-"));
  written.length = 0;
  vi.spyOn(process.stdout, "write").mockImplementation((chunk) => written.push(String(chunk)) > 0);
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(root, { recursive: true, force: true });
});

function step(name: string, script: string, more: Partial<Step> = {}): Step {
  const file = join(root, `${name}.mjs`);
  writeFileSync(file, script);
  return { name, level: "fast", command: [process.execPath, file], timeoutMs: 10_000, ...more };
}

/** A neighbour that behaves like the runner: writes the report it is asked for. */
function runner(
  name: string,
  told: { readonly passed: number; readonly failed: number; readonly files?: readonly object[] },
  code: number,
): Step {
  const { passed, failed, files = [] } = told;
  const report = JSON.stringify({ numPassedTests: passed, numFailedTests: failed, testResults: files });
  return step(
    name,
    `import { writeFileSync } from "node:fs";
     const file = process.argv.find((one) => one.startsWith("--outputFile.json=")).slice(18);
     writeFileSync(file, ${JSON.stringify(report)});
     process.exit(${code});`,
    { counts: true },
  );
}

async function run(...steps: readonly Step[]): Promise<{ readonly code: number; readonly last: string }> {
  const code = await runSteps(steps, { root, env: process.env });
  return { code, last: written.join("").trimEnd().split("\n").at(-1) ?? "" };
}

describe("the steps", () => {
  it("sums tests and single steps, and ends with the line on its own", async () => {
    const result = await run(
      step("lint", ""),
      runner("unit", { passed: 5, failed: 0 }, 0),
      runner("pins", { passed: 2, failed: 0 }, 0),
    );
    expect(result).toEqual({ code: 0, last: "8 passed, 0 failed" });
  });

  it("goes on after a failure and ends with 1", async () => {
    const result = await run(
      step("lint", "process.exit(3)"),
      runner("unit", { passed: 5, failed: 2 }, 1),
      step("tidy", ""),
    );
    expect(result).toEqual({ code: 1, last: "6 passed, 3 failed" });
    expect(written.join("")).toMatch(/FAILED +lint.*exit 3[\s\S]*FAILED +unit.*2 of 7 tests[\s\S]*ok +tidy/);
  });

  it("fails a runner that executed nothing, wrote nothing or ended badly after passing", async () => {
    expect(await run(runner("unit", { passed: 0, failed: 0 }, 0))).toEqual({ code: 1, last: "0 passed, 1 failed" });
    expect(await run(step("unit", "", { counts: true }))).toEqual({ code: 1, last: "0 passed, 1 failed" });
    expect(await run(runner("unit", { passed: 4, failed: 0 }, 1))).toEqual({ code: 1, last: "4 passed, 1 failed" });
  });

  it("says at the end once more which test failed, where and how", async () => {
    const test = { fullName: "a run ends", status: "failed", failureMessages: ["expected 1 to be 2\n    at x.ts:7:1"] };
    const whole = { name: "/w/b.test.ts", status: "failed", message: "no such import", assertionResults: [] };
    const files = [{ name: "/w/a.test.ts", status: "failed", message: "", assertionResults: [test] }, whole];
    await run(runner("unit", { passed: 5, failed: 1, files }, 1), step("tidy", ""));
    expect(written.at(-1)).toMatch(
      /FAILED \/w\/a\.test\.ts > a run ends\nexpected 1 to be 2\n +at x\.ts:7:1\n\nFAILED \/w\/b\.test\.ts\nno such import\n\nFAILED +unit/,
    );
  });

  it("ends a step that does not end", async () => {
    const result = await run(step("hangs", "setInterval(() => {}, 1000)", { timeoutMs: 300 }));
    expect(result).toEqual({ code: 1, last: "0 passed, 1 failed" });
    expect(written.join("")).toMatch(/FAILED +hangs.*did not end/);
  });

  it("fails a step that cannot be started", async () => {
    const absent = { ...step("x", ""), command: [join(root, "absent")] };
    expect(await run(absent, step("tidy", ""))).toEqual({ code: 1, last: "1 passed, 1 failed" });
    expect(written.join("")).toMatch(/FAILED +x .*could not be started/);
  });

  it("says why in words", () => {
    expect(countTests(null, 7)).toEqual({ passed: 0, failed: 1, why: "exit 7 without a report" });
  });
});

describe("the levels", () => {
  it("contain each other", () => {
    const names = (level: Step["level"]): readonly string[] => stepsOf(level).map(({ name }) => name);
    expect(names("check").slice(0, names("fast").length)).toEqual(names("fast"));
    expect(names("full").slice(0, names("check").length)).toEqual(names("check"));
    expect(new Set(names("full")).size).toBe(names("full").length);
  });
});
