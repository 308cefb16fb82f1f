/**
 * Everything that is checked, in order. A step of a lower level is part of the higher ones.
 * @typedef {object} Step
 * @property {string} name
 * @property {"fast" | "check" | "full"} level
 * @property {readonly string[]} command
 * @property {boolean} [counts] true when it is a run of vitest whose tests are counted one by one
 * @property {number} timeoutMs ends a run that hangs; a busy machine must not come near it
 */

const MINUTE_MS = 60_000;

/**
 * @param {string} kind
 * @param {Step["level"]} level
 * @param {number} minutes
 * @returns {Step}
 */
function tests(kind, level, minutes) {
  const command = ["vitest", "run", "--project", kind];
  return { name: kind, level, command, counts: true, timeoutMs: minutes * MINUTE_MS };
}

/** @type {readonly Step[]} */
const STEPS = [
  { name: "format", level: "fast", command: ["oxfmt", "--check", "."], timeoutMs: MINUTE_MS },
  // Before lint: its rules read the types of other packages from their builds.
  { name: "types", level: "fast", command: ["tsc", "--build"], timeoutMs: 5 * MINUTE_MS },
  { name: "lint", level: "fast", command: ["oxlint"], timeoutMs: 2 * MINUTE_MS },
  { name: "tidy", level: "fast", command: ["node", "tools/tidy/tidy.ts"], timeoutMs: MINUTE_MS },
  tests("unit", "fast", 6),
  { name: "unused", level: "check", command: ["knip"], timeoutMs: 2 * MINUTE_MS },
  { name: "protocol", level: "check", command: ["node", "tools/protocol.ts"], timeoutMs: 2 * MINUTE_MS },
  { name: "reports", level: "check", command: ["node", "tools/reports.ts"], timeoutMs: 3 * MINUTE_MS },
  { name: "packages", level: "check", command: ["node", "tools/packages.ts"], timeoutMs: 3 * MINUTE_MS },
  tests("pins", "check", 3),
  tests("property", "check", 5),
  tests("simulation", "check", 8),
  tests("conformance", "check", 12),
  tests("access", "check", 5),
  tests("walkthrough", "full", 6),
  // First in a while on a machine without Chromium: the step installs it.
  tests("browser", "full", 8),
  tests("integration", "full", 40),
];

/**
 * @param {Step["level"]} level
 * @returns {readonly Step[]}
 */
export function stepsOf(level) {
  const levels = ["fast", "check", "full"];
  return STEPS.filter((step) => levels.indexOf(step.level) <= levels.indexOf(level));
}
