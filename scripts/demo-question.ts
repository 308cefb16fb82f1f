/** The question of the main job, asked of one agent per runtime, with what happened printed as it happens. */
import type { ConversationHandle, RunHandle, Signalbox } from "@signalbox/client";

const QUESTION = "According to the glossary, what is a generation and when does it grow?";
const INSTRUCTIONS =
  "Answer questions about the documents. Find the right file with the tools, read it, and answer in a few sentences. Name the file.";
const TOOLS = ["docs/list_allowed_directories", "docs/list_directory", "docs/search_files", "docs/read_text_file"];

export interface DemoOptions {
  readonly client: Signalbox;
  /** Whether a runtime can be asked; resolves once that is known. */
  readonly offered: (runtime: string) => Promise<boolean>;
  readonly model: string;
  readonly url: string;
  readonly question: string | undefined;
  readonly launchedAtMs: number;
  readonly say: (text: string) => void;
  readonly write: (text: string) => void;
  readonly interrupted: AbortSignal;
}

/** True when at least one runtime was there, and every one that was answered. */
export async function askEach(runtimes: readonly string[], options: DemoOptions): Promise<boolean> {
  const question = options.question ?? QUESTION;
  options.say(`\nQuestion: ${question}`);
  const answers: boolean[] = [];
  for (const runtime of runtimes) {
    if (options.interrupted.aborted) return false;
    if (await options.offered(runtime)) answers.push(await ask(options, runtime, question));
  }
  return answers.length > 0 && answers.every((answered) => answered);
}

async function ask(options: DemoOptions, runtime: string, question: string): Promise<boolean> {
  const agent = await ensureAgent(options, runtime);
  const conversation = await options.client.conversations.create({ agent });
  const sentAtMs = performance.now();
  const run = await conversation.send(question, { signal: options.interrupted });
  options.say(`\n── ${agent} · ${runtime} · ${options.model}`);
  return follow(options, { conversation, run, sentAtMs });
}

async function ensureAgent(options: DemoOptions, runtime: string): Promise<string> {
  // The model is part of the name, since an agent is frozen once made.
  const suffix = options.model.startsWith("sim/")
    ? ""
    : `-${options.model.replaceAll(/[^a-z0-9]+/gi, "-").toLowerCase()}`;
  const name = `docs-${runtime.replaceAll("_", "-")}${suffix}`.slice(0, 63);
  const { data } = await options.client.agents.list({ limit: 200 });
  if (!data.some((agent) => agent.name === name)) {
    await options.client.agents.create({
      name,
      runtime,
      model: options.model,
      instructions: INSTRUCTIONS,
      tools: TOOLS,
    });
  }
  return name;
}

async function follow(
  options: DemoOptions,
  asked: { readonly conversation: ConversationHandle; readonly run: RunHandle; readonly sentAtMs: number },
): Promise<boolean> {
  let firstTokenMs: number | null = null;
  let answered = false;
  for await (const event of asked.run.events({ signal: options.interrupted })) {
    if (event.type === "tool.started") {
      options.say(`   tool ${event.title} ${event.argumentsSummary} (${event.effect}, ${event.grade})`);
    }
    if (event.type === "tool.finished" && event.state !== "succeeded") {
      options.say(`   tool ${event.title} ${event.state}: ${event.denial ?? event.resultSummary}`);
    }
    if (event.type === "text.delta") {
      firstTokenMs ??= performance.now() - asked.sentAtMs;
      options.write(event.text);
    }
    if (event.type === "text.completed") options.say("");
    if (event.type === "text.retracted") options.say("\n   (taken back; the turn is answered anew)");
    if (event.type === "run.finished") {
      answered = event.outcome === "completed";
      if (event.error !== null) options.say(`   ${event.outcome}: ${event.error.code}: ${event.error.detail}`);
    }
  }
  const run = await asked.run.get();
  const tookMs = performance.now() - asked.sentAtMs;
  options.say(
    `   ${run.status} · first token ${Math.round(firstTokenMs ?? tookMs)} ms · done ${Math.round(tookMs)} ms · ` +
      `${run.usage.modelCalls} model calls, ${run.usage.toolCalls} tool calls · ${Math.round(performance.now() - options.launchedAtMs)} ms after launch`,
  );
  options.say(`   run ${run.id} in ${asked.conversation.id}`);
  options.say(`   events ${options.url}${run.eventsUrl}`);
  return answered;
}
