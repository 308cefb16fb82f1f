/** Asks for a payment that cannot be taken back, kills everything while a person is asked, and looks what is paid. */
import type { Approval, PlatformEvent } from "@signalbox/contract";
import { RUN_AT_REST } from "../../store/statements/catalog-statements.ts";
import { DemoStage, type DemoStageOptions } from "./demo-stage.ts";
import { payments, paymentsMade } from "./payments.ts";
import { finding, logFindings, type Finding } from "./promise-table.ts";
import { breakApprovals } from "./sabotage.ts";

const RUNTIME = "langgraph";
const ASK = '[[sim:tool payments__count {"cents":700}]] Pay invoice 7.';
const BOUND_MS = 60_000;
const POLL_MS = 50;

export interface ApprovalOptions extends DemoStageOptions {
  /** Lets calls be made without waiting for who is asked, so that the check must find it. */
  readonly broken: boolean;
}

export async function demonstrateApproval(options: ApprovalOptions): Promise<readonly Finding[]> {
  const { note } = options;
  const toolServers = (folder: string) => payments(folder, { effect: "irreversible" });
  await using stage = await DemoStage.set({ ...options, toolServers });
  if (options.broken) {
    note("waiting for approvals is taken out of this database …");
    await breakApprovals(stage);
  }
  const worker = await stage.startWorker(RUNTIME);
  const agent = { name: "demo", runtime: RUNTIME, model: "sim/extractive-1", instructions: "Pay." };
  await stage.client.agents.create({ ...agent, tools: ["payments/count"] });
  const conversation = await stage.client.conversations.create({ agent: "demo" });
  const run = await conversation.send(ASK);
  note("the model asks for a payment; the run waits for a person, and after 20 s needs no process any more …");
  await untilItRests(stage, run.id);
  const before = paymentsMade(stage.folder);
  const [asked] = (await stage.client.approvals.list({ run: run.id })).data;

  note("everything is killed and started again …");
  await Promise.all([worker.kill(), stage.platform?.kill()]);
  await stage.startPlatform();
  await stage.startWorker(RUNTIME);
  const [kept] = (await stage.client.approvals.list({ run: run.id })).data;
  const decided = await decide(stage, kept);
  note("it is approved, once and then again …");
  const result = await run.result({ signal: AbortSignal.timeout(BOUND_MS) });

  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  const after = paymentsMade(stage.folder);
  const shown = JSON.stringify(kept?.arguments ?? null);
  return [
    finding("INV-12: nothing is paid before somebody has approved it", `${before} times`, before === 0),
    finding(
      "the question outlives every process, word for word",
      `${kept?.state ?? "gone"}, ${shown}`,
      kept?.state === "open" && kept.digest === asked?.digest && shown === '{"cents":700}',
    ),
    finding("a second decision gets the first", decided, decided === "decided, then already_decided"),
    finding("the run goes on and is answered", result.outcome, result.outcome === "completed"),
    finding("INV-11: the payment is made once", `${after} times`, after === 1),
    ...logFindings(log, [run.id]),
  ];
}

async function decide(stage: DemoStage, approval: Approval | undefined): Promise<string> {
  if (approval?.state !== "open") return "nothing to decide";
  const { approvals } = stage.client;
  const digest = approval.digest ?? "";
  const first = await approvals.decide(approval.id, { decision: "approve", digest });
  const second = await approvals.decide(approval.id, { decision: "reject", digest });
  return `${first.outcome}, then ${second.outcome}`;
}

/** Until the run needs nobody, because it waits or because it is over. */
async function untilItRests(stage: DemoStage, runId: string): Promise<void> {
  const deadlineMs = performance.now() + BOUND_MS;
  for (;;) {
    const [run] = await stage.query<{ state: string; isOver: boolean }>(RUN_AT_REST, [runId]);
    if (run?.state === "suspended" || run?.isOver === true) return;
    if (performance.now() > deadlineMs) throw new Error(`the run did not come to rest, it is ${run?.state ?? "gone"}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
