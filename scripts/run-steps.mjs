import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { runToEnd } from "./child.mjs";
import { Trouble } from "./trouble.mjs";

/**
 * @typedef {import("./steps.mjs").Step} Step
 * @typedef {{ fullName: string, status: string, failureMessages: readonly string[] }} TestResult
 * @typedef {{ name: string, message: string, status: string, assertionResults: readonly TestResult[] }} FileResult
 * @typedef {{ numPassedTests: number, numFailedTests: number, testResults?: readonly FileResult[] }} Report
 * @typedef {{ passed: number, failed: number, why: string | null, failures?: readonly string[] }} Count
 */

/** A log is often cut to its end: what failed stands there again, but never pushes the table out. */
const SHOWN_FAILURES = 12;
const SHOWN_MESSAGE_LINES = 8;

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
  /** @type {string[]} */
  const failures = [];
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
    failures.push(...(count.failures ?? []));
    const seconds = ((Date.now() - startedMs) / 1000).toFixed(1);
    const verdict = count.failed === 0 ? "ok       " : "FAILED   ";
    lines.push(
      `${verdict} ${step.name.padEnd(12)} ${seconds.padStart(6)} s${count.why === null ? "" : `  ${count.why}`}`,
    );
  }
  process.off("SIGINT", interrupt);
  process.off("SIGTERM", interrupt);
  const again = failures.slice(0, SHOWN_FAILURES).map((failure) => `\n${failure}\n`);
  process.stdout.write(`${again.join("")}\n${lines.join("\n")}\n\n${total.passed} passed, ${total.failed} failed\n`);
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
 * Every test that failed, with its file and the beginning of what it said; and every file that failed as a whole.
 * @param {Report} report
 * @returns {readonly string[]}
 */
export function failuresOf(report) {
  return (report.testResults ?? []).flatMap((file) => {
    const tests = file.assertionResults.filter((test) => test.status === "failed");
    const whole = file.status === "failed" && tests.length === 0 ? [`${file.name}\n${file.message}`] : [];
    return [
      ...whole,
      ...tests.map((test) => `${file.name} > ${test.fullName}\n${test.failureMessages.join("\n")}`),
    ].map((failure) => `FAILED ${failure.split("\n").slice(0, SHOWN_MESSAGE_LINES).join("\n")}`);
  });
}

/**
 * What a run of vitest amounts to. A run without a single test, one that left something open after its tests, and
 * one that ended badly although every test passed have all failed.
 * @param {Report | null} report
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
    return { passed, failed, why: `${failed} of ${passed + failed} tests`, failures: failuresOf(report) };
  }
  if (passed === 0) {
    return { passed, failed: 1, why: "no test was run" };
  }
  if (code !== 0) {
    const why = `all ${passed} tests passed, the run ended with ${code}`;
    return { passed, failed: 1, why, failures: failuresOf(report) };
  }
  return { passed, failed: 0, why: null };
}

/**
 * @param {string} file
 * @returns {Report | null}
 */
function readReport(file) {
  try {
    return /** @type {Report} */ (JSON.parse(readFileSync(file, "utf8")));
  } catch {
    return null;
  }
}
