import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { runToEnd } from "./child.mjs";
import { Trouble } from "./trouble.mjs";

/**
 * @typedef {import("./steps.mjs").Step} Step
 * @typedef {{ passed: number, failed: number, why: string | null }} Count
 */

/**
 * Runs every step to its end, also after one has failed, and closes with `N passed, N failed`.
 * @param {readonly Step[]} steps
 * @param {{ root: string, env: NodeJS.ProcessEnv }} place
 * @returns {Promise<number>} exit code
 */
export async function runSteps(steps, place) {
  let interrupted = false;
  const interrupt = () => {
    interrupted = true;
  };
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", interrupt);
  const lines = [];
  const total = { passed: 0, failed: 0 };
  for (const step of steps) {
    if (interrupted) {
      total.failed += 1;
      lines.push(`not run   ${step.name}`);
      continue;
    }
    process.stdout.write(`\n── ${step.name}\n`);
    const startedMs = Date.now();
    const count = await runStep(step, place).catch(asFailure);
    total.passed += count.passed;
    total.failed += count.failed;
    const seconds = ((Date.now() - startedMs) / 1000).toFixed(1);
    const verdict = count.failed === 0 ? "ok       " : "FAILED   ";
    lines.push(
      `${verdict} ${step.name.padEnd(12)} ${seconds.padStart(6)} s${count.why === null ? "" : `  ${count.why}`}`,
    );
  }
  process.off("SIGINT", interrupt);
  process.off("SIGTERM", interrupt);
  process.stdout.write(`\n${lines.join("\n")}\n\n${total.passed} passed, ${total.failed} failed\n`);
  return total.failed === 0 && total.passed > 0 ? 0 : 1;
}

/**
 * @param {Step} step
 * @param {{ root: string, env: NodeJS.ProcessEnv }} place
 * @returns {Promise<Count>}
 */
async function runStep(step, place) {
  const folder = join(place.root, "node_modules", ".cache", "signalbox");
  const report = join(folder, `${step.name}.json`);
  mkdirSync(folder, { recursive: true });
  rmSync(report, { force: true });
  const counting = ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const command = step.counts === true ? [...step.command, ...counting] : step.command;
  const { code, timedOut } = await runToEnd(command, {
    cwd: place.root,
    env: place.env,
    show: true,
    timeoutMs: step.timeoutMs,
  });
  if (timedOut) {
    const minutes = Math.round(step.timeoutMs / 60_000);
    return { passed: 0, failed: 1, why: `did not end within ${minutes} min` };
  }
  if (step.counts !== true) {
    return code === 0 ? { passed: 1, failed: 0, why: null } : { passed: 0, failed: 1, why: `exit ${code}` };
  }
  return countTests(readReport(report), code);
}

/**
 * A step that cannot even be started has failed; the others still run.
 * @param {unknown} error
 * @returns {Count}
 */
function asFailure(error) {
  if (error instanceof Trouble) {
    return { passed: 0, failed: 1, why: error.message };
  }
  throw error;
}

/**
 * What a run of vitest amounts to. A run without a single test, one that left something open after its tests, and
 * one that ended badly although every test passed have all failed.
 * @param {{ numPassedTests: number, numFailedTests: number, numFailedTestSuites: number } | null} report
 * @param {number} code
 * @returns {Count}
 */
export function countTests(report, code) {
  if (report === null) {
    return { passed: 0, failed: 1, why: `exit ${code} without a report` };
  }
  const passed = report.numPassedTests;
  const failed = report.numFailedTests;
  if (failed > 0) {
    return { passed, failed, why: `${failed} of ${passed + failed} tests` };
  }
  if (passed === 0) {
    return { passed, failed: 1, why: "no test was run" };
  }
  if (code !== 0) {
    return { passed, failed: 1, why: `all ${passed} tests passed, the run ended with ${code}` };
  }
  return { passed, failed: 0, why: null };
}

/**
 * @param {string} file
 * @returns {Parameters<typeof countTests>[0]}
 */
function readReport(file) {
  try {
    return /** @type {Parameters<typeof countTests>[0]} */ (JSON.parse(readFileSync(file, "utf8")));
  } catch {
    return null;
  }
}
