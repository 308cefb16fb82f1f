/**
 * `npm start`: installs if needed, builds, and runs the main job on the pinned Node. Any Node from 18 on can begin it.
 * What follows `--` goes to the main job, `--once` among it.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { handOver } from "./child.mjs";
import { prepare } from "./prepare.mjs";
import { conclude } from "./trouble.mjs";

const root = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");

await conclude(async () => {
  const { node, env } = await prepare(root);
  const job = join(root, "scripts", "main-job.ts");
  if (!existsSync(job)) {
    process.stdout.write("installed and built\n");
    return 0;
  }
  return await handOver([node, job, ...process.argv.slice(2)], { cwd: root, env });
});
