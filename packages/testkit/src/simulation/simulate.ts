/**
 * One history: processes, workers, people and readers on virtual time, under faults decided by the seed. The flows of
 * `core` run unchanged. Ends when every acknowledged message has ended, or when virtual time runs out.
 */
import { isTerminal } from "@signalbox/contract";
import type { Sabotage } from "../memory/sabotage.ts";
import { plannedFault, randomFaults, type PlannedFault } from "./faults.ts";
import { checkRest } from "./final-checker.ts";
import type { Asked } from "./plan.ts";
import { createSeeded } from "./seeded.ts";
import { CALM, stormOf } from "./storm.ts";
import type { Violation } from "./violations.ts";
import { World } from "./world.ts";

/** One message on one process. */
export interface CalmScenario {
  readonly fault: PlannedFault | null;
  /** What somebody is asked on the way, and for how long; nobody decides what expires. Default: nothing. */
  readonly asks?: Asked | null;
}

/** Which history to run. The same options tell the same history. */
export interface SimulationOptions {
  readonly seed: number;
  /** `storm`: everything the seed can think of. Otherwise one message on one process, with the fault that is planned. */
  readonly scenario: "storm" | CalmScenario;
  readonly sabotage?: Sabotage | null;
  /** Hears every step of the history. */
  readonly onLine?: (line: string) => void;
}

/** What became of a history: the promises it broke, none when all is well, and how its runs ended. */
export interface SimulationReport {
  readonly seed: number;
  readonly violations: readonly Violation[];
  /** Port calls until the last acknowledged message had ended. */
  readonly callCount: number;
  readonly virtualMs: number;
  /** How every run ended. */
  readonly runs: readonly { readonly runId: string; readonly state: string; readonly reason: string | null }[];
}

/** Long enough for every lease to run out twice after the last fault. */
const PATIENCE_MS = 90_000;
/** Whoever stood still wakes within this time, and must do no harm. */
const ZOMBIES_MS = 15_000;
const READ_EVERY_MS = 400;

/** Runs one history to its end and reports. A broken promise is in `violations`, never thrown. */
export async function simulate(options: SimulationOptions): Promise<SimulationReport> {
  const { seed, scenario } = options;
  const random = createSeeded(seed);
  const storm = scenario === "storm";
  const weather = storm ? stormOf(random.fork()) : CALM;
  const faults = storm ? randomFaults(random.fork(), weather.rates) : plannedFault(random.fork(), scenario.fault);
  const world = new World({
    seed,
    random: random.fork(),
    faults,
    plain: !storm,
    asks: storm ? null : (scenario.asks ?? null),
    sabotage: options.sabotage ?? null,
    onLine: options.onLine ?? null,
  });
  const conversationIds = world.createConversations(weather.conversationCount);
  for (const id of conversationIds) world.joinReader(id, random.between(0, 6_000));
  for (const process of weather.processes) world.startProcess(process);
  for (const atMs of weather.deployAtMs) world.deploy(atMs);
  world.user.plan(weather.messages(conversationIds));
  for (const atMs of weather.sessionLostAtMs()) world.loseSession(atMs);
  for (const atMs of weather.storeReplacedAtMs()) world.replaceStore(atMs);
  readNowAndThen(world);

  const ended = await world.scheduler.run(() => isAtRest(world), weather.rates.untilMs + PATIENCE_MS);
  const { callCount } = world.network;
  const virtualMs = world.scheduler.nowMs;
  if (storm) await world.scheduler.run(() => false, Math.max(weather.rates.untilMs, virtualMs) + ZOMBIES_MS);
  if (!(await world.drain(PATIENCE_MS))) world.report("INV-02", "a supervisor did not leave");
  if (!ended) world.report("INV-02", "virtual time ran out");
  const { db, user, effects, readers } = world;
  checkRest({ db, sent: user.sent, effects, readers, report: (invariant, detail) => world.report(invariant, detail) });
  const runs = db.runs.all().map(({ id: runId, state, reason }) => ({ runId, state, reason }));
  return { seed, violations: world.violations, callCount, virtualMs, runs };
}

function isAtRest({ user, db }: World): boolean {
  return user.sent.every((sent) => sent.answer !== null) && db.runs.all().every((run) => isTerminal(run.state));
}

function readNowAndThen(world: World): void {
  world.scheduler.after(READ_EVERY_MS, null, () => {
    for (const reader of world.readers) reader.read();
    readNowAndThen(world);
  });
}
