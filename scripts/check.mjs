/** `npm run check:fast`, `check` and `check:full`: the same steps as `npm test`, up to a level. */
import { fileURLToPath } from "node:url";
import { toolEnvironment } from "./platform.mjs";
import { runSteps } from "./run-steps.mjs";
import { stepsOf } from "./steps.mjs";
import { conclude, Trouble } from "./trouble.mjs";

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");

await conclude(async () => {
  const level = process.argv[2];
  if (level !== "fast" && level !== "check" && level !== "full") {
    throw new Trouble("usage: node scripts/check.mjs fast | check | full");
  }
  return await runSteps(stepsOf(level), { root, env: toolEnvironment(root) });
});
