/** Freezes a worker until another one owns its conversation, lets it go on, and looks what it is still allowed to do. */
import type { PlatformEvent } from "@signalbox/contract";
import { DemoStage, type DemoStageOptions } from "./demo-stage.ts";
import { payments, paymentsMade } from "./payments.ts";
import { finding, logFindings, type Finding } from "./promise-table.ts";
import { breakFence } from "./sabotage.ts";

const RUNTIME = "demo_engine";
const ENGINE = new URL("./zombie-engine.js", import.meta.url);
const BOUND_MS = 60_000;
/** Nobody is asked here: this demonstration is about who may act, not about what. */
const unasked = (folder: string) => payments(folder, { effect: "irreversible", approve: "never" });

export interface ZombieOptions extends DemoStageOptions {
  /** Takes the fence of the gates away first, so that the check must find it missing. */
  readonly broken: boolean;
}

interface Attempt {
  readonly at: string;
  readonly code: string | null;
}

export async function demonstrateZombie(options: ZombieOptions): Promise<readonly Finding[]> {
  const { note } = options;
  await using stage = await DemoStage.set({ ...options, toolServers: unasked });
  if (options.broken) {
    note("the fence of the gates is taken out of this database …");
    await breakFence(stage);
  }
  const zombie = stage.startEngine(ENGINE, { SIGNALBOX_DEMO_PART: "zombie" });
  await stage.offered(RUNTIME);
  await stage.client.agents.create({
    name: "demo",
    runtime: RUNTIME,
    model: "sim/extractive-1",
    instructions: "Pay.",
    tools: ["payments/count"],
  });
  const conversation = await stage.client.conversations.create({ agent: "demo" });
  const run = await conversation.send("Make the payment.");
  note("a worker got the run, and is frozen in the middle of it …");
  const working = zombie.firstLine();
  const ended = run.result().then(({ outcome, error }) => {
    throw new Error(`the run ended before its worker was frozen: ${outcome}, ${error?.code ?? ""}`);
  });
  await Promise.race([working, ended]);
  // It ends later, which is no failure any more.
  ended.catch(() => undefined);
  stage.startEngine(ENGINE, { SIGNALBOX_DEMO_PART: "successor" });
  // Before the freeze: a run that finds nobody is given back, and is then begun anew instead of being taken over.
  await stage.offered(RUNTIME, 2);
  zombie.freeze();

  const frozenAtMs = performance.now();
  let recoveredAfterMs: number | null = null;
  const attempts: Attempt[] = [];
  let last: PlatformEvent | undefined;
  for await (const event of run.events({ signal: AbortSignal.timeout(BOUND_MS) })) {
    last = event;
    if (event.type === "run.recovered" && recoveredAfterMs === null) {
      recoveredAfterMs = performance.now() - frozenAtMs;
      note("another worker owns it now; the frozen one goes on as if nothing had happened …");
      zombie.tell("go on");
      zombie.thaw();
    }
  }
  // Written by our own engine, one line for each attempt.
  while (attempts.length < 3) attempts.push(JSON.parse(await zombie.firstLine()) as Attempt);

  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  const paymentCount = paymentsMade(stage.folder);
  const outcome = last?.type === "run.finished" ? `${last.outcome} (${last.reason})` : "no terminal event";
  const after = recoveredAfterMs === null ? "never taken over" : `taken over after ${Math.round(recoveredAfterMs)} ms`;
  return [
    finding("another worker answers", `${outcome}, ${after}`, outcome === "completed (answered)"),
    refused("INV-06: the zombie's model call is not authorised", attempts, "model"),
    refused("INV-06: the zombie's tool call is not authorised", attempts, "tool"),
    refused("INV-05: the zombie's transcript entry is not kept", attempts, "transcript"),
    finding("INV-11: the payment is made once", `${paymentCount} times`, paymentCount === 1),
    ...logFindings(log, [run.id]),
  ];
}

function refused(promised: string, attempts: readonly Attempt[], at: string): Finding {
  const attempt = attempts.find((each) => each.at === at);
  const saw = attempt === undefined ? "no attempt" : attempt.code === null ? "authorised" : `refused: ${attempt.code}`;
  return finding(promised, saw, attempt !== undefined && attempt.code !== null);
}
