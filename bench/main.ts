/**
 * `npm run bench`: measures the bars of the design side by side with the bare engine and prints them as ratios. The
 * method is in `docs/benchmarks.md`. Progress goes to standard error, the table or the JSON to standard output.
 */
import { parseArgs } from "node:util";
import type { BarResult, BenchOptions } from "./bar.ts";
import { BARS } from "./registry.ts";
import { toJson, toTable } from "./report.ts";

const USAGE = `npm run bench -- [BAR…] [options]

  BAR               P-1, P-11, or one case such as P-1/langgraph/300ms; default: everything
  --only ID[,ID…]   the same
  --runs N          measured runs of each case, instead of its own number
  --warm-up N       runs before them
  --smoke           as little as there can be of everything: only whether it works
  --json            print [{id, value, unit, bar, holds, n, note}] (with npm run --silent, nothing else is printed)
`;

const SMOKE_COUNT = 1;

class UsageError extends Error {
  override readonly name = "UsageError";
}

const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());

async function main(): Promise<void> {
  const { values, positionals } = parseCommand();
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const wants = wantedOf([...positionals, ...(values.only?.split(",") ?? [])].map((name) => name.trim()));
  const options: BenchOptions = {
    runCount: countOf(values.runs, "--runs") ?? (values.smoke === true ? SMOKE_COUNT : null),
    warmUpCount: countOf(values["warm-up"], "--warm-up") ?? (values.smoke === true ? SMOKE_COUNT : null),
    smoke: values.smoke === true,
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
      allowPositionals: true,
      options: {
        only: { type: "string" },
        runs: { type: "string" },
        "warm-up": { type: "string" },
        smoke: { type: "boolean" },
        json: { type: "boolean" },
        help: { type: "boolean" },
      },
    });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : "The options cannot be read.";
    throw new UsageError(`${reason}\n\n${USAGE}`, { cause });
  }
}

function wantedOf(names: readonly string[]): (id: string) => boolean {
  if (names.length === 0) return () => true;
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
