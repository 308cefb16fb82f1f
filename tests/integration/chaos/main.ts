/**
 * `npm run chaos -- [--seconds 300] [--seed N] [--break INV-06]`: a storm on real processes and its report, then the
 * negative control: a short storm under each sabotage, and after how long it was found.
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { perform } from "./perform.ts";
import { foundAfter, SABOTAGES } from "./sabotages.ts";

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const complain = (line: string): void => void process.stderr.write(`${line}\n`);

const { values } = parseArgs({
  options: { seconds: { type: "string" }, seed: { type: "string" }, break: { type: "string" } },
});
const seed = Number(values.seed ?? Date.now() % 1_000_000);
const seconds = Number(values.seconds ?? 300);
const sabotage = values.break === undefined ? undefined : SABOTAGES[values.break];
if (values.break !== undefined && sabotage === undefined) {
  complain(`--break takes one of ${Object.keys(SABOTAGES).join(", ")}`);
  process.exit(2);
}
if (!Number.isSafeInteger(seed) || !(seconds > 0)) {
  complain("--seed and --seconds take numbers");
  process.exit(2);
}

const startedAtMs = performance.now();
const stamp = (): string => `${((performance.now() - startedAtMs) / 1_000).toFixed(1).padStart(7)} s`;
const note = (text: string): void => say(`${stamp()}  ${text}`);
const report = await perform({ seed, seconds, note, ...(sabotage === undefined ? {} : { sabotage }) });
say(`\n${report.faults.length} faults, ${report.messages} acknowledged messages, seed ${seed}`);
for (const { promise, where } of report.breaches.slice(0, 40)) say(`BROKEN ${promise}: ${where}`);
say(
  report.breaches.length === 0
    ? "every promise held"
    : `${report.breaches.length} breaches; the same faults again: npm run chaos -- --seconds ${seconds} --seed ${seed}`,
);
const missed = values.break === undefined ? await control() : 0;
process.exitCode = report.breaches.length === 0 && missed === 0 ? 0 : 1;

/** Answers how many sabotages nobody noticed. */
async function control(): Promise<number> {
  let missedCount = 0;
  say("\nthe negative control");
  for (const promise of Object.keys(SABOTAGES)) {
    const found = await foundAfter(promise, { seed, note });
    if (found === null) missedCount += 1;
    say(
      found === null
        ? `NOT FOUND: nobody noticed that ${promise} was taken away`
        : `${promise} was taken away, and found after ${found.seconds.toFixed(0)} s: ${found.where}`,
    );
  }
  return missedCount;
}
