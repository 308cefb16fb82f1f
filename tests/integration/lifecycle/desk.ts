/** A platform of real processes whose model does what it is told, with one tool that waits until it is let go. */
import type { ConversationHandle, RunHandle } from "@signalbox/client";
import type { EffectClass, PlatformEvent } from "@signalbox/contract";
import { startMcpServer, type McpNeighbour } from "@signalbox/testkit";
import { setStage, type Stage } from "../platform/stage.ts";
import { toldModel } from "./told-model.ts";

export interface Desk {
  readonly stage: Stage;
  readonly server: McpNeighbour;
  /** Calls of `desk/wait` come back from now on. */
  readonly open: () => void;
}

export async function setDesk(stack: AsyncDisposableStack, effect: EffectClass = "read"): Promise<Desk> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const server = stack.use(await startMcpServer({ tools: { wait: { handler: () => promise } } }));
  const tools = { wait: { effect, timeoutMs: 60_000 } };
  const toolServers = { desk: { transport: "http", url: server.url, headers: {}, tools } };
  const stage = await setStage(stack, { toolServers, sim: { script: toldModel } });
  return { stage, server, open: () => resolve("waited") };
}

export async function textsOf(conversation: ConversationHandle): Promise<readonly string[]> {
  const texts: string[] = [];
  for await (const { content } of conversation.messages()) texts.push(content);
  return texts;
}

export async function logOf(conversation: ConversationHandle): Promise<readonly PlatformEvent[]> {
  const log: PlatformEvent[] = [];
  for await (const event of conversation.events({ follow: false })) log.push(event);
  return log;
}

/** Resolves when readers of the run have seen text. */
export async function speaks(run: RunHandle): Promise<void> {
  for await (const event of run.events({ signal: AbortSignal.timeout(60_000) })) {
    if (event.type === "text.delta") return;
  }
}

/** The messages of the newest model request, each as JSON. */
export function newestContext({ sim }: Stage): readonly string[] {
  // What the simulated model recorded is a request of the Anthropic wire.
  const body = sim.modelRequests().at(-1)?.body as { readonly messages: readonly unknown[] } | undefined;
  return (body?.messages ?? []).map((message) => JSON.stringify(message));
}
