/** Talk to an agent: one message with `--message`, or a conversation on a terminal. */
import { createInterface } from "node:readline/promises";
import { SignalboxError, type ConversationHandle, type RunHandle } from "@signalbox/client";
import {
  CONNECTION_OPTIONS,
  EXIT,
  textFlag,
  UsageError,
  type Command,
  type CommandCall,
  type ExitCode,
} from "../command.ts";
import { clientOf } from "../connection.ts";

export const chatCommand: Command = {
  name: "chat",
  summary: "Talk to an agent",
  usage: `signalbox chat [AGENT]                       a conversation; Ctrl-C stops an answer, Ctrl-D ends
signalbox chat [AGENT] --message TEXT        one message
signalbox chat --conversation ID             go on with a conversation`,
  options: { ...CONNECTION_OPTIONS, message: { type: "string", short: "m" }, conversation: { type: "string" } },
  async run(call) {
    const conversation = await openConversation(call);
    const message = textFlag(call, "message");
    if (message !== undefined) return answer(call, { conversation, text: message, stop: call.interrupted });
    if (!process.stdin.isTTY) return answer(call, { conversation, text: await readAll(), stop: call.interrupted });
    return converse(call, conversation);
  },
};

async function openConversation(call: CommandCall): Promise<ConversationHandle> {
  const client = clientOf(call);
  const [agent, ...rest] = call.words;
  if (rest.length > 0) throw new UsageError("name one agent");
  const known = textFlag(call, "conversation");
  if (known !== undefined) return client.conversations.open(known);
  const name = agent ?? (await client.agents.list({ limit: 1, order: "asc" })).data[0]?.name;
  if (name === undefined) throw new UsageError("there are no agents yet; make one with `signalbox agents create`");
  return client.conversations.create({ agent: name });
}

async function converse(call: CommandCall, conversation: ConversationHandle): Promise<ExitCode> {
  const { terminal } = call;
  const { agent } = await conversation.get();
  terminal.line(`${terminal.style("bold", agent.name)} ${terminal.style("dim", conversation.id)}`);
  const input = createInterface({ input: process.stdin, output: process.stdout, historySize: 100 });
  const closed = new AbortController();
  let stop = new AbortController();
  let answering = false;
  input.on("SIGINT", () => (answering ? stop.abort() : input.close()));
  input.on("close", () => closed.abort());
  try {
    for (;;) {
      const text = await input.question(`${terminal.style("cyan", "›")} `, { signal: closed.signal });
      if (text.trim() === "") continue;
      stop = new AbortController();
      answering = true;
      await answer(call, { conversation, text, stop: stop.signal });
      answering = false;
    }
  } catch (thrown) {
    if (!closed.signal.aborted) throw thrown;
    terminal.line();
    return EXIT.done;
  } finally {
    input.close();
  }
}

async function answer(
  call: CommandCall,
  message: { readonly conversation: ConversationHandle; readonly text: string; readonly stop: AbortSignal },
): Promise<ExitCode> {
  const { terminal } = call;
  const { run, accepted } = await message.conversation.sendDetailed(message.text);
  if (terminal.json) {
    const result = await run.result();
    terminal.value({ conversationId: message.conversation.id, runId: run.id, ...result });
    return result.outcome === "completed" ? EXIT.done : EXIT.failed;
  }
  terminal.progress(accepted.accepted === "queued" ? "waiting for the answer before this one …" : "thinking …");
  const cancel = (): void => {
    terminal.note(terminal.style("yellow", "stopping …"));
    run
      .cancel()
      .catch((thrown: unknown) => terminal.note(String(thrown instanceof SignalboxError ? thrown.message : thrown)));
  };
  message.stop.addEventListener("abort", cancel, { once: true });
  try {
    return await follow(call, run);
  } finally {
    message.stop.removeEventListener("abort", cancel);
  }
}

async function follow(call: CommandCall, run: RunHandle): Promise<ExitCode> {
  const { terminal } = call;
  let atLineStart = true;
  const write = (text: string): void => {
    terminal.text(text);
    if (text !== "") atLineStart = text.endsWith("\n");
  };
  const freshLine = (): void => {
    if (!atLineStart) write("\n");
  };
  for await (const event of run.events()) {
    if (event.type === "text.delta") write(event.text);
    if (event.type === "text.completed") freshLine();
    if (event.type === "text.retracted") {
      freshLine();
      terminal.line(terminal.style("dim", "(what stands above was taken back)"));
    }
    if (event.type === "run.phase") terminal.progress(`${event.phase.replaceAll("_", " ")} …`);
    if (event.type === "tool.started") {
      freshLine();
      terminal.line(terminal.style("dim", `→ ${event.title} ${event.argumentsSummary}`));
    }
    if (event.type === "run.finished") {
      freshLine();
      if (event.outcome === "completed") return EXIT.done;
      const why = event.error === null ? event.reason : `${event.error.code}: ${event.error.detail}`;
      terminal.note(terminal.style(event.outcome === "failed" ? "red" : "yellow", `${event.outcome} (${why})`));
      return EXIT.failed;
    }
  }
  return EXIT.failed;
}

async function readAll(): Promise<string> {
  let text = "";
  process.stdin.setEncoding("utf8");
  for await (const chunk of process.stdin) text += String(chunk);
  return text;
}
