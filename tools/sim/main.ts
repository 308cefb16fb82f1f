/** `npm run sim -- --seed 42`: one simulated history again, step by step. */
import { parseArgs } from "node:util";
import { SABOTAGES, simulate, type Sabotage } from "@signalbox/testkit";

const USAGE = `usage: npm run sim -- [--seed N] [--seeds COUNT] [--sabotage NAME] [--calm] [--quiet]

  --seed N         the history to tell (1)
  --seeds COUNT    run this many histories from the seed on, and tell only the ones that broke a promise
  --sabotage NAME  with a deliberate defect: ${SABOTAGES.join(", ")}
  --calm           one message on one process, nothing goes wrong
  --quiet          only how it ended`;

interface Choice {
  readonly seed: number;
  readonly count: number;
  readonly sabotage: Sabotage | null;
  readonly calm: boolean;
  readonly quiet: boolean;
}

function choose(): Choice | null {
  const { values } = parseArgs({
    options: {
      seed: { type: "string", default: "1" },
      seeds: { type: "string", default: "1" },
      sabotage: { type: "string" },
      calm: { type: "boolean", default: false },
      quiet: { type: "boolean", default: false },
    },
  });
  const seed = Number(values.seed);
  const count = Number(values.seeds);
  const sabotage = SABOTAGES.find((each) => each === values.sabotage) ?? null;
  const known = values.sabotage === undefined || sabotage !== null;
  if (!Number.isSafeInteger(seed) || !Number.isSafeInteger(count) || count < 1 || !known) return null;
  return { seed, count, sabotage, calm: values.calm, quiet: values.quiet || count > 1 };
}

async function tell(seed: number, choice: Choice): Promise<boolean> {
  const report = await simulate({
    seed,
    scenario: choice.calm ? { fault: null } : "storm",
    sabotage: choice.sabotage,
    ...(choice.quiet ? {} : { onLine: (line: string) => console.log(line) }),
  });
  const broken = report.violations;
  if (choice.count === 1 || broken.length > 0) {
    for (const run of report.runs) console.log(`seed ${seed}  ${run.runId}  ${run.state}  ${run.reason ?? ""}`);
    for (const { invariant, atMs, detail } of broken) {
      console.log(`seed ${seed}  ${invariant} at ${Math.round(atMs)} ms: ${detail}`);
    }
  }
  return broken.length === 0;
}

async function main(): Promise<number> {
  const choice = choose();
  if (choice === null) {
    console.error(USAGE);
    return 2;
  }
  let brokenCount = 0;
  for (let seed = choice.seed; seed < choice.seed + choice.count; seed += 1) {
    if (!(await tell(seed, choice))) brokenCount += 1;
  }
  console.log(`${choice.count - brokenCount} of ${choice.count} histories kept every promise`);
  return brokenCount === 0 ? 0 : 1;
}

process.exitCode = await main();
