/**
 * `npm run bench`: measures the bars of the design side by side with the bare engine and prints them as ratios. The
 * method is in `docs/benchmarks.md`. Progress goes to standard error, the table or the JSON to standard output.
 */
import { parseArgs } from "node:util";
import type { BarResult, BenchOptions } from "./bar.ts";
import { BARS } from "./registry.ts";
import { toJson, toTable } from "./report.ts";

const USAGE = `npm run bench -- [options]

  --only ID[,ID…]   P-1, P-11, or one case such as P-1/langgraph/300ms; default: everything
  --runs N          measured runs of each case, instead of its own number
  --warm-up N       runs before them
  --json            print [{id, value, unit, bar, holds, n, note}] (with npm run --silent, nothing else is printed)
`;

class UsageError extends Error {
  override readonly name = "UsageError";
}

const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());

async function main(): Promise<void> {
  const { values } = parseCommand();
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const wants = wantedOf(values.only);
  const options: BenchOptions = {
    runCount: countOf(values.runs, "--runs"),
    warmUpCount: countOf(values["warm-up"], "--warm-up"),
    wants,
    say: (text) => process.stderr.write(`${text}\n`),
    interrupted: interrupted.signal,
  };
  const results: BarResult[] = [];
  for (const bar of BARS) {
    if (!bar.cases.some(wants)) continue;
    options.say(`${bar.id}: ${bar.title}`);
    for await (const result of bar.measure(options)) results.push(result);
  }
  process.stdout.write(`${values.json === true ? toJson(results) : toTable(results)}\n`);
}

function parseCommand() {
  try {
    return parseArgs({
      options: {
        only: { type: "string" },
        runs: { type: "string" },
        "warm-up": { type: "string" },
        json: { type: "boolean" },
        help: { type: "boolean" },
      },
    });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : "The options cannot be read.";
    throw new UsageError(`${reason}\n\n${USAGE}`, { cause });
  }
}

function wantedOf(only: string | undefined): (id: string) => boolean {
  if (only === undefined) return () => true;
  const names = only.split(",").map((name) => name.trim());
  const covers = (name: string, id: string): boolean => id === name || id.startsWith(`${name}/`);
  const known = BARS.flatMap((bar) => bar.cases);
  for (const name of names) {
    if (!known.some((id) => covers(name, id))) {
      throw new UsageError(`There is no bar ${name}. There are:\n  ${known.join("\n  ")}`);
    }
  }
  return (id) => names.some((name) => covers(name, id));
}

function countOf(text: string | undefined, option: string): number | null {
  if (text === undefined) return null;
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new UsageError(`${option} takes a whole number of at least 1.`);
  return Number(text);
}

await main().catch((thrown: unknown) => {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const isExpected = error instanceof UsageError || interrupted.signal.aborted;
  process.stderr.write(`${isExpected ? error.message : error.stack}\n`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
});
