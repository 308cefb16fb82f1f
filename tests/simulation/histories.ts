/** Runs histories for the proofs: many seeds of storm, then one fault at every port call of a calm path. */
import {
  InvariantBroken,
  simulate,
  type CalmScenario,
  type Fate,
  type Sabotage,
  type SimulationReport,
  type Violation,
} from "@signalbox/testkit";

const SEED_COUNT = 300;
export const FATES = ["crash_before", "crash_sent", "crash_after", "lost_reply", "twice", "stall"] as const;

/** Every port call of a calm path, with every fate: `see` decides whether to go on. */
export async function sweep(
  sabotage: Sabotage | null,
  see: (report: SimulationReport, fault: { readonly index: number; readonly fate: Fate }) => boolean,
  asks: CalmScenario["asks"] = null,
): Promise<void> {
  const calm = await simulate({ seed: 1, scenario: { fault: null, asks } });
  for (const fate of FATES) {
    for (let index = 0; index < calm.callCount; index += 1) {
      const fault = { index, fate };
      if (!see(await simulate({ seed: 1, scenario: { fault, asks }, sabotage }), fault)) return;
    }
  }
}

/** Throws the first violation of this promise that any history shows. */
export async function keeps(id: Violation["invariant"], sabotage: Sabotage | null): Promise<void> {
  const broken = sabotage === null ? (await asItIs()).find(isOf(id)) : await firstUnder(sabotage, id);
  if (broken !== undefined) throw new InvariantBroken(broken.violation, broken.told);
}

interface Broken {
  readonly violation: Violation;
  readonly told: string;
}

const isOf =
  (id: Violation["invariant"]) =>
  ({ violation }: Broken): boolean =>
    violation.invariant === id;

let histories: Promise<readonly Broken[]> | null = null;

/** Without sabotage the same histories serve every proof, so they are told once. */
function asItIs(): Promise<readonly Broken[]> {
  histories ??= tellAll();
  return histories;
}

async function tellAll(): Promise<readonly Broken[]> {
  const broken: Broken[] = [];
  for (let seed = 1; seed <= SEED_COUNT; seed += 1) broken.push(...brokenIn(await storm(seed, null), `seed ${seed}`));
  await sweep(null, (report, { index, fate }) => {
    broken.push(...brokenIn(report, `${fate} at call ${index}`));
    return true;
  });
  return broken;
}

async function firstUnder(sabotage: Sabotage, id: Violation["invariant"]): Promise<Broken | undefined> {
  for (let seed = 1; seed <= SEED_COUNT; seed += 1) {
    const found = brokenIn(await storm(seed, sabotage), `seed ${seed}`).find(isOf(id));
    if (found !== undefined) return found;
  }
  let found: Broken | undefined;
  await sweep(sabotage, (report, { index, fate }) => {
    found = brokenIn(report, `${fate} at call ${index}`).find(isOf(id));
    return found === undefined;
  });
  return found;
}

function storm(seed: number, sabotage: Sabotage | null): Promise<SimulationReport> {
  return simulate({ seed, scenario: "storm", sabotage });
}

function brokenIn(report: SimulationReport, told: string): readonly Broken[] {
  return report.violations.map((violation) => ({ violation, told }));
}
