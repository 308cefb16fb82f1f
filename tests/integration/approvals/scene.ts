/** A run of real processes whose model asks for tools that cannot be taken back, and people who are asked about it. */
import type { ConversationHandle, RunHandle } from "@signalbox/client";
import type { DecideHold, Hold, PlatformEvent } from "@signalbox/contract";
import { startMcpServer, type McpNeighbour } from "@signalbox/testkit";
import type { RealProcess } from "../../setup/real-processes.ts";
import { until } from "../../setup/until.ts";
import { conversationWith, rowsOf, setStage, type Stage } from "../platform/stage.ts";

export const SHAPES = ["circle", "square", "triangle"] as const;
export type Shape = (typeof SHAPES)[number];
export const RUNTIMES = ["langgraph", "claude_sdk"] as const;
export type Runtime = (typeof RUNTIMES)[number];

/** As the model of this runtime knows the tool. */
function wireNameOf(runtime: Runtime, shape: Shape): string {
  return `${runtime === "claude_sdk" ? "mcp__signalbox__" : ""}shapes__${shape}`;
}

export interface Scene {
  readonly stage: Stage;
  readonly runtime: Runtime;
  readonly shelf: McpNeighbour;
  readonly worker: RealProcess;
  readonly conversation: ConversationHandle;
  /** How often each tool was really called. */
  made(): Readonly<Record<Shape, number>>;
}

export async function setScene(
  stack: AsyncDisposableStack,
  runtime: Runtime,
  settings: Readonly<Record<string, unknown>> = { effect: "irreversible", timeoutMs: 60_000 },
): Promise<Scene> {
  const tools = Object.fromEntries(SHAPES.map((shape) => [shape, { result: `${shape} drawn` }]));
  const shelf = stack.use(await startMcpServer({ tools }));
  const shapes = Object.fromEntries(SHAPES.map((shape) => [shape, settings]));
  const stage = await setStage(stack, {
    toolServers: { shapes: { transport: "http", url: shelf.url, headers: {}, tools: shapes } },
  });
  const worker = stage.worker(runtime);
  const granted = SHAPES.map((shape) => `shapes/${shape}`);
  const conversation = await conversationWith(stage.client, runtime, granted);
  const made = (): Record<Shape, number> => {
    const counts = { circle: 0, square: 0, triangle: 0 };
    for (const { tool } of shelf.calls) if (tool in counts) counts[tool as Shape] += 1;
    return counts;
  };
  return { stage, runtime, shelf, worker, conversation, made };
}

/** A message whose answer begins with these calls, in this order. */
export function askFor(runtime: Runtime, shapes: readonly Shape[]): string {
  const markers = shapes.map((shape, index) => `[[sim:tool ${wireNameOf(runtime, shape)} {"size":${index + 1}}]]`);
  return `${markers.join(" ")} Draw them.`;
}

/** The approvals a run waits for, once there are so many, by the tool they are about. */
export async function approvalsOf(
  { stage }: Pick<Scene, "stage">,
  run: RunHandle,
  count: number,
): Promise<ReadonlyMap<string, Hold>> {
  let found: readonly Hold[] = [];
  await until(
    `${count} approvals`,
    async () => {
      found = (await stage.client.holds.list({ run: run.id, state: "open" })).data;
      return found.length === count;
    },
    60_000,
  );
  return new Map(found.map((hold) => [String(hold.subject.tool), hold]));
}

export async function decide(
  { stage }: Pick<Scene, "stage">,
  hold: Hold | undefined,
  decision: Omit<DecideHold, "digest">,
): Promise<void> {
  if (hold === undefined) throw new Error("nobody was asked about this");
  const { digest } = hold;
  await stage.client.holds.decide(hold.id, { ...decision, ...(digest === null ? {} : { digest }) });
}

export async function logOf(conversation: ConversationHandle): Promise<readonly PlatformEvent[]> {
  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  return log;
}

export async function untilSuspended({ stage }: Pick<Scene, "stage">, run: RunHandle): Promise<void> {
  await until(
    "the run is suspended",
    async () => (await stage.client.runs.get(run.id)).status === "waiting" && (await isSuspended(stage, run.id)),
    60_000,
  );
}

async function isSuspended(stage: Stage, runId: string): Promise<boolean> {
  const rows = await rowsOf<{ state: string }>(stage, "select state from signalbox.run where id = $1", [runId]);
  return rows[0]?.state === "suspended";
}
