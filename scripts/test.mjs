/** `npm test`: installs if needed, builds, runs everything, and ends with `N passed, N failed`. */
import { fileURLToPath } from "node:url";
import { prepare } from "./prepare.mjs";
import { runSteps } from "./run-steps.mjs";
import { stepsOf } from "./steps.mjs";
import { conclude } from "./trouble.mjs";

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");

await conclude(
  async () => {
    const { env } = await prepare(root);
    return await runSteps(stepsOf("full"), { root, env });
  },
  () => process.stdout.write("0 passed, 1 failed\n"),
);
