/** The bars of the gates alone, P-6 and P-7: `node --conditions=@signalbox/source bench/gates.ts [--json] [--runs N]`. */
import { parseArgs } from "node:util";
import type { BarResult, BenchOptions } from "./bar.ts";
import { toolGateCost } from "./p-6/bar.ts";
import { modelGateCost } from "./p-7/bar.ts";
import { toJson, toTable } from "./report.ts";

const { values } = parseArgs({ options: { json: { type: "boolean" }, runs: { type: "string" } } });
const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());

const options: BenchOptions = {
  runCount: values.runs === undefined ? null : Number(values.runs),
  warmUpCount: null,
  wants: () => true,
  say: (text) => process.stderr.write(`${text}\n`),
  interrupted: interrupted.signal,
};
const results: BarResult[] = [];
for (const bar of [toolGateCost, modelGateCost]) {
  options.say(`${bar.id}: ${bar.title}`);
  for await (const result of bar.measure(options)) results.push(result);
}
process.stdout.write(`${values.json === true ? toJson(results) : toTable(results)}\n`);
